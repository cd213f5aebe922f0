"""The checks of the figures that a traffic generator reports against independent counts. They do no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunnelbench.model.conditions import USUAL_WRITE_BYTES, least_filled_share
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, TCP_HEADERS_BYTES
from tunnelbench.model.result import CONTROL_PACKETS, Check, TcpMeasurement, Verdict
from tunnelbench.model.text import printable
from tunnelbench.traffic.iperf3 import ACTUAL_BUFFERS, BUFFER_LIMITS

ALWAYS_REPORTED = frozenset({"protocol", "num_streams", "duration", "reverse", "connections", *ACTUAL_BUFFERS})
"""Settings that both ends must report if the plan asks for them; some versions of iperf3 lack others."""
SHORTEST_TEST_SHARE = 0.95
"""Smallest share of the planned duration that iperf3 may report as the duration of its test."""
LEAST_RECEIVED_SHARE = 0.95
"""Smallest share of the payload that arrived during iperf3's time which iperf3 must report as received."""


FULL_HEADERS_BYTES = ETHERNET_HEADER_BYTES + TCP_HEADERS_BYTES
"""Bytes that a network device counts for a packet of TCP over IPv4 in addition to its payload."""


def iperf3_figures(
    tcp: TcpMeasurement,
    planned_s: float,
    write_bytes: int = USUAL_WRITE_BYTES,
    headers_bytes: int = FULL_HEADERS_BYTES,
) -> Check:
    """Check the two figures that the throughput is made of: the time and the bytes that iperf3's receiver reports.

    The test lasted at least the planned time, and was inside the bracket. The packets that arrived in the bracket and
    were not sent again carried the payload. Packets that arrived after iperf3's clock had stopped did not come at a
    higher rate than before, so their share of all packets is at most the share of that time in the bracket.
    Segments are at least as full as writes of `write_bytes` make them, and as the bytes say that the device counted:
    at most `headers_bytes` of a packet are no payload.
    """
    wrong = []
    if not planned_s * SHORTEST_TEST_SHARE <= tcp.duration_s <= tcp.bracket_s:
        wrong.append("its time is wrong")
    reason = (
        f"iperf3 reports {tcp.bytes_received} bytes in {tcp.duration_s:.2f} s; its test was planned for "
        f"{planned_s:g} s, and started and ended within {tcp.bracket_s:.2f} s"
    )
    mss_bytes, packets = tcp.mss_bytes or 0, tcp.counters.data_packets
    twice_bytes = ((tcp.retransmits or 0) + CONTROL_PACKETS) * mss_bytes
    by_writes = packets * mss_bytes * least_filled_share(write_bytes, mss_bytes)
    arrived_bytes = max(by_writes, tcp.counters.data_bytes - packets * headers_bytes) - twice_bytes
    if mss_bytes and arrived_bytes > 0:
        share = tcp.bytes_received / arrived_bytes
        reason += f"; {share:.1%} of what arrived in that time"
        if share < min(1.0, tcp.duration_s / tcp.bracket_s) * LEAST_RECEIVED_SHARE:
            wrong.append("it reports too few bytes")
    if wrong:
        reason += ": " + ", and ".join(wrong)
    return Check("iperf3-figures", Verdict.DOUBTFUL if wrong else Verdict.OK, reason, rule=16)


def iperf3_settings(planned: Mapping[str, Any], reported: Mapping[str, Mapping[str, Any]]) -> Check:
    """Check that both ends of iperf3 made the test that the plan asks for. `reported` is by the name of the end.

    An end reports only some of the settings: a server knows no MSS of its own, and old versions report fewer.
    """
    wrong = [
        f"{name} {found.get(name, 'unknown')!s:.40} on the {end} (planned: {value})"
        for end, found in reported.items()
        for name, value in planned.items()
        if (name in ALWAYS_REPORTED or name in found) and found.get(name) != value
    ]
    if wrong:
        reason = f"iperf3 ran a different test than the plan asks for: {printable(', '.join(wrong))}"
        if any(name in reason for name in ACTUAL_BUFFERS):
            reason += f". {BUFFER_LIMITS}"
        return Check("iperf3-settings", Verdict.VOID, reason, rule=16)
    return Check("iperf3-settings", Verdict.OK, "both ends of iperf3 report the settings of the plan", rule=16)
