"""What forwarding, the tunnel, its cipher and its digest cost in a run, from variants that differ in nothing else.

By difference: all parts are fitted at once to the router's CPU in the run's own trials (docs/cost-model.md). By
calculation: what the cipher's or digest's own speed predicts for as many bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tunnelbench.analysis.cells import Cell, cells_of, load_of
from tunnelbench.analysis.cost import Amount, CostFit, Flow, Load, fit_cost
from tunnelbench.analysis.parts import CIPHER, CROSSING, DIGEST, FORWARDING, NO_ALGORITHM
from tunnelbench.analysis.polish import block_effects
from tunnelbench.analysis.statistics import median
from tunnelbench.model.cipher_speed import PLAIN, CipherSpeed
from tunnelbench.model.plan import BASELINE_KIND, Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord

ALGORITHM_OPTIONS = frozenset({"cipher", "auth", "digest"})
"""Options in which variants of one tunnel may differ."""

AEAD_ENDS = ("-gcm", "-poly1305")
"""Ciphers that authenticate by themselves: no digest beside them, whatever the options say."""


@dataclass(frozen=True)
class Part:
    """What the router does to a packet, or several such that no variant has apart."""

    names: tuple[str, ...]
    """`forwarding`, `tunnel`, `cipher AES-128-CBC`, `digest SHA1`."""

    @property
    def label(self) -> str:
        return " and ".join(self.names)

    def is_in(self, names: Sequence[str]) -> bool:
        """Whether a tunnel whose parts have these names has this one."""
        return set(self.names) <= set(names)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """As cipher speed names them."""
        return tuple(name.partition(" ")[2].lower() for name in self.names if " " in name)

    @property
    def is_algorithm(self) -> bool:
        """Whether it is ciphers and digests alone, so that their speed can be set beside it."""
        return len(self.algorithms) == len(self.names)


@dataclass(frozen=True)
class PartCost:
    """One part of a full packet of one payload that travels one way."""

    part: Part
    direction: Direction
    payload_bytes: int
    """As asked for [bytes]."""
    packet_bytes: float
    """Inner IP packet: the median of the variants [bytes]."""
    by_difference_s: Amount
    by_calculation_s: float | None
    """None: no such thing, or the speed was not measured on the router."""

    @property
    def is_told_from_nothing(self) -> bool | None:
        """Whether it is larger than its error; None: the error is not known."""
        error = self.by_difference_s.error
        return None if error is None else self.by_difference_s.value > error

    @property
    def is_impossible(self) -> bool:
        """Below zero, with no error that says how little that means."""
        return self.by_difference_s.error is None and self.by_difference_s.value < 0

    @property
    def told_s(self) -> Amount | None:
        """By difference; None where nothing is told [s]."""
        return None if self.is_impossible else self.by_difference_s


@dataclass(frozen=True)
class OwnParts:
    """The parts of one tunnel, from its variants."""

    kind: str
    variants: tuple[str, ...]
    """Names of the tunnels."""
    parts: tuple[Part, ...]
    costs: tuple[PartCost, ...]
    """By payload, direction and part."""
    fitted: CostFit
    worst_misfit_share: float
    """The largest difference of a variant's measured cost at a size from the sum of its parts, over the former."""

    @property
    def aead_ciphers(self) -> tuple[str, ...]:
        """Ciphers whose part is their authentication, too."""
        names = [name.partition(" ")[2] for part in self.parts for name in part.names if name.startswith(CIPHER)]
        return tuple(name for name in names if is_aead(name))


@dataclass(frozen=True)
class NoParts:
    """Variants whose parts cannot be told apart, and why."""

    kind: str
    variants: tuple[str, ...]
    reason: str


def is_aead(cipher: str) -> bool:
    return cipher.lower().endswith(AEAD_ENDS)


def own_parts(records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed] = ()) -> tuple[OwnParts | NoParts, ...]:
    """One for each tunnel of which there are two variants or more, in the order of the plan."""
    by_tunnel: dict[str, list[TrialRecord]] = {}
    groups: dict[object, dict[str, TunnelSpec]] = {}
    baseline: dict[str, TunnelSpec] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        tunnel = record.spec.tunnel
        by_tunnel.setdefault(tunnel.name, []).append(record)
        if tunnel.is_baseline:
            baseline[tunnel.name] = tunnel
        elif "cipher" in tunnel.options:
            groups.setdefault(_apart_from_algorithms(tunnel), {})[tunnel.name] = tunnel
    return tuple(
        _of_group(list(group.values()), list(baseline.values()), by_tunnel, speeds)
        for group in groups.values()
        if len({_names_of(tunnel) for tunnel in group.values()}) > 1
    )


def _apart_from_algorithms(tunnel: TunnelSpec) -> object:
    others = {name: value for name, value in tunnel.options.items() if name not in ALGORITHM_OPTIONS}
    return tunnel.kind, tuple(sorted((name, repr(value)) for name, value in others.items()))


def _names_of(tunnel: TunnelSpec) -> tuple[str, ...]:
    """What a packet goes through in a tunnel."""
    if tunnel.kind == BASELINE_KIND:
        return (FORWARDING,)
    cipher = str(tunnel.options["cipher"])
    digest = str(tunnel.options.get("digest") or tunnel.options.get("auth") or NO_ALGORITHM)
    found = [FORWARDING, CROSSING]
    if cipher.lower() != NO_ALGORITHM:
        found.append(f"{CIPHER} {cipher}")
    if digest.lower() != NO_ALGORITHM and not is_aead(cipher):
        found.append(f"{DIGEST} {digest}")
    return tuple(found)


def _of_group(
    group: Sequence[TunnelSpec],
    baseline: Sequence[TunnelSpec],
    by_tunnel: Mapping[str, Sequence[TrialRecord]],
    speeds: Sequence[CipherSpeed],
) -> OwnParts | NoParts:
    names = tuple(tunnel.name for tunnel in group)
    cells: dict[str, list[Cell]] = {}
    why_not = ""
    for tunnel in (*baseline, *group):
        own, why = cells_of(by_tunnel[tunnel.name])
        why_not = why_not or why
        if own:
            cells[tunnel.name] = own
    measured = {tunnel.name: _names_of(tunnel) for tunnel in (*baseline, *group) if tunnel.name in cells}
    if len({measured[name] for name in names if name in measured}) < 2:
        return NoParts(group[0].kind, names, why_not or "fewer than two variants have trials that count")
    every = [cell for own in cells.values() for cell in own]
    if len({cell.payload_bytes for cell in every}) < 2:
        return NoParts(group[0].kind, names, "one size makes no line")
    parts = _parts(measured)
    directions = tuple(direction for direction in Direction if any(cell.direction is direction for cell in every))
    # A round's speed is what all variants and sizes have in common in it: what one variant has by itself is chance.
    effects = block_effects(
        {((name, *cell.place), number): cost for name, own in cells.items() for cell in own
         for number, cost in cell.by_round}
    )  # fmt: skip
    loads = [
        _in_parts(
            load_of(cell, effects, directions), [part for part in parts if set(part.names) <= set(measured[name])]
        )
        for name, own in cells.items()
        for cell in own
    ]
    unknowns = [_unknown(part, direction) for part in parts for direction in directions]
    try:
        fitted = fit_cost(loads, unknowns)
    except ValueError:
        said = ", ".join(part.label for part in parts)
        return NoParts(group[0].kind, names, f"the variants and sizes measured do not tell these apart: {said}")
    tunnelled = [cell for name in names for cell in cells.get(name, [])]
    return OwnParts(
        kind=group[0].kind,
        variants=names,
        parts=parts,
        costs=tuple(_costs(parts, directions, tunnelled, fitted, speeds)),
        fitted=fitted,
        worst_misfit_share=max(abs(residual) for residual in fitted.fit.residuals),
    )


def _parts(measured: Mapping[str, tuple[str, ...]]) -> tuple[Part, ...]:
    """What occurs, in the order of its work; what occurs in the same variants is one part."""
    users: dict[str, frozenset[str]] = {}
    for name in (name for kind in (FORWARDING, CROSSING, CIPHER, DIGEST) for own in measured.values() for name in own
                 if name.split()[0] == kind):  # fmt: skip
        users[name] = frozenset(tunnel for tunnel, own in measured.items() if name in own)
    together: dict[frozenset[str], list[str]] = {}
    for name, tunnels in users.items():
        together.setdefault(tunnels, []).append(name)
    return tuple(Part(tuple(names)) for names in together.values())


def _unknown(part: Part, direction: str) -> str:
    return f"{part.label}, {direction}"


def _in_parts(load: Load, parts: Sequence[Part]) -> Load:
    """The same packets, each going through every part."""
    flows = tuple(Flow(_unknown(part, flow.part), flow.packets, flow.bytes) for part in parts for flow in load.flows)
    return Load(load.busy, flows)


def _costs(
    parts: Sequence[Part],
    directions: Sequence[Direction],
    cells: Sequence[Cell],
    fitted: CostFit,
    speeds: Sequence[CipherSpeed],
) -> list[PartCost]:
    found = []
    for payload in sorted({cell.payload_bytes for cell in cells}):
        size = median([cell.packet_bytes for cell in cells if cell.payload_bytes == payload])
        for direction in directions:
            for part in parts:
                amount = fitted.packet_s(_unknown(part, direction), size)
                calculated = calculated_s(part.algorithms, size, speeds) if part.is_algorithm else None
                found.append(PartCost(part, direction, payload, size, amount, calculated))
    return found


def calculated_s(algorithms: Sequence[str], size_bytes: float, speeds: Sequence[CipherSpeed]) -> float | None:
    """What algorithms take one after the other for so many bytes on the router, one thread, nothing masked [s].

    None where the speed of one of them is not known.
    """
    total_s = 0.0
    for algorithm in algorithms:
        own = [speed for speed in speeds if speed.algorithm == algorithm and _is_the_routers(speed)]
        time_s = _block_s(own[0].bytes_per_s, size_bytes) if own else None
        if time_s is None:
            return None
        total_s += time_s
    return total_s


def _is_the_routers(speed: CipherSpeed) -> bool:
    return "router" in speed.hosts and speed.acceleration == PLAIN and speed.threads == 1 and bool(speed.bytes_per_s)


def _block_s(bytes_per_s: Mapping[int, float], size_bytes: float) -> float | None:
    """Time of a block between the two nearest that were measured, in a straight line; None outside them [s]."""
    for small, large in pairwise(sorted(bytes_per_s)):
        if small <= size_bytes <= large:
            small_s, large_s = small / bytes_per_s[small], large / bytes_per_s[large]
            return small_s + (large_s - small_s) * (size_bytes - small) / (large - small)
    return None
