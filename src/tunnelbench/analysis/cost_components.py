"""Cost of forwarding, tunnel, cipher and digest in a run, from variants of a tunnel that differ only in these.

By difference: all components are fitted together to the router's CPU time in the run's own trials (docs/cost-model.md).
By calculation: the time that the measured speed of the cipher or digest predicts for the same number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tunnelbench.analysis.algorithms import ALGORITHM_OPTIONS, CIPHER_OPTION, is_aead, used_algorithms
from tunnelbench.analysis.cost import Amount, CostFit, Flow, MeasuredLoad, fit_cost
from tunnelbench.analysis.cost_model import ONE_SIZE
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.trial_cells import CellTable, TrialCell, cells_of, table_of
from tunnelbench.model.cipher_speed import PLAIN, CipherSpeed
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord


class PacketWork(StrEnum):
    """A kind of work that the router does for each packet, in the order in which it is done."""

    FORWARDING = "forwarding"
    TUNNEL = "tunnel"
    """The tunnel's outer header and, for a tunnel program, the copy of the packet into user space and back."""
    CIPHER = "cipher"
    DIGEST = "digest"


@dataclass(frozen=True)
class CostComponent:
    """One kind of work that the router does for a packet, or several that always occur together in the variants."""

    names: tuple[str, ...]
    """`forwarding`, `tunnel`, `cipher AES-128-CBC`, `digest SHA1`."""

    @property
    def label(self) -> str:
        return " and ".join(self.names)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names of its ciphers and digests, as in `CipherSpeed.algorithm`."""
        return tuple(name.partition(" ")[2].lower() for name in self.names if " " in name)

    @property
    def is_algorithm(self) -> bool:
        """True if it is ciphers and digests only, so that their speed predicts its cost."""
        return len(self.algorithms) == len(self.names)


@dataclass(frozen=True)
class ComponentCost:
    """Cost of one component of a full packet with one payload in one direction."""

    component: CostComponent
    direction: Direction
    payload_bytes: int
    """Payload as asked for [bytes]."""
    packet_bytes: float
    """Inner IP packet: the median of the variants [bytes]."""
    by_difference_s: Amount
    by_calculation_s: float | None
    """None: not an algorithm, or its speed was not measured on the router."""

    @property
    def is_distinguishable(self) -> bool | None:
        """True if the cost is larger than its error; None: the error is unknown."""
        error = self.by_difference_s.error
        return None if error is None else self.by_difference_s.value > error

    @property
    def is_impossible(self) -> bool:
        """True if the cost is negative and has no error estimate."""
        return self.by_difference_s.error is None and self.by_difference_s.value < 0

    @property
    def reported_s(self) -> Amount | None:
        """The cost by difference [s]; None if it is impossible."""
        return None if self.is_impossible else self.by_difference_s


@dataclass(frozen=True)
class MeasuredComponents:
    """Components of the cost of one tunnel, from its variants."""

    kind: str
    variants: tuple[str, ...]
    """Names of the tunnels."""
    components: tuple[CostComponent, ...]
    costs: tuple[ComponentCost, ...]
    """Costs ordered by payload, direction and component."""
    fitted: CostFit
    worst_misfit_share: float
    """Largest relative difference between the measured cost of a variant and the sum of its components."""

    @property
    def shown_costs(self) -> list[ComponentCost]:
        """Costs with the smallest and the largest payload, which reports show."""
        sizes = [cost.payload_bytes for cost in self.costs]
        return [cost for cost in self.costs if cost.payload_bytes in {min(sizes), max(sizes)}]

    @property
    def aead_ciphers(self) -> tuple[str, ...]:
        """Ciphers whose component includes the authentication."""
        names = [name for component in self.components for name in component.names]
        ciphers = [name.partition(" ")[2] for name in names if name.startswith(PacketWork.CIPHER)]
        return tuple(name for name in ciphers if is_aead(name))


@dataclass(frozen=True)
class UnknownComponents:
    """Variants of a tunnel whose components cannot be separated, and the reason."""

    kind: str
    variants: tuple[str, ...]
    reason: str


def measured_components(
    records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed] = ()
) -> tuple[MeasuredComponents | UnknownComponents, ...]:
    """Fit the components of each tunnel that has two variants or more, in the order of the plan."""
    by_tunnel: dict[str, list[TrialRecord]] = {}
    groups: dict[object, dict[str, TunnelSpec]] = {}
    baseline: dict[str, TunnelSpec] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        tunnel = record.spec.tunnel
        by_tunnel.setdefault(tunnel.name, []).append(record)
        if tunnel.is_baseline:
            baseline[tunnel.name] = tunnel
        elif CIPHER_OPTION in tunnel.options:
            groups.setdefault(_without_algorithms(tunnel), {})[tunnel.name] = tunnel
    return tuple(
        _components_of(list(group.values()), list(baseline.values()), by_tunnel, speeds)
        for group in groups.values()
        if len({_work_of(tunnel) for tunnel in group.values()}) > 1
    )


def _without_algorithms(tunnel: TunnelSpec) -> object:
    """Return a key that is equal for tunnels that differ only in cipher and digest."""
    others = {name: value for name, value in tunnel.options.items() if name not in ALGORITHM_OPTIONS}
    return tunnel.kind, tuple(sorted((name, repr(value)) for name, value in others.items()))


def _work_of(tunnel: TunnelSpec) -> tuple[str, ...]:
    """Return the names of the kinds of work that the router does for a packet of a tunnel."""
    if tunnel.is_baseline:
        return (PacketWork.FORWARDING,)
    used = used_algorithms(tunnel.options)
    return (PacketWork.FORWARDING, PacketWork.TUNNEL, *(f"{kind} {name}" for kind, name in used.items()))


def _components_of(
    group: Sequence[TunnelSpec],
    baseline: Sequence[TunnelSpec],
    by_tunnel: Mapping[str, Sequence[TrialRecord]],
    speeds: Sequence[CipherSpeed],
) -> MeasuredComponents | UnknownComponents:
    names = tuple(tunnel.name for tunnel in group)
    cells: list[TrialCell] = []
    why_not = ""
    for tunnel in (*baseline, *group):
        own, why = cells_of(by_tunnel[tunnel.name])
        why_not = why_not or why
        cells += own
    tunnels = {cell.tunnel for cell in cells}
    work = {tunnel.name: _work_of(tunnel) for tunnel in (*baseline, *group) if tunnel.name in tunnels}
    if len({work[name] for name in names if name in work}) < 2:
        return UnknownComponents(group[0].kind, names, why_not or "fewer than two variants have trials that count")
    table = table_of(cells)
    if len(table.payloads) < 2:
        return UnknownComponents(group[0].kind, names, ONE_SIZE)
    components = _separable(work)
    loads = [
        _by_component(table.load_of(cell), [each for each in components if set(each.names) <= set(work[cell.tunnel])])
        for cell in cells
    ]
    try:
        fitted = fit_cost(loads, [_term(each, direction) for each in components for direction in table.directions])
    except ValueError:
        labels = ", ".join(each.label for each in components)
        reason = f"the measured variants and sizes do not separate these: {labels}"
        return UnknownComponents(group[0].kind, names, reason)
    tunnelled = CellTable([cell for cell in cells if cell.tunnel in names], table.effects)
    return MeasuredComponents(
        kind=group[0].kind,
        variants=names,
        components=components,
        costs=tuple(_costs(components, table.directions, tunnelled, fitted, speeds)),
        fitted=fitted,
        worst_misfit_share=max(abs(residual) for residual in fitted.fit.residuals),
    )


def _separable(work: Mapping[str, tuple[str, ...]]) -> tuple[CostComponent, ...]:
    """Return the components in the order of the work; work that occurs in the same variants is one component."""
    occurring = dict.fromkeys(name for own in work.values() for name in own)
    ordered = [name for kind in PacketWork for name in occurring if name.split()[0] == kind]
    together: dict[frozenset[str], list[str]] = {}
    for name in ordered:
        together.setdefault(frozenset(tunnel for tunnel, own in work.items() if name in own), []).append(name)
    return tuple(CostComponent(tuple(names)) for names in together.values())


def _term(component: CostComponent, direction: str) -> str:
    return f"{component.label}, {direction}"


def _by_component(load: MeasuredLoad, components: Sequence[CostComponent]) -> MeasuredLoad:
    """Make each packet of a load part of the cost of every component."""
    flows = tuple(Flow(_term(each, flow.term), flow.packets, flow.bytes) for each in components for flow in load.flows)
    return MeasuredLoad(load.busy, flows)


def _costs(
    components: Sequence[CostComponent],
    directions: Sequence[Direction],
    tunnelled: CellTable,
    fitted: CostFit,
    speeds: Sequence[CipherSpeed],
) -> list[ComponentCost]:
    found = []
    for payload in tunnelled.payloads:
        size = median([cell.packet_bytes for cell in tunnelled.cells if cell.payload_bytes == payload])
        for direction in directions:
            for each in components:
                amount = fitted.packet_s(_term(each, direction), size)
                calculated = calculated_s(each.algorithms, size, speeds) if each.is_algorithm else None
                found.append(ComponentCost(each, direction, payload, size, amount, calculated))
    return found


def calculated_s(algorithms: Sequence[str], size_bytes: float, speeds: Sequence[CipherSpeed]) -> float | None:
    """Return the time that algorithms take one after the other for so many bytes on the router [s].

    The speeds are those of one thread with all CPU instructions. None: the speed of an algorithm is unknown.
    """
    total_s = 0.0
    for algorithm in algorithms:
        own = [speed for speed in speeds if speed.algorithm == algorithm and is_router_speed(speed)]
        time_s = _block_s(own[0].bytes_per_s, size_bytes) if own else None
        if time_s is None:
            return None
        total_s += time_s
    return total_s


def is_router_speed(speed: CipherSpeed) -> bool:
    """Return True if a speed was measured on the router, with one thread and all CPU instructions."""
    return "router" in speed.hosts and speed.acceleration == PLAIN and speed.threads == 1 and bool(speed.bytes_per_s)


def _block_s(bytes_per_s: Mapping[int, float], size_bytes: float) -> float | None:
    """Interpolate the time of a block between the two nearest measured block sizes [s]; None outside the measured
    range."""
    for small, large in pairwise(sorted(bytes_per_s)):
        if small <= size_bytes <= large:
            small_s, large_s = small / bytes_per_s[small], large / bytes_per_s[large]
            return small_s + (large_s - small_s) * (size_bytes - small) / (large - small)
    return None
