"""Advice that follows from the figures of a run: one function for each rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.analysis.algorithms import CIPHER_OPTION, is_aead, options_key, without_cipher
from tunnelbench.analysis.limits import Limit, LimitFinding
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.plan import Direction

TARGET_RULE = "target"


@dataclass(frozen=True)
class Advice:
    """One statement that follows from the figures."""

    rule: str
    """Short and stable name, such as `target`."""
    text: str
    tunnel: str = ""
    """Name of the tunnel that the advice recommends; empty: none."""


@dataclass(frozen=True)
class LimitedRow:
    """A row with its figures and its limits."""

    row: Row
    figures: Figures
    limits: tuple[Limit, ...]

    @property
    def place(self) -> tuple[int, Direction]:
        return self.row.payload_bytes, self.row.direction


def advise(
    rows: Sequence[Row],
    limits: Sequence[Sequence[LimitFinding]],
    *,
    target_mbps: float | None = None,
    cpu_mhz: float | None = None,
    is_shared: bool = False,
    allow_plaintext: bool = False,
) -> tuple[Advice, ...]:
    """Return the advice of all rules.

    `limits` holds the limits of each row. Set `is_shared` if the router is not a machine of its own. Tunnels that do
    not encrypt are considered for the target, and compared with others, only with `allow_plaintext`.
    """
    limited = [
        LimitedRow(row, row.figures, tuple(finding.limit for finding in found))
        for row, found in zip(rows, limits, strict=True)
        if row.figures is not None and not row.is_calibration
    ]
    eligible = [one for one in limited if one.row.is_encrypted or allow_plaintext]
    advice = [
        *(_target(eligible, target_mbps) if target_mbps and limited else ()),
        *_without_cipher(limited),
        *_kernel_or_program(eligible),
        *_asymmetry(limited),
        *(_clock(limited, cpu_mhz) if cpu_mhz else ()),
    ]
    if advice and is_shared:
        text = (
            "This advice applies to this machine only, not to a device: the router shares it with the testers or, "
            "through a hypervisor, with other machines."
        )
        advice.append(Advice("machine", text))
    return tuple(advice)


def _target(rows: Sequence[LimitedRow], target_mbps: float) -> Iterator[Advice]:
    """State for each tunnel and direction if it carries the target with the largest payload, and with what headroom."""
    target = f"{target_mbps:g} Mbit/s"
    carrying: list[tuple[float, str]] = []  # busy share of one CPU at the target, infinite if unknown
    for name, own in _largest_payload(rows).items():
        verdicts = [_verdict(one, target_mbps) for one in own]
        words = "; ".join(f"{one.row.direction.label}: {text}" for one, (_, text) in zip(own, verdicts, strict=True))
        answers = {answer for answer, _ in verdicts}
        answer = next(each for each in ("no", "not shown", "yes") if each in answers)
        ways = "" if len(own) == len(Direction) else f" (only {own[0].row.direction.label} was measured)"
        yield Advice(TARGET_RULE, f"{target} through {name}: {answer}{ways}. {words}.")
        if answer == "yes" and own[0].row.tunnel.has_tunnel:
            busy = [_busy_at(one.figures, target_mbps) for one in own]
            known = [share for share in busy if share is not None]
            carrying.append((max(known) if len(known) == len(own) else math.inf, name))
    if carrying:
        busy_share, name = min(carrying)
        yield Advice(TARGET_RULE, _least_busy(target, busy_share, name), name)
    elif not rows:
        yield Advice(TARGET_RULE, f"{target} through a tunnel: no encrypted tunnel has figures.")


def _least_busy(target: str, busy_share: float, name: str) -> str:
    if math.isinf(busy_share):
        return f"{name} carries {target}. The router CPU that it takes for that is unknown."
    if busy_share > 1:
        return (
            f"Of the tunnels that carry {target}, {name} takes the least CPU: {significant(busy_share, 3)} router CPUs."
        )
    left = f"about {percent(1 - busy_share)} of a CPU"
    return f"Of the tunnels that carry {target}, {name} leaves the router the most free CPU: {left}."


def _verdict(one: LimitedRow, target_mbps: float) -> tuple[str, str]:
    """Return if a tunnel carries the target (`yes`, `no` or `not shown`), and the figures from which this follows."""
    found = one.figures.throughput_bps
    once = " once" if found.count == 1 else ""
    measured = f"{significant(found.median / 1e6)} Mbit/s measured{once}"
    if found.low >= target_mbps * 1e6:
        busy = _busy_at(one.figures, target_mbps)
        if busy is None:
            return "yes", measured
        if busy > 1:  # more than one CPU shared the work
            return "yes", f"{measured}, about {significant(busy, 3)} router CPUs busy at the target"
        return "yes", f"{measured}, the router's CPU about {percent(busy)} busy at the target"
    if found.high >= target_mbps * 1e6:
        return "not shown", f"{measured}, the target is inside the spread"
    full = [limit for limit in one.limits if limit in (Limit.ROUTER_CPU, Limit.ONE_CORE, Limit.LINE)]
    if Limit.TESTER not in one.limits and full:
        return "no", f"{measured}, limited by the {full[0]}"
    known = [limit for limit in one.limits if limit is not Limit.UNKNOWN]
    why = f"limited by the {known[0]}" if known else "limit unknown"
    cost = one.figures.cpu_s_per_gigabit
    extrapolated = (
        f"; one fully busy CPU would carry {significant(1e3 / cost.median, 3)}" if cost and cost.median else ""
    )
    return "not shown", f"{measured}, {why}{extrapolated}"


def _busy_at(figures: Figures, target_mbps: float) -> float | None:
    """Return the share of one CPU that the target rate takes, if a bit costs as much as measured; None: unknown."""
    cost = figures.cpu_s_per_gigabit
    return None if cost is None else target_mbps / 1000 * cost.median


def _without_cipher(rows: Sequence[LimitedRow]) -> Iterator[Advice]:
    """Compare each tunnel that has a cipher with the first tunnel of the run that is the same but has no cipher."""
    found: dict[Any, LimitedRow] = {}
    for one in rows:
        found.setdefault(_same(one, one.row.tunnel.options), one)
    for one in rows:
        options = one.row.tunnel.options
        without = without_cipher(options)
        if without is not None and (other := found.get(_same(one, without))):
            lacks = "neither cipher nor authentication" if is_aead(str(options[CIPHER_OPTION])) else "no cipher"
            yield from _compared(
                "cipher", other, one, f"{other.row.tunnel.name}, which has {lacks},", one.row.tunnel.name
            )


def _same(one: LimitedRow, options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key that is equal for rows with equal tunnel kind, payload, direction and tunnel `options`."""
    return one.row.tunnel.kind, one.place, options_key(options)


def _kernel_or_program(rows: Sequence[LimitedRow]) -> Iterator[Advice]:
    """Compare the kernel tunnel and the user-space tunnel with the least CPU time per packet, for the largest
    payload."""
    largest = max((one.row.payload_bytes for one in rows), default=0)
    for place in dict.fromkeys(one.place for one in rows if one.row.payload_bytes == largest):
        there = [one for one in rows if one.place == place and one.row.tunnel.has_tunnel]
        costs = [(cost, one) for one in there if (cost := one.figures.cpu_s_per_million_packets) is not None]
        kernel = [each for each in costs if each[1].figures.is_in_kernel]
        program = [each for each in costs if not each[1].figures.is_in_kernel]
        if kernel and program:
            first, second = (min(each, key=lambda item: item[0].median)[1] for each in (kernel, program))
            yield from _compared(
                "kernel",
                second,
                first,
                f"{second.row.tunnel.name}, the cheapest tunnel in user space,",
                f"{first.row.tunnel.name}, the cheapest tunnel in the kernel. Ciphers are not considered",
            )


def _asymmetry(rows: Sequence[LimitedRow]) -> Iterator[Advice]:
    """Report tunnels in which a packet costs more in one direction than in the other, beyond the spread."""
    by_size: dict[tuple[str, int], dict[Direction, LimitedRow]] = {}
    for one in rows:
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
            f"{into.row.tunnel.name}, {into.row.payload_bytes} bytes: {dear.row.direction.label} takes "
            f"{significant(factor, 3)} times as much router CPU per packet as {cheap.row.direction.label}.",
        )


def _clock(rows: Sequence[LimitedRow], cpu_mhz: float) -> Iterator[Advice]:
    """State how many MHz of the router's CPU clock one Mbit/s of TCP payload takes, with the largest payload."""
    for name, own in _largest_payload(rows).items():
        needs = [
            f"{significant(cost.median * cpu_mhz / 1000, 3)} MHz ({one.row.direction.label})"
            for one in own
            if (cost := one.figures.cpu_s_per_gigabit) is not None
        ]
        if needs:
            yield Advice("clock", f"{name}: {', '.join(needs)} of this CPU for 1 Mbit/s.")


def _largest_payload(rows: Sequence[LimitedRow]) -> Mapping[str, list[LimitedRow]]:
    """Return by tunnel the rows with the largest payload of the run; a tunnel without such a row is left out."""
    largest = max((one.row.payload_bytes for one in rows), default=0)
    by_tunnel: dict[str, list[LimitedRow]] = {}
    for one in rows:
        if one.row.payload_bytes == largest:
            by_tunnel.setdefault(one.row.tunnel.name, []).append(one)
    return by_tunnel


def _differ(one: Estimate, other: Estimate) -> bool:
    """Return True if the spreads do not overlap; single values have no spread and never differ."""
    return min(one.count, other.count) > 1 and not one.ties_with(other)


def _compared(rule: str, one: LimitedRow, other: LimitedRow, named: str, than: str) -> Iterator[Advice]:
    """Compare the CPU time of a packet in `one` (called `named`) and in `other` (`than`); no advice if one is
    unknown."""
    cost, base = one.figures.cpu_s_per_million_packets, other.figures.cpu_s_per_million_packets
    if cost is None or base is None or not base.median:
        return
    factor = cost.median / base.median
    words = f"{significant(factor, 3)} times as much router CPU as"
    if factor < 1:
        words = f"{percent(1 - factor)} less router CPU than"
    single = min(cost.count, base.count) < 2
    if not single and not _differ(cost, base):
        words = "within the spread as much router CPU as"
    caveat = " These are single trials, which have no spread." if single else ""
    place = f"{one.row.payload_bytes} bytes {one.row.direction.label}"
    yield Advice(rule, f"{place}: a packet through {named} takes {words} through {than}.{caveat}")


def clock_mhz(facts: Mapping[str, Any]) -> float | None:
    """Return the clock of the router's CPU at the start of the run [MHz]; None: unknown or an emulated CPU."""
    if "emulated" in str(facts.get("guest", "")):
        return None
    value = facts.get("router_cpu_mhz" if "router_kernel" in facts else "cpu_mhz")
    return float(value) if isinstance(value, (int, float)) and value > 0 else None
