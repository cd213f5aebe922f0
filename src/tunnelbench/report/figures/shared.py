"""Figures that TCP and UDP have in common."""

from __future__ import annotations

from typing import Any

from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.plan import IDLE
from tunnelbench.report.figures.figure import Figure, FigureText, Read, Spread, TableRow, read


def stored(key: str, path: str = "") -> Figure:
    """Return a figure that is a stored field of a trial's measurement; rows of the table do not have it."""
    return Figure(key, of_trial=read(path or key), is_stored=True, is_row_data=False)


def of_rows(key: str, title: str = "", **more: Any) -> Figure:
    """Return a figure whose value for a row is the field `key` of the figures that the analysis computed."""
    return Figure(key, title, of_row=read(f"figures.{key}"), **more)


def except_pdr(path: str) -> Read:
    """Return a reader of a timed trial's figure; the row of a PDR has no timed trial."""
    value = read(f"row.figures.{path}")
    return lambda found: None if found.goal == "PDR" else value(found)


def of_router(path: str) -> Read:
    """Return a reader of a timed trial's figure of the router; in a calibration there is no router."""
    value = except_pdr(path)
    return lambda found: None if found.row.is_calibration else value(found)


def _share(found: TableRow) -> Estimate | None:
    """Return a row's throughput as a share of that without a tunnel; a search compares PDRs, so its NDR has none."""
    return None if found.goal == "NDR" or found.row.figures is None else found.row.figures.share_of_baseline


def _has_packet_cost(found: TableRow) -> bool:
    """Return True if a timed trial loads the router.

    On an idle path, the router's CPU time per packet is mostly that of waking up.
    """
    is_idle = isinstance(found.row, UdpRow) and found.row.load == IDLE
    return not is_idle and not found.row.is_calibration and found.goal != "PDR"


def _ping(found: TableRow) -> FigureText | None:
    figures = found.row.figures
    if figures is None or found.row.is_calibration or found.goal == "PDR":
        return None
    if figures.ping_worst_ms is None:
        worst = "no answer" if figures.pings_sent else ""
    else:
        worst = f"{significant(figures.ping_worst_ms, 3)} ms"
    return FigureText(worst, note=f"{figures.pings_lost}/{figures.pings_sent} lost" if figures.pings_lost else "")


SHARE = of_rows(
    "share_of_baseline",
    "Share of baseline",
    help="Share of baseline: throughput (of UDP the packet rate) over that without a tunnel.",
    of_table=_share,
    is_share=True,
    is_rate=True,
    narrow_under="packets_per_s",
)
BUSY = of_rows(
    "router_busy_share",
    "CPU busy",
    help="CPU busy: wall time less idle time, of the router's CPUs.",
    of_trial=read("router_busy_share"),
    of_table=of_router("router_busy_share"),
    is_share=True,
    spread=Spread.NOT_IN_TERMINAL,
)
DAEMON = Figure(
    "daemon_busy_share",
    "CPU of daemon",
    help="CPU of daemon: the tunnel's processes on the router, as a share of one CPU.",
    of_trial=read("daemon_busy_share"),
    of_row=read("figures.daemon_share"),
    of_table=of_router("daemon_share"),
    is_share=True,
    spread=Spread.NOWHERE,
    narrow_under="router_busy_share",
)
COST = of_rows(
    "cpu_s_per_million_packets",
    "CPU s per Mpackets",
    help="CPU s per Mpackets: busy time of the router per million packets of both directions.",
    of_trial=read("cpu_s_per_million_packets"),
    is_shown=_has_packet_cost,
    digits=3,
)
INSTRUCTIONS = (
    stored("router_instructions", "window.router_instructions"),
    stored("router_clock_lost_s", "window.router_clock_lost_s"),
    *(
        Figure(
            key,
            title,
            help=f"{title}: {what}.",
            of_trial=read(f"window.{key}"),
            needs_router=True,
            is_shown=_has_packet_cost,
            narrow_under=under,
            is_optional=True,
        )
        for key, title, what, under in (
            (
                "instructions_per_packet",
                "Instructions/packet",
                "instructions of a router of fixed speed per packet of both directions",
                "",
            ),
            (
                "user_instructions_per_packet",
                "user",
                "instructions in user mode per packet",
                "instructions_per_packet",
            ),
            (
                "kernel_instructions_per_packet",
                "kernel",
                "all other instructions per packet",
                "instructions_per_packet",
            ),
        )
    ),
)
TESTER_LIMITED = of_rows("is_tester_limited", help="True if the testers were the limit in at least half of the trials.")

FAR_END = stored("far_end_busy_share", "window.far_end_busy_share")


def pings(under: str, *, is_optional: bool = False) -> tuple[Figure, ...]:
    """Return the figures of pings under load; a narrow terminal has them below the figure `under`."""
    return (
        of_rows(
            "pings_sent", help="Pings that the client sent to the router.", of_trial=read("ping.sent"), is_stored=True
        ),
        stored("pings_answered", "ping.answered"),
        of_rows("pings_lost", help="Pings that the router did not answer."),
        of_rows(
            "ping_worst_ms",
            "Ping worst",
            help="Ping worst: the router's slowest answer to the client, and how many answers are missing.",
            of_trial=read("ping.worst_ms"),
            is_stored=True,
            is_optional=is_optional,
            of_table=_ping,
            narrow_under=under,
        ),
    )
