"""Makes the comments of a UDP row: facts that its figures do not show, such as a refuted NDR."""

from __future__ import annotations

from tunnelbench.analysis.comments import class_comments, why_empty
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import Test
from tunnelbench.model.text import counted

CURVE_POINTS = 12
"""Largest number of points of a loss curve in a remark."""


def udp_comments(row: UdpRow) -> tuple[str, ...]:
    """Return short remarks, the most important first."""
    figures = row.figures
    if figures is None:
        return why_empty(row)
    found = _of_search(figures) if row.test.is_search else []
    if figures.is_tester_limited:
        found.append("tester-limited")
    if row.test is Test.REKEY and row.tunnel.others_rekey:
        found.append("the gap is that of a client that kept its keys while others changed theirs")
    if row.is_calibration:
        found.append("calibration: maximum of the testers")
    if burst := figures.longest_burst_packets:
        found.append(f"longest burst that came through whole: {counted(round(burst.median), 'packet')}")
    if figures.curve:
        step = -(-len(figures.curve) // CURVE_POINTS)
        shown = (f"{percent(loss)} at {pps:,.0f}" for pps, loss in figures.curve[::step])
        found.append(f"loss by packets/s offered: {', '.join(shown)}")
    if variation := figures.delay_variation_p99_ns:
        found.append(f"delay variation {significant(variation.median / 1e3, 3)} µs (99 %)")
    if row.over_tcp:
        found.append(f"{significant(row.over_tcp, 3)} times the packets of small TCP, ACKs counted")
    return (*found, *class_comments(row))


def _of_search(figures: UdpFigures) -> list[str]:
    if figures.refuted:
        found = ["NDR refuted" if not figures.confirmed else f"NDR refuted in {counted(figures.refuted, 'trial')}"]
    elif figures.confirmed:
        found = ["NDR confirmed"]
    else:
        found = ["NDR not confirmed" if figures.ndr_pps else "no load without loss was found"]
    if missing := figures.searches - figures.complete_searches:
        found.append(f"{missing} of {figures.searches} search{'es' * (figures.searches > 1)} ran out of time")
    return found
