"""What a reader of one row must know beside its figures."""

from __future__ import annotations

from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.summary import Figures, Row, TrialClass

NOT_IN_STATISTICS = (TrialClass.VOID, TrialClass.REFUSED, TrialClass.UNAVAILABLE, TrialClass.GIVEN_UP)


def comments(row: Row) -> tuple[str, ...]:
    """Short remarks, the gravest first; what is behind them stands in the doubts."""
    if row.figures is None:
        return (f"{_why_empty(row)}: {'; '.join(row.reasons)}" if row.reasons else _why_empty(row),)
    return (*_of_figures(row, row.figures), *_of_classes(row))


def _why_empty(row: Row) -> str:
    present = [each.value for each in NOT_IN_STATISTICS if row.classes[each]]
    return " and ".join(present)


def _of_figures(row: Row, figures: Figures) -> list[str]:
    found = []
    if figures.is_above_limit and figures.share_of_limit is not None:
        excess = percent(figures.share_of_limit.median - 1)
        found.append(f"doubtful: {excess} above what the line can carry")
    if figures.is_line_speed:
        found.append("line speed")
    if figures.is_tester_limited:
        found.append("tester-limited" + _extrapolated(figures))
    if row.is_calibration:
        found.append("calibration: the most that the testers can do")
    if figures.share_of_baseline is None and not row.is_calibration:
        found.append("no baseline that counts")
    if figures.payload_bytes is not None and figures.payload_bytes.median != row.payload_bytes:
        found.append(f"payload in effect {significant(figures.payload_bytes.median)}")
    return found


def _extrapolated(figures: Figures) -> str:
    if figures.extrapolated_pps is None or figures.extrapolated_bps is None:
        return ""
    packets, rate = significant(figures.extrapolated_pps, 3), significant(figures.extrapolated_bps / 1e6, 3)
    return f"; extrapolated: {packets} packets/s, {rate} Mbit/s"


def _of_classes(row: Row) -> list[str]:
    found = []
    if left_out := sum(row.classes[each] for each in NOT_IN_STATISTICS):
        found.append(f"{row.trials - left_out} of {row.trials} trials count")
    if row.doubtful_checks:
        found.append(f"doubts: {', '.join(row.doubtful_checks)}")
    return found
