"""Rules that a published row must fulfil: each rule is not applicable, holds, or gives a finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.audit.headings import Role
from tunnelbench.analysis.audit.links import headers_bytes, packet_limit, throughput_limit_bps
from tunnelbench.analysis.audit.quantities import Quantity
from tunnelbench.analysis.audit.rows import AuditedRow
from tunnelbench.model.result import OVER_LIMIT_TOLERANCE, PACKET_TOLERANCE


class Rule(StrEnum):
    """A rule that rows are checked against."""

    PACKET_RATE = "packet-rate"
    LINE_LIMIT = "line-limit"
    CPU_SUM = "cpu-sum"
    BASELINE = "share-of-baseline"
    UNITS = "units"
    SIGN = "sign"


@dataclass(frozen=True)
class AuditFinding:
    """A printed figure that is impossible."""

    row: AuditedRow
    rule: Rule
    figure: str
    """Name of the figure with its unit."""
    stated: Quantity
    expected: float
    """Correct value, or largest possible value, in the unit of `stated`."""
    is_bound: bool
    """True if `expected` is the largest possible value."""
    reason: str
    """Derivation of `expected`."""

    @property
    def factor(self) -> float:
        """Stated value over expected value."""
        return self.stated.value / self.expected if self.expected else float("inf")


@dataclass(frozen=True)
class RuleResult:
    """Result of a rule that is applicable to a row; a finding of None: the rule holds."""

    rule: Rule
    finding: AuditFinding | None


def _bounded(
    row: AuditedRow, rule: Rule, figure: str, stated: Quantity, most: Quantity, *, reason: str, tolerance: float = 0.0
) -> RuleResult:
    """Return the result for a figure that must not exceed `most`; `tolerance` and rounding errors are allowed."""
    is_wrong = stated.rounded[0] > most.rounded[1] * (1 + tolerance)
    return RuleResult(rule, AuditFinding(row, rule, figure, stated, most.value, True, reason) if is_wrong else None)


def _exact(value: float) -> Quantity:
    return Quantity(value, 0.0)


WHOLE = _exact(100.0)
"""100 %: the largest possible CPU share, and the baseline's share of itself."""


def packet_rate(row: AuditedRow) -> Iterable[RuleResult]:
    """Check packets per second against throughput / (8 x payload)."""
    if row.packets is None or row.throughput is None or row.size is None:
        return
    least, most = row.size.payload_bytes(headers_bytes(row))
    low, high = row.throughput.rounded
    lowest, highest = row.packets.rounded
    is_wrong = highest < low / 8 / most * (1 - PACKET_TOLERANCE) or lowest > high / 8 / least * (1 + PACKET_TOLERANCE)
    expected = row.throughput.value / 8 / row.size.bytes
    reason = f"{row.throughput.value / 1e6:g} Mbit/s / (8 x {row.size.bytes:g} bytes)"
    found = AuditFinding(row, Rule.PACKET_RATE, "packets/s", row.packets, expected, False, reason)
    yield RuleResult(Rule.PACKET_RATE, found if is_wrong else None)


def line_limit(row: AuditedRow, link_bps: float | None) -> Iterable[RuleResult]:
    """Check throughput and packets per second against the limit of the link."""
    if link_bps is None:
        return
    link = f"a link of {link_bps / 1e6:g} Mbit/s"
    if row.throughput is not None:
        limit = _exact(throughput_limit_bps(row, link_bps) / 1e6)
        reason = f"limit of {link} for this payload"
        yield _bounded(
            row,
            Rule.LINE_LIMIT,
            "Mbit/s",
            row.throughput.times(1e-6),
            limit,
            reason=reason,
            tolerance=OVER_LIMIT_TOLERANCE,
        )
    if row.packets is not None and (most := packet_limit(row, link_bps)) is not None:
        reason = f"limit of {link} for packets of this size"
        yield _bounded(
            row, Rule.LINE_LIMIT, "packets/s", row.packets, _exact(most), reason=reason, tolerance=OVER_LIMIT_TOLERANCE
        )


def cpu_sum(row: AuditedRow) -> Iterable[RuleResult]:
    """Check parts of the CPU against 100 % and against the stated total; each has an error of half its last digit."""
    parts = list(row.cpu_parts.values())
    total = row.cpu_total
    at_most = "a CPU has at most 100 %"
    if parts:
        added = Quantity(sum(part.value for part in parts), sum(part.step for part in parts))
        figure = " + ".join(row.cpu_parts) + " [%]"
        yield _bounded(row, Rule.CPU_SUM, figure, added, WHOLE, reason=at_most)
        if total is not None and total.value < 100:  # otherwise the sum was already compared with 100 %
            yield _bounded(row, Rule.CPU_SUM, figure, added, total, reason="the total of the same row")
    if total is not None:
        yield _bounded(row, Rule.CPU_SUM, "CPU [%]", total, WHOLE, reason=at_most)


def share_of_baseline(row: AuditedRow, baselines: Sequence[AuditedRow]) -> Iterable[RuleResult]:
    """Check a tunnel's throughput (or packet rate) and its stated share against the baseline of its device and
    direction."""
    if row.share is not None:
        yield _bounded(
            row,
            Rule.BASELINE,
            "share [%]",
            row.share,
            WHOLE,
            reason="the baseline has 100 %",
            tolerance=OVER_LIMIT_TOLERANCE,
        )
    if row.is_baseline or row.is_calibration:
        return
    alike = [each for each in baselines if (each.direction, each.is_udp) == (row.direction, row.is_udp)]
    if row.throughput is not None:
        # A baseline with an equal or larger payload is an upper bound: a smaller payload cannot carry more.
        bounds = [each for each in alike if each.throughput and _sizes(each) >= _sizes(row)]
        if bounds:
            size = min(map(_sizes, bounds))
            nearest = [(each.throughput, each.number) for each in bounds if each.throughput and _sizes(each) == size]
            best, number = max(nearest, key=lambda item: item[0].value)  # the fastest of several trials is the bound
            yield _bounded_by_row(row, "Mbit/s", row.throughput.times(1e-6), best.times(1e-6), number)
            if row.share is not None and size == _sizes(row):
                results = [_share_stated(row, row.share, row.throughput, each) for each, _ in nearest]
                yield next((each for each in results if each.finding is None), results[0])
    elif row.packets is not None:
        bounds = [each for each in alike if each.packets and _sizes(each) <= _sizes(row)]
        if bounds:
            size = max(map(_sizes, bounds))
            of_size = [(each.packets, each.number) for each in bounds if each.packets and _sizes(each) == size]
            most, number = max(of_size, key=lambda item: item[0].value)
            yield _bounded_by_row(row, "packets/s", row.packets, most, number)


def _sizes(row: AuditedRow) -> float:
    return row.size.bytes if row.size else 0.0


def _bounded_by_row(row: AuditedRow, figure: str, stated: Quantity, bound: Quantity, number: int) -> RuleResult:
    return _bounded(
        row, Rule.BASELINE, figure, stated, bound, reason=f"row {number}, the baseline", tolerance=OVER_LIMIT_TOLERANCE
    )


def _share_stated(row: AuditedRow, share: Quantity, own: Quantity, base: Quantity) -> RuleResult:
    expected = own.value / base.value * 100 if base.value else 0.0
    low, high = own.rounded[0] / base.rounded[1] * 100, own.rounded[1] / max(base.rounded[0], 1e-9) * 100
    is_wrong = share.cut[1] < low * (1 - PACKET_TOLERANCE) or share.cut[0] > high * (1 + PACKET_TOLERANCE)
    reason = f"{own.value / 1e6:g} of {base.value / 1e6:g} Mbit/s"
    found = AuditFinding(row, Rule.BASELINE, "share [%]", share, expected, False, reason)
    return RuleResult(Rule.BASELINE, found if is_wrong else None)


def units(row: AuditedRow) -> Iterable[RuleResult]:
    """Check two columns that state one throughput in two units against each other."""
    one, again = row.throughput, row.throughput_again
    if one is None or again is None:
        return
    is_wrong = one.cut[0] > again.cut[1] or one.cut[1] < again.cut[0]
    stated, expected = again.times(1e-6), one.value / 1e6
    found = AuditFinding(row, Rule.UNITS, "Mbit/s", stated, expected, False, "the other column of the same row")
    yield RuleResult(Rule.UNITS, found if is_wrong else None)


def sign(row: AuditedRow) -> Iterable[RuleResult]:
    """Check that no figure is negative."""
    figures: Mapping[str, Quantity | None] = {
        "Mbit/s": row.throughput and row.throughput.times(1e-6),
        "packets/s": row.packets,
        "CPU [%]": row.cpu_total,
        "share [%]": row.share,
        **{f"{name} [%]": part for name, part in row.cpu_parts.items()},
    }
    for figure, stated in figures.items():
        if stated is not None and stated.value < 0:
            found = AuditFinding(row, Rule.SIGN, figure, stated, 0.0, False, "it cannot be negative")
            yield RuleResult(Rule.SIGN, found)


def apply_rules(rows: Sequence[AuditedRow], links: Mapping[int, float]) -> list[list[RuleResult]]:
    """Apply all rules to each row; `links` holds the link rates [bit/s] by index in `rows`."""
    below_zero = [list(sign(row)) for row in rows]
    baselines: dict[tuple[str, str], list[AuditedRow]] = {}
    for row, wrong in zip(rows, below_zero, strict=True):
        if row.is_baseline and not wrong:
            baselines.setdefault(row.bench, []).append(row)
    rules_of_one: Sequence[Callable[[AuditedRow], Iterable[RuleResult]]] = (packet_rate, cpu_sum, units)
    return [
        wrong  # a row with a negative figure is not checked further
        or [
            *(each for rule in rules_of_one for each in rule(row)),
            *line_limit(row, links.get(place)),
            *share_of_baseline(row, baselines.get(row.bench, [])),
        ]
        for place, (row, wrong) in enumerate(zip(rows, below_zero, strict=True))
    ]


def cores(row: AuditedRow) -> int | None:
    """Return the number of cores of the row's device; None: not stated."""
    said = re.search(r"\b(\d{1,3})\s*(?:cores?|c[oœ]e?urs?|cpus?)\b", row.text.get(Role.DEVICE, ""), re.IGNORECASE)
    return int(said[1]) if said else None
