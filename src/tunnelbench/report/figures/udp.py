"""Figures of UDP: of a `UdpMeasurement`, and of the `UdpFigures` of a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tunnelbench.analysis.number_format import count_text
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.udp import UdpFigures
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.report.figures.figure import PLACE, Figure, Read, Spread, TableRow, read
from tunnelbench.report.figures.shared import (
    BUSY,
    COST,
    DAEMON,
    FAR_END,
    INSTRUCTIONS,
    SHARE,
    TESTER_LIMITED,
    except_pdr,
    of_rows,
    pings,
    stored,
)

FRAGMENTS = ("fragments_created", "reassembled", "inner_fragments", "outer_fragments")
"""Counts of IP fragments in a trial's counters."""


def _packets_per_s(found: TableRow) -> Estimate | None:
    """Return the packet rate of a row: packets that arrived per second; for a search, its NDR or PDR."""
    figures = found.row.figures
    if not isinstance(figures, UdpFigures):
        return None
    return {"NDR": figures.ndr_pps, "PDR": figures.pdr_pps}.get(found.goal, figures.forwarding_rate_pps)


def _bit_rate(name: str) -> Read:
    """Return a reader of the bit rate that belongs to the packet rate of a row."""

    def rate(found: TableRow) -> Any:
        pps = _packets_per_s(found)
        return getattr(found.row, name)(pps.median) if pps else None

    return rate


def _count(name: str) -> Read:
    """Return a reader of the median of counts, as text."""
    value = read(f"row.figures.{name}")
    return lambda found: None if value(found) is None else count_text(value(found).median)


def _lower_bound(loss_ratio: float) -> Read:
    """Return a reader of the median, over a trial's searches, of the highest load that lost at most `loss_ratio`."""

    return lambda udp: udp.lower_bound_pps(loss_ratio)


def _counted(key: str, **more: Any) -> Figure:
    """Return a figure that is computed from the counts of the timed trial, such as a ratio."""
    return Figure(key, of_trial=read(f"counts.{key}"), is_row_data="of_row" in more, **more)


def _stored(key: str, path: str = "") -> Figure:
    """Return a figure that is stored as a field of the timed trial's counts."""
    return Figure(key, of_trial=read(f"counts.{path or key}"), is_stored=True, is_row_data=False)


def _rate(key: str, title: str, **more: Any) -> Figure:
    """Return a figure that only tables have."""
    return Figure(key, title, is_row_data=False, **more)


def _delay(percentile: str, title: str, **more: Any) -> Figure:
    """Return the figure of a percentile of the delay; tables print it in microseconds."""
    return of_rows(
        f"delay_{percentile}_ns",
        title,
        unit="µs",
        of_trial=read(f"counts.delay.{percentile}_ns"),
        is_stored=True,
        scale=1e-3,
        digits=3,
        spread=Spread.NOWHERE,
        **more,
    )


def _milliseconds(key: str, title: str, path: str, **more: Any) -> Figure:
    """Return the figure of a time of a trial that few tests have [s]; tables print it in milliseconds."""
    return of_rows(
        key, title, unit="ms", of_trial=read(path), is_stored=True, is_optional=True, scale=1e3, digits=3, **more
    )


UDP = (
    _rate(
        "frame_bytes",
        "Frame",
        unit="bytes",
        help="Frame: Ethernet with FCS.",
        of_table=lambda found: f"{found.row.frame_bytes:.0f}",
        short="frame",
        under=PLACE,
    ),
    SHARE,
    _rate(
        "packets_per_s",
        "Packets/s",
        help="Packets/s: what came through; of a search NDR and PDR: the highest offered loads at which it lost "
        "nothing and at most 0.5 %, the median of all searches.",
        of_table=_packets_per_s,
        is_rate=True,
    ),
    _rate(
        "payload_bps",
        "Payload",
        unit="Mbit/s",
        of_table=_bit_rate("payload_bps"),
        is_rate=True,
        scale=1e-6,
        short="Mbit/s",
    ),
    _rate(
        "layer_1_bps",
        "Layer 1",
        unit="Mbit/s",
        help="Layer 1: on the cable, with preamble and gap.",
        of_table=_bit_rate("layer_1_bps"),
        is_rate=True,
        scale=1e-6,
        short="layer 1",
        under="payload_bps",
    ),
    *map(_stored, ("duration_s", "intended_pps", "intended_packets", "sent_packets", "sent_bytes", "sending_s")),
    *map(_stored, ("unsent_packets", "received_packets", "received_bytes", "receiving_s", "late_packets")),
    *map(_stored, ("duplicated_packets", "reordered_packets", "corrupted_packets", "foreign_packets")),
    _stored("tester_dropped_packets"),
    *(stored(name, f"counters.{name}") for name in FRAGMENTS),
    _counted("lost_packets", help="Packets that were sent and did not arrive in time."),
    _counted(
        "path_lost_packets",
        title="Lost",
        help="Lost: packets, without the drops of the testers' sockets.",
        of_row=read("figures.path_lost_packets"),
        of_table=_count("path_lost_packets"),
        is_optional=True,
    ),
    _counted(
        "loss_ratio",
        title="Loss",
        help="Loss: on the path, without the drops of the testers' sockets; of a search in the trial that confirms the "
        "NDR.",
        of_row=read("figures.loss_ratio"),
        of_table=except_pdr("loss_ratio"),
        is_share=True,
        spread=Spread.NOT_IN_TERMINAL,
    ),
    _counted("offered_pps", help="Packets per second that were offered."),
    _counted(
        "forwarding_rate_pps",
        help="Packets per second that arrived; null for a search.",
        of_row=read("figures.forwarding_rate_pps"),
        is_rate=True,
    ),
    _counted("throughput_bps", help="UDP payload that arrived."),
    *map(_stored, ("stalls", "stall_max_s")),
    _delay("p50", "Delay 50 %", help="Delay: one way; for an echo, there and back.", short="delay µs 50 %"),
    _stored("delay_p90_ns", "delay.p90_ns"),
    _delay("p99", "Delay 99 %", short="99 %", narrow_under="delay_p50_ns"),
    _stored("delay_p99_9_ns", "delay.p99_9_ns"),
    _delay("max", "Delay worst", short="worst", narrow_under="delay_p50_ns"),
    of_rows(
        "delay_variation_p99_ns",
        help="99th percentile of the delay variation (RFC 3393).",
        of_trial=read("counts.delay_variation.p99_ns"),
        is_stored=True,
    ),
    _milliseconds(
        "longest_gap_s",
        "Longest gap",
        "counts.longest_gap_s",
        help="Longest gap: between two arrivals in one trial.",
    ),
    _stored("longest_gap_start_s"),
    of_rows(
        "rekeys",
        "Rekeys",
        help="Rekeys: changes of keys in one trial.",
        of_trial=read("rekeys"),
        of_table=_count("rekeys"),
        is_stored=True,
        is_optional=True,
    ),
    of_rows(
        "handshakes_per_s",
        "Tunnels/s",
        help="Tunnels/s: that other clients of the server set up.",
        of_trial=read("handshakes.per_s"),
        is_optional=True,
        digits=3,
    ),
    _milliseconds(
        "handshake_p50_s",
        "Set-up 50 %",
        "handshakes.setup_p50_s",
        help="Set-up: of such a tunnel, from its start to the answer to its first packet.",
    ),
    _milliseconds("handshake_max_s", "Set-up worst", "handshakes.setup_max_s"),
    of_rows(
        "server_memory_bytes",
        help="Memory of the server's programs before the tunnels of further clients are open.",
        of_trial=read("handshakes.memory.before_bytes"),
        is_optional=True,
    ),
    of_rows(
        "tunnel_memory_bytes",
        "Memory/tunnel",
        unit="KiB",
        help="Memory/tunnel: of the server's programs, for each open tunnel.",
        of_trial=read("handshakes.memory.per_tunnel_bytes"),
        is_optional=True,
        scale=1 / 1024,
        digits=3,
    ),
    of_rows(
        "ndr_pps",
        help="Highest load that a search carried without loss; the median of several searches.",
        of_trial=_lower_bound(NDR_LOSS_RATIO),
        is_rate=True,
    ),
    of_rows(
        "pdr_pps",
        help="Highest load at which a search lost at most 0.5 %; the median of several searches.",
        of_trial=_lower_bound(PDR_LOSS_RATIO),
        is_rate=True,
    ),
    Figure(
        "is_refuted",
        help="True if the confirming trial lost packets at the NDR; null if that trial is not conclusive.",
        of_trial=read("is_refuted"),
        is_row_data=False,
    ),
    of_rows("searches", help="Number of searches in all trials."),
    of_rows("complete_searches", help="Number of searches that ended within their time."),
    of_rows("confirmed", help="Number of confirming trials that lost no packet."),
    of_rows("refuted", help="Number of confirming trials that lost packets."),
    of_rows(
        "longest_burst_packets",
        help="Longest burst of which no packet was lost (RFC 9004).",
        of_trial=read("longest_burst_packets"),
    ),
    of_rows("curve", help="Offered load [packets/s] and loss ratio of each point of a loss curve."),
    TESTER_LIMITED,
    BUSY,
    DAEMON,
    replace(COST, narrow_under=BUSY.key),
    *INSTRUCTIONS,
    FAR_END,
    *pings("delay_p50_ns", is_optional=True),
)
