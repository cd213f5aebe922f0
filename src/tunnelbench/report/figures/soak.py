"""Figures of a soak: of its `SoakSummary`."""

from __future__ import annotations

from typing import Any

from tunnelbench.analysis.number_format import percent
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.report.figures.figure import Figure, read
from tunnelbench.report.text import length


def _of(key: str, title: str = "", **more: Any) -> Figure:
    return Figure(key, title, of_trial=read(key), is_row_data=False, **more)


def _nested(key: str, title: str = "", **more: Any) -> Figure:
    """Return a figure that CSV leaves out, because its value is an object or a list."""
    return _of(key, title, is_in_csv=False, **more)


def _worst_second(summary: SoakSummary) -> str:
    worst = summary.worst_second
    return f"{summary.worst_second_lost_packets} at {length(worst.at_s)}" if worst else "-"


def _busy(summary: SoakSummary) -> str:
    shares = (summary.router_busy_share, summary.router_busy_max_share)
    return "/".join("-" if share is None else percent(share) for share in shares)


def _gaps(summary: SoakSummary) -> str:
    return f"{summary.gaps}: {length(summary.gaps_s)}" if summary.gaps else "0"


SOAK = (
    _of("planned_s"),
    _of("measured_s", "Time", of_table=lambda summary: length(summary.measured_s)),
    _of("rate_pps"),
    *map(_nested, ("is_echo", "is_complete", "ended")),
    _of("offered_pps", "Offered", unit="packets/s"),
    _of("received_pps", "Received", unit="packets/s"),
    *map(_of, ("sent_packets", "received_packets")),
    _of(
        "lost_packets",
        "Lost",
        help="Lost: on the path, without the drops of the testers' sockets; a packet belongs to the second in which it "
        "was sent.",
    ),
    _of("loss_ratio", "Loss", is_share=True),
    *map(_of, ("late_packets", "duplicated_packets", "reordered_packets", "corrupted_packets")),
    _of("tester_dropped_packets"),
    _of("seconds_with_loss", "Lossy seconds"),
    _of("longest_loss_free_s", "Longest without loss", of_table=lambda summary: length(summary.longest_loss_free_s)),
    _nested("worst_second", "Worst second", of_table=_worst_second),
    *map(_of, ("worst_second_lost_packets", "delay_p50_ns", "delay_p99_worst_ns", "delay_max_ns")),
    _of("router_busy_share", "CPU mean/most", of_table=_busy),
    *map(_of, ("router_busy_max_share", "parts")),
    _of("restarts", "Restarts"),
    _nested("restart_list"),
    _of("rekeys", "Rekeys"),
    _nested("rekey_list"),
    _of(
        "gaps",
        "Gaps",
        of_table=_gaps,
        help="Gap: time in which nothing was measured; packets are neither carried nor lost in it, and a stretch "
        "without loss ends at it.",
    ),
    _of("gaps_s"),
    _nested("gap_list"),
)
