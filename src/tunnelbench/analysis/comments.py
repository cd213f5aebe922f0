"""Short remarks for one row of a report, such as how many trials were left out."""

from __future__ import annotations

from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.summary import Figures, Row, TunnelRow
from tunnelbench.model.text import counted


def comments(row: Row) -> tuple[str, ...]:
    """Return short remarks, the most serious first; the warnings of the run give the details."""
    return why_empty(row) if row.figures is None else (*_of_figures(row, row.figures), *class_comments(row))


def why_empty(row: TunnelRow) -> tuple[str, ...]:
    """Return why a row has no figures: the classes of its trials, and their reasons."""
    return (": ".join(filter(None, (" and ".join(row.uncounted_classes), "; ".join(row.reasons)))),)


def _of_figures(row: Row, figures: Figures) -> list[str]:
    found = []
    if figures.is_above_limit and figures.share_of_limit is not None:
        excess = percent(figures.share_of_limit.median - 1)
        found.append(f"doubtful: {excess} above the limit of the line")
    if figures.is_line_speed:
        found.append("line speed")
    if figures.is_tester_limited:
        found.append("tester-limited" + _extrapolated(figures))
    if row.is_calibration:
        found.append("calibration: maximum of the testers")
    if figures.share_of_baseline is None and not row.is_calibration:
        found.append("no baseline trial counts")
    if figures.payload_bytes is not None and figures.payload_bytes.median != row.payload_bytes:
        found.append(f"payload in effect {significant(figures.payload_bytes.median)}")
    return found


def _extrapolated(figures: Figures) -> str:
    if figures.extrapolated_pps is None or figures.extrapolated_bps is None:
        return ""
    packets, rate = significant(figures.extrapolated_pps, 3), significant(figures.extrapolated_bps / 1e6, 3)
    return f"; extrapolated: {packets} packets/s, {rate} Mbit/s"


def class_comments(row: TunnelRow) -> list[str]:
    """Return how many trials are left out, and the names of the checks that are not ok."""
    found = []
    if left_out := row.uncounted_trials:
        found.append(f"{left_out} of {counted(row.trials, 'trial')} left out")
    if row.doubtful_checks:
        found.append(f"warnings: {', '.join(row.doubtful_checks)}")
    return found
