"""The checks of a trial of TCP connections. They do no I/O."""

from __future__ import annotations

from tunnelbench.measure.checks import (
    TESTER_THROUGHPUT_LIMIT_SHARE,
    TrialContext,
    far_end,
    foreign_load,
    path_checks,
    responsiveness,
    steal,
)
from tunnelbench.measure.speed_checks import is_surely_the_limit, router_clock, withstands_load
from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.frames import tcp_packet_bytes
from tunnelbench.model.plan import CONNECTION_PAYLOAD_BYTES, FLAT_OUT, Test, TrialSpec
from tunnelbench.model.result import FULL_CPU_SHARE, Check, Verdict
from tunnelbench.model.udp import UdpMeasurement

LEAST_PACKETS = 2
"""Fewest packets that an established connection sends each way: SYN and token, or their ACKs. One that is closed sends
one more."""

OPENED_SHARE = 0.99
"""Smallest share of the connections of the plan's rate that must have been begun."""

TRACKED_SHARE = 0.98
"""Smallest share of the open connections that a tracking router must have had in its list."""


def check_connection_trial(
    spec: TrialSpec, measured: UdpMeasurement, context: TrialContext, testers_per_s: float | None = None
) -> tuple[Check, ...]:
    """Return all checks of one trial of connections.

    `testers_per_s` is the number of new connections per second of the testers without a router; None if unknown.
    """
    counts, window, counters = measured.connections, measured.window, measured.counters
    if counts is None or window is None or counters is None:
        raise ValueError("a trial of connections has counts, a window and counters")
    is_harmless = not context.is_calibration and withstands_load(window, is_paced=spec.load != FLAT_OUT)
    found = [
        foreign_load(measured.foreign_cpu_s, measured.bracket_s, context.foreign, is_harmless=is_harmless),
        steal(window),
        _opened(counts),
        _outcomes(spec, counts),
        _packets(counts, min(counters.data_packets, counters.ack_packets)),
    ]
    if context.is_calibration:
        return tuple(found)
    largest = context.counted_bytes(tcp_packet_bytes(CONNECTION_PAYLOAD_BYTES, context.inner_header_bytes))
    payload_bytes = 2 * CONNECTION_PAYLOAD_BYTES * counts.established
    found += path_checks(counters, payload_bytes, f"one token makes {largest}", largest, context)
    found += [_tester(spec, measured, counts, testers_per_s), *router_clock(window)]
    found += [responsiveness(measured.ping)] if measured.ping.sent else []
    if spec.tunnel.packet_filter.firewall.tracks:
        found.append(_tracked(counts))
    return tuple(found)


def _opened(counts: ConnectionCounts) -> Check:
    """Check that the client began as many connections as the plan's rate requires, and its kernel refused none."""
    reason = f"{counts.begun} connections were begun, and the client's kernel refused {counts.unsent}"
    is_short = False
    if counts.intended_per_s is not None and counts.closed + counts.broken:
        intended = counts.intended_per_s * counts.duration_s
        reason += f"; the rate of the plan makes {intended:.0f}"
        is_short = counts.begun < intended * OPENED_SHARE - 1
    return Check("offered", Verdict.VOID if is_short or counts.unsent else Verdict.OK, reason, rule=7)


def _outcomes(spec: TrialSpec, counts: ConnectionCounts) -> Check:
    """Report the connections that were not established. In a trial of many at the same time, they are its result if
    they show a limit."""
    lost = counts.not_established
    reason = (
        f"{counts.established} of {counts.begun} connections were established, {counts.timed_out} timed out, "
        f"{counts.refused} were refused, {counts.failed} failed, and {counts.broken} broke"
    )
    if spec.test is Test.CONCURRENT and lost and not counts.shows_limit:
        reason += (
            "; some were lost while later ones were established, so the number is no limit: "
            f"{counts.intended_per_s:g} per second may be too fast for the path; set a lower connections.opening_rate"
        )
        return Check("connections", Verdict.DOUBTFUL, reason, rule=9)
    is_note = bool(lost or counts.broken) and spec.test is Test.CONNECT
    return Check("connections", Verdict.NOTE if is_note else Verdict.OK, reason, rule=9)


def _packets(counts: ConnectionCounts, packets: int) -> Check:
    """Check that each way carried at least the packets of the established connections (rule 16)."""
    least = LEAST_PACKETS * counts.established + counts.closed
    reason = f"{packets} packets arrived in the direction with fewer; {counts.established} connections take {least}"
    return Check("packet-count", Verdict.VOID if packets < least * 0.99 else Verdict.OK, reason, rule=16)


def _tester(spec: TrialSpec, measured: UdpMeasurement, counts: ConnectionCounts, testers_per_s: float | None) -> Check:
    """Check that the router, and not a tester, limited the rate of new connections."""
    window = measured.window
    if window is None:
        raise ValueError("a trial of connections has a window")
    share = window.busiest_tester_share
    reason = f"a tester's CPU was {share:.0%} busy, {far_end(window)}the router's {measured.router_busy_share or 0:.0%}"
    is_flat_out = spec.load == FLAT_OUT
    limited = is_flat_out and share >= FULL_CPU_SHARE
    if is_flat_out and testers_per_s:
        reached = counts.established_per_s / testers_per_s
        reason += f"; {reached:.0%} of the new connections per second of the testers without a router"
        limited = limited or reached > TESTER_THROUGHPUT_LIMIT_SHARE
    limited = limited and not is_surely_the_limit(window)
    if limited:
        reason += ": the testers were the limit"
    return Check("tester-limited", Verdict.DOUBTFUL if limited else Verdict.OK, reason, rule=6)


def _tracked(counts: ConnectionCounts) -> Check:
    """Check by the router's own count that it tracked the connections that were open at the same time."""
    if counts.tracked is None or counts.tracked_most is None:
        return Check("tracked", Verdict.NOTE, "the router's kernel does not report tracked connections", rule=12)
    reason = f"the router tracked up to {counts.tracked} connections, and {counts.open_max} were open"
    if counts.tracked_most.limit is not None:
        reason += f"; its limit is {counts.tracked_most.limit}" + ", and the list was full" * counts.has_full_tracker
    missing = counts.tracked < counts.open_max * TRACKED_SHARE
    return Check("tracked", Verdict.VOID if missing else Verdict.OK, reason, rule=12)
