"""What ought to be in a row, and whether it is: each rule says nothing, that it holds, or what it found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.audit.headings import Role
from tunnelbench.analysis.audit.links import headers_bytes, packet_limit, throughput_limit_bps
from tunnelbench.analysis.audit.quantities import Quantity
from tunnelbench.analysis.audit.rows import Entry

AGREEMENT = 0.02
"""Packets per second and throughput over payload agree within this (rule 16)."""
ABOVE_LIMIT = 0.005
"""Published figures may exceed the limit by this much: old iperf counts what it buffered (rule 17)."""


class Rule(StrEnum):
    """What a row is held to."""

    PACKET_RATE = "packet-rate"
    LINE_LIMIT = "line-limit"
    CPU_SUM = "cpu-sum"
    BASELINE = "share-of-baseline"
    UNITS = "units"
    SIGN = "sign"


@dataclass(frozen=True)
class Finding:
    """Something that cannot be as it is printed."""

    row: Entry
    rule: Rule
    figure: str
    """What is in question, with its unit."""
    stated: Quantity
    expected: float
    """What it ought to be, or may be at most; in the unit of `stated`."""
    is_bound: bool
    """Whether `expected` is the most that there can be."""
    reason: str
    """How `expected` comes about."""

    @property
    def factor(self) -> float:
        """Stated over expected."""
        return self.stated.value / self.expected if self.expected else float("inf")


@dataclass(frozen=True)
class Held:
    """A rule that could be applied to a row, and what it found; None: it holds."""

    rule: Rule
    finding: Finding | None


def packet_rate(row: Entry) -> Iterable[Held]:
    """Packets per second against throughput / (8 x payload)."""
    if row.packets is None or row.throughput is None or row.size is None:
        return
    least, most = row.size.payload_bytes(headers_bytes(row))
    low, high = row.throughput.rounded
    lowest, highest = row.packets.rounded
    apart = highest < low / 8 / most * (1 - AGREEMENT) or lowest > high / 8 / least * (1 + AGREEMENT)
    expected = row.throughput.value / 8 / row.size.bytes
    reason = f"{row.throughput.value / 1e6:g} Mbit/s / (8 x {row.size.bytes:g} bytes)"
    finding = Finding(row, Rule.PACKET_RATE, "packets/s", row.packets, expected, False, reason)
    yield Held(Rule.PACKET_RATE, finding if apart else None)


def line_limit(row: Entry, link_bps: float | None) -> Iterable[Held]:
    """Throughput and packets per second against what the link carries."""
    if link_bps is None:
        return
    link = f"a link of {link_bps / 1e6:g} Mbit/s"
    if row.throughput is not None:
        limit = throughput_limit_bps(row, link_bps) / 1e6
        stated = row.throughput.times(1e-6)
        above = stated.rounded[0] > limit * (1 + ABOVE_LIMIT)
        reason = f"the most that {link} carries of this payload"
        found = Finding(row, Rule.LINE_LIMIT, "Mbit/s", stated, limit, True, reason)
        yield Held(Rule.LINE_LIMIT, found if above else None)
    if row.packets is not None and (most := packet_limit(row, link_bps)) is not None:
        above = row.packets.rounded[0] > most * (1 + ABOVE_LIMIT)
        reason = f"the most packets of this size that {link} carries"
        found = Finding(row, Rule.LINE_LIMIT, "packets/s", row.packets, most, True, reason)
        yield Held(Rule.LINE_LIMIT, found if above else None)


def cpu_sum(row: Entry) -> Iterable[Held]:
    """Parts of the CPU against 100 % and against the total that is stated; each is known to half its last digit."""
    parts = list(row.cpu_parts.values())
    total = row.cpu_total
    if parts:
        value, step = sum(part.value for part in parts), sum(part.step for part in parts)
        whole = Quantity(value, step)
        names = " + ".join(row.cpu_parts)
        found = Finding(row, Rule.CPU_SUM, f"{names} [%]", whole, 100.0, True, "a CPU has 100 % to give")
        yield Held(Rule.CPU_SUM, found if whole.rounded[0] > 100 else None)
        if total is not None and total.value < 100:  # else the same was said already
            found = Finding(row, Rule.CPU_SUM, f"{names} [%]", whole, total.value, True, "the total of the same row")
            yield Held(Rule.CPU_SUM, found if whole.rounded[0] > total.rounded[1] else None)
    if total is not None:
        found = Finding(row, Rule.CPU_SUM, "CPU [%]", total, 100.0, True, "a CPU has 100 % to give")
        yield Held(Rule.CPU_SUM, found if total.rounded[0] > 100 else None)


def share_of_baseline(row: Entry, baselines: Sequence[Entry]) -> Iterable[Held]:
    """A tunnel against plain forwarding of the same device and direction, and a share that is stated against both."""
    if row.share is not None:
        found = Finding(row, Rule.BASELINE, "share [%]", row.share, 100.0, True, "the baseline itself has 100 %")
        yield Held(Rule.BASELINE, found if row.share.rounded[0] > 100 * (1 + ABOVE_LIMIT) else None)
    if row.is_baseline or row.is_calibration:
        return
    alike = [each for each in baselines if (each.direction, each.is_udp) == (row.direction, row.is_udp)]
    if row.throughput is not None:
        # A smaller payload cannot carry more, so that a baseline with as large a one or a larger bounds the row.
        bounds = [each for each in alike if each.throughput and _sizes(each) >= _sizes(row)]
        if bounds:
            size = min(map(_sizes, bounds))
            nearest = [(each.throughput, each.number) for each in bounds if each.throughput and _sizes(each) == size]
            best, number = max(nearest, key=lambda item: item[0].value)  # of several trials the fastest bounds the row
            yield _against(row, "Mbit/s", row.throughput.times(1e-6), number, best.times(1e-6))
            if row.share is not None and size == _sizes(row):
                against = [_share_stated(row, row.share, row.throughput, each) for each, _ in nearest]
                yield next((each for each in against if each.finding is None), against[0])
    elif row.packets is not None:
        bounds = [each for each in alike if each.packets and _sizes(each) <= _sizes(row)]
        if bounds:
            size = max(map(_sizes, bounds))
            of_size = [(each.packets, each.number) for each in bounds if each.packets and _sizes(each) == size]
            most, number = max(of_size, key=lambda item: item[0].value)
            yield _against(row, "packets/s", row.packets, number, most)


def _sizes(row: Entry) -> float:
    return row.size.bytes if row.size else 0.0


def _against(row: Entry, figure: str, stated: Quantity, number: int, bound: Quantity) -> Held:
    reason = f"row {number}, the same without a tunnel"
    found = Finding(row, Rule.BASELINE, figure, stated, bound.value, True, reason)
    return Held(Rule.BASELINE, found if stated.rounded[0] > bound.rounded[1] * (1 + ABOVE_LIMIT) else None)


def _share_stated(row: Entry, share: Quantity, own: Quantity, base: Quantity) -> Held:
    expected = own.value / base.value * 100 if base.value else 0.0
    low, high = own.rounded[0] / base.rounded[1] * 100, own.rounded[1] / max(base.rounded[0], 1e-9) * 100
    apart = share.cut[1] < low * (1 - AGREEMENT) or share.cut[0] > high * (1 + AGREEMENT)
    reason = f"{own.value / 1e6:g} of {base.value / 1e6:g} Mbit/s"
    found = Finding(row, Rule.BASELINE, "share [%]", share, expected, False, reason)
    return Held(Rule.BASELINE, found if apart else None)


def units(row: Entry) -> Iterable[Held]:
    """Two columns that state one throughput in two units against each other."""
    one, again = row.throughput, row.throughput_again
    if one is None or again is None:
        return
    apart = one.cut[0] > again.cut[1] or one.cut[1] < again.cut[0]
    found = Finding(
        row, Rule.UNITS, "Mbit/s", again.times(1e-6), one.value / 1e6, False, "the other column of the same row"
    )
    yield Held(Rule.UNITS, found if apart else None)


def sign(row: Entry) -> Iterable[Held]:
    """Nothing that is counted here is below zero."""
    figures: Mapping[str, Quantity | None] = {
        "Mbit/s": row.throughput and row.throughput.times(1e-6),
        "packets/s": row.packets,
        "CPU [%]": row.cpu_total,
        "share [%]": row.share,
        **{f"{name} [%]": part for name, part in row.cpu_parts.items()},
    }
    for figure, stated in figures.items():
        if stated is not None and stated.value < 0:
            yield Held(Rule.SIGN, Finding(row, Rule.SIGN, figure, stated, 0.0, False, "it is counted from 0"))


def held(rows: Sequence[Entry], links: Mapping[int, float]) -> list[list[Held]]:
    """What the rules say of each row, in the order of the rows."""
    below_zero = [list(sign(row)) for row in rows]
    baselines: dict[tuple[str, str], list[Entry]] = {}
    for row, wrong in zip(rows, below_zero, strict=True):
        if row.is_baseline and not wrong:
            baselines.setdefault(row.bench, []).append(row)
    rules_of_one: Sequence[Callable[[Entry], Iterable[Held]]] = (packet_rate, cpu_sum, units)
    return [
        wrong  # of a figure below zero nothing follows
        or [
            *(each for rule in rules_of_one for each in rule(row)),
            *line_limit(row, links.get(place)),
            *share_of_baseline(row, baselines.get(row.bench, [])),
        ]
        for place, (row, wrong) in enumerate(zip(rows, below_zero, strict=True))
    ]


def cores(row: Entry) -> int | None:
    """How many cores the row's device has, where it says."""
    said = re.search(r"\b(\d{1,3})\s*(?:cores?|c[oœ]e?urs?|cpus?)\b", row.text.get(Role.DEVICE, ""), re.IGNORECASE)
    return int(said[1]) if said else None
