"""What the figures of a run advise: one rule a function, each in words that say no more than the figures do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.analysis.limits import Finding, Limit
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.own_parts import ALGORITHM_OPTIONS, is_aead
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.plan import Direction

NO_ALGORITHM = "none"
CIPHER_OPTION = "cipher"
"""The option that adapters name their cipher by."""
DIGEST_OPTIONS = ALGORITHM_OPTIONS - {CIPHER_OPTION}


@dataclass(frozen=True)
class Advice:
    """One thing that follows from the figures."""

    rule: str
    """Short and stable, such as `target`."""
    text: str


@dataclass(frozen=True)
class Judged:
    """A row with its figures and what limits it."""

    row: Row
    figures: Figures
    limits: tuple[Limit, ...]

    @property
    def place(self) -> tuple[int, Direction]:
        return self.row.payload_bytes, self.row.direction


def advise(
    rows: Sequence[Row],
    limits: Sequence[Sequence[Finding]],
    *,
    target_mbps: float | None = None,
    cpu_mhz: float | None = None,
    is_shared: bool = False,
) -> tuple[Advice, ...]:
    """All that the rules say. `limits` has what limits each row; `is_shared`: the machine is no device of its own."""
    judged = [
        Judged(row, row.figures, tuple(finding.limit for finding in found))
        for row, found in zip(rows, limits, strict=True)
        if row.figures is not None and not row.is_calibration
    ]
    said = [
        *(_target(judged, target_mbps) if target_mbps else ()),
        *_without_cipher(judged),
        *_kernel_or_program(judged),
        *_asymmetry(judged),
        *(_clock(judged, cpu_mhz) if cpu_mhz else ()),
    ]
    if said and is_shared:
        said.append(
            Advice(
                "machine",
                "All of this holds for this machine, which router and testers share or a hypervisor lends, not for a "
                "device.",
            )
        )
    return tuple(said)


def _target(judged: Sequence[Judged], target_mbps: float) -> Iterator[Advice]:
    """Will it carry so much, through which tunnel, with what headroom: with the largest payload, each way by itself."""
    target = f"{target_mbps:g} Mbit/s"
    headroom: list[tuple[float, str]] = []
    for name, own in _largest_payload(judged).items():
        verdicts = [_verdict(one, target_mbps) for one in own]
        words = "; ".join(f"{one.row.direction}: {text}" for one, (_, text) in zip(own, verdicts, strict=True))
        answers = {answer for answer, _ in verdicts}
        answer = next(each for each in ("no", "not shown", "yes") if each in answers)
        ways = "" if len(own) == len(Direction) else f" ({own[0].row.direction} alone was measured)"
        yield Advice("target", f"{target} through {name}: {answer}{ways}. {words}.")
        spare = [1 - busy for one in own if (busy := _busy_at(one.figures, target_mbps)) is not None]
        if answer == "yes" and len(spare) == len(own) and min(spare) >= 0 and not own[0].row.tunnel.is_baseline:
            headroom.append((min(spare), name))
    if headroom:
        spare_share, name = max(headroom)
        left = f"about {percent(spare_share)} of a CPU"
        yield Advice("target", f"Of the tunnels that carry {target}, {name} leaves the router most: {left}.")


def _verdict(one: Judged, target_mbps: float) -> tuple[str, str]:
    """`yes`, `no` or `not shown`, and the figures behind it."""
    found = one.figures.throughput_bps
    once = " once" if found.count == 1 else ""
    measured = f"{significant(found.median / 1e6)} Mbit/s measured{once}"
    if found.low >= target_mbps * 1e6:
        busy = _busy_at(one.figures, target_mbps)
        if busy is None:
            return "yes", measured
        if busy > 1:  # more than one CPU shared the work
            return "yes", f"{measured}, at the target about {significant(busy, 3)} CPUs busy"
        return "yes", f"{measured}, at the target its CPU about {percent(busy)} busy"
    if found.high >= target_mbps * 1e6:
        return "not shown", f"{measured}, and the target is inside the spread"
    full = [limit for limit in one.limits if limit in (Limit.ROUTER_CPU, Limit.ONE_CORE, Limit.LINE)]
    if Limit.TESTER not in one.limits and full:
        return "no", f"{measured}, limited by the {full[0]}"
    known = [limit for limit in one.limits if limit is not Limit.UNKNOWN]
    why = f"limited by the {known[0]}" if known else "and what limited it is not known"
    cost = one.figures.cpu_s_per_gigabit
    more = f"; a CPU busy all the time would carry {significant(1e3 / cost.median, 3)}" if cost and cost.median else ""
    return "not shown", f"{measured}, {why}{more}"


def _busy_at(figures: Figures, target_mbps: float) -> float | None:
    """Share of one CPU that so much traffic takes, if a bit goes on costing the same."""
    cost = figures.cpu_s_per_gigabit
    return None if cost is None else target_mbps / 1000 * cost.median


def _without_cipher(judged: Sequence[Judged]) -> Iterator[Advice]:
    """What dropping the cipher would give: two tunnels that differ in nothing else.

    A cipher that authenticates by itself is set beside neither cipher nor digest: beside a digest alone the packet
    would lose the one and gain the other.
    """
    for one in judged:
        options = dict(one.row.tunnel.options)
        cipher = options.get(CIPHER_OPTION, NO_ALGORITHM)
        if cipher == NO_ALGORITHM:
            continue
        without, lacks = {CIPHER_OPTION: NO_ALGORITHM}, "no cipher"
        if is_aead(str(cipher)):
            without |= dict.fromkeys(DIGEST_OPTIONS & options.keys(), NO_ALGORITHM)
            lacks = "neither cipher nor authentication"
        for other in judged:
            same = other.row.tunnel.kind == one.row.tunnel.kind and other.place == one.place
            if same and dict(other.row.tunnel.options) == options | without:
                compared = _compared(other, one)
                if compared:
                    said = f"through {other.row.tunnel.name}, which has {lacks}, a packet costs {compared} here"
                    yield Advice("cipher", f"{_named(one)}: {said}.")


def _kernel_or_program(judged: Sequence[Judged]) -> Iterator[Advice]:
    """The cheapest tunnel of the kernel against the cheapest of a program, ciphers or not; with the largest payload."""
    largest = max((one.row.payload_bytes for one in judged), default=0)
    for place in dict.fromkeys(one.place for one in judged if one.row.payload_bytes == largest):
        there = [one for one in judged if one.place == place and not one.row.tunnel.is_baseline]
        costs = [(cost, one) for one in there if (cost := one.figures.cpu_s_per_million_packets) is not None]
        kernel = [each for each in costs if each[1].figures.daemon_share is None]
        program = [each for each in costs if each[1].figures.daemon_share is not None]
        if not (kernel and program):
            continue
        first, second = (min(each, key=lambda item: item[0].median)[1] for each in (kernel, program))
        compared = _compared(second, first)
        if compared:
            yield Advice(
                "kernel",
                f"{place[0]} {place[1]}: a packet through {second.row.tunnel.name}, the cheapest tunnel of a program, "
                f"costs {compared} through {first.row.tunnel.name}, the cheapest in the kernel; whether either "
                "encrypts is not considered.",
            )


def _asymmetry(judged: Sequence[Judged]) -> Iterator[Advice]:
    """Where a packet costs the router more one way than the other, beyond the spread."""
    by_size: dict[tuple[str, int], dict[Direction, Judged]] = {}
    for one in judged:
        by_size.setdefault((one.row.tunnel.name, one.row.payload_bytes), {})[one.row.direction] = one
    for both in by_size.values():
        if len(both) < len(Direction):
            continue
        into, out = both[Direction.IN], both[Direction.OUT]
        cost_in, cost_out = into.figures.cpu_s_per_million_packets, out.figures.cpu_s_per_million_packets
        if cost_in is None or cost_out is None or not _differ(cost_in, cost_out):
            continue
        dear, cheap = (into, out) if cost_in.median > cost_out.median else (out, into)
        factor = max(cost_in.median, cost_out.median) / min(cost_in.median, cost_out.median)
        yield Advice(
            "asymmetry",
            f"{into.row.tunnel.name}, {into.row.payload_bytes} bytes: a packet costs the router "
            f"{significant(factor, 3)} times as much when data go {dear.row.direction} as when they go "
            f"{cheap.row.direction}.",
        )


def _clock(judged: Sequence[Judged], cpu_mhz: float) -> Iterator[Advice]:
    """MHz of the router's CPU for one Mbit/s, with the largest payload."""
    for name, own in _largest_payload(judged).items():
        needs = [
            f"{significant(cost.median * cpu_mhz / 1000, 3)} {one.row.direction}"
            for one in own
            if (cost := one.figures.cpu_s_per_gigabit) is not None
        ]
        if needs:
            yield Advice("clock", f"{name}: {', '.join(needs)} MHz of this CPU for 1 Mbit/s.")


def _largest_payload(judged: Sequence[Judged]) -> Mapping[str, list[Judged]]:
    """By tunnel its rows with the largest payload asked for."""
    by_tunnel: dict[str, list[Judged]] = {}
    for one in judged:
        by_tunnel.setdefault(one.row.tunnel.name, []).append(one)
    return {
        name: [one for one in own if one.row.payload_bytes == max(each.row.payload_bytes for each in own)]
        for name, own in by_tunnel.items()
    }


def _named(one: Judged) -> str:
    return f"{one.row.tunnel.name}, {one.row.payload_bytes} {one.row.direction}"


def _differ(one: Estimate, other: Estimate) -> bool:
    """Beyond the spread, which single values do not show."""
    return min(one.count, other.count) > 1 and not one.ties_with(other)


def _compared(one: Judged, other: Judged) -> str:
    """`0.65 times as much as` another row's packet; empty where a cost is not known."""
    cost, than = one.figures.cpu_s_per_million_packets, other.figures.cpu_s_per_million_packets
    if cost is None or than is None or not than.median:
        return ""
    factor = f"{significant(cost.median / than.median, 3)} times as much as"
    if min(cost.count, than.count) < 2:
        return f"(of single trials, which show no spread) {factor}"
    return factor if _differ(cost, than) else "within the spread as much as"


def clock_mhz(facts: Mapping[str, Any]) -> float | None:
    """The clock that the router's machine told at the start of the run [MHz]; none of a CPU that is emulated."""
    if "emulated" in str(facts.get("guest", "")):
        return None
    value = facts.get("router_cpu_mhz" if "router_kernel" in facts else "cpu_mhz")
    return float(value) if isinstance(value, (int, float)) and value > 0 else None
