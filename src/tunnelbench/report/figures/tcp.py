"""Figures of TCP: of a `TcpMeasurement`, and of the `Figures` of a row."""

from __future__ import annotations

from dataclasses import fields

from tunnelbench.model.counters import PathCounters
from tunnelbench.model.result import TcpMeasurement
from tunnelbench.report.figures.figure import Figure, Spread, TableRow, read
from tunnelbench.report.figures.shared import (
    BUSY,
    COST,
    DAEMON,
    FAR_END,
    INSTRUCTIONS,
    SHARE,
    TESTER_LIMITED,
    of_router,
    of_rows,
    pings,
    stored,
)

CLOCK_TICKS = ("user", "system", "softirq", "steal")
"""Parts of the router's CPU time that clock ticks distinguish (rule 11)."""


def _split(found: TableRow) -> str | None:
    shares = [of_router(f"router_{name}_share")(found) for name in CLOCK_TICKS]
    return "/".join(f"{share.median * 100:.0f}" for share in shares) if all(shares) else None


def _least_share(trial: TcpMeasurement) -> float | None:
    return min(trial.client_shares, default=None)


def _greatest_share(trial: TcpMeasurement) -> float | None:
    return max(trial.client_shares, default=None)


TCP = (
    SHARE,
    *map(stored, ("duration_s", "bytes_received", "bytes_sent")),
    of_rows(
        "throughput_bps",
        "Throughput",
        unit="Mbit/s",
        help="Throughput: TCP payload that the receiver read.",
        of_trial=read("throughput_bps"),
        scale=1e-6,
        is_rate=True,
    ),
    Figure("client_count", of_trial=lambda trial: len(trial.clients) or None, is_stored=True, is_row_data=False),
    Figure("client_shares", of_trial=read("client_shares"), is_stored=True, is_row_data=False),
    *(
        Figure(
            f"{key}_client_share",
            f"{title} share",
            help=f"{title} share: that of the client with the {what} part of the throughput of all clients.",
            of_trial=of_trial,
            is_share=True,
            is_optional=True,
            narrow_under="throughput_bps",
        )
        for key, title, what, of_trial in (
            ("least", "Least", "smallest", _least_share),
            ("greatest", "Greatest", "largest", _greatest_share),
        )
    ),
    Figure(
        "jain_index",
        "Jain's index",
        help="Jain's index: 1 if all clients of a server have the same throughput, 1/n if one of n has everything.",
        of_trial=read("jain_index"),
        is_optional=True,
        narrow_under="throughput_bps",
    ),
    stored("physical_limit_bps"),
    of_rows("share_of_limit", help="Throughput over what the link can carry of this payload."),
    of_rows("retransmits", help="Segments that the sender sent again.", of_trial=read("retransmits"), is_stored=True),
    of_rows("payload_bytes", help="TCP payload of a full segment that was in effect."),
    stored("mss_bytes"),
    *(stored(field.name, f"counters.{field.name}") for field in fields(PathCounters)),
    *(stored(f"window_{name}", f"window.{name}") for name in ("duration_s", "data_packets", "ack_packets")),
    of_rows(
        "data_pps",
        "Data",
        unit="packets/s",
        help="Data: packets with payload, counted at the receiver's interface.",
        of_trial=read("data_pps"),
        is_rate=True,
        spread=Spread.NOT_IN_TERMINAL,
        short="data packets/s",
    ),
    of_rows(
        "ack_pps",
        "ACK",
        unit="packets/s",
        help="ACK: packets in the other direction.",
        of_trial=read("ack_pps"),
        is_rate=True,
        spread=Spread.NOT_IN_TERMINAL,
        short="ACK packets/s",
        narrow_under="data_pps",
    ),
    stored("router_cpus", "window.router_cpu.cpus"),
    *(stored(f"router_{name}_s", f"window.router_cpu.{name}_s") for name in ("busy", *CLOCK_TICKS)),
    BUSY,
    *(of_rows(f"router_{name}_share", help=f"{name} share of the router, by clock ticks.") for name in CLOCK_TICKS),
    Figure(
        "router_cpu_split",
        "usr/sys/softirq/steal",
        unit="%",
        help="usr/sys/softirq/steal: parts of the router's CPU time by the kernel's clock ticks, rough values.",
        is_row_data=False,
        of_table=_split,
        short="us/sy/si/st",
        under=BUSY.key,
    ),
    stored("daemon_cpu_s", "window.daemon_cpu_s"),
    stored("daemon_cpu_method", "window.daemon_cpu_method"),
    DAEMON,
    COST,
    of_rows(
        "cpu_s_per_gigabit",
        "CPU s per Gbit",
        help="CPU s per Gbit: busy time of the router per 10^9 bits of payload.",
        of_trial=read("cpu_s_per_gigabit"),
        of_table=of_router("cpu_s_per_gigabit"),
        digits=3,
        narrow_under=COST.key,
    ),
    *INSTRUCTIONS,
    stored("tester_cpus", "window.tester_cpu.cpus"),
    stored("tester_busy_s", "window.tester_cpu.busy_s"),
    stored("tester_steal_s", "window.tester_cpu.steal_s"),
    of_rows("tester_busy_share", help="Share of the testers' CPUs that was busy.", of_trial=read("tester_busy_share")),
    FAR_END,
    stored("bracket_s"),
    stored("foreign_cpu_s"),
    of_rows("foreign_share", help="Background load on the CPUs of the testbed, as a share of one CPU."),
    TESTER_LIMITED,
    *pings("data_pps"),
)
