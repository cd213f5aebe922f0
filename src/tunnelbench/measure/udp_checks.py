"""The checks of a UDP trial: figures in, verdicts in words out. No I/O.

What a search asks for is judged point by point in `model.search`; here stands what holds for the trial as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tunnelbench.measure.checks import (
    CONTROL_PACKETS,
    TESTER_CPU_LIMIT_SHARE,
    TESTER_THROUGHPUT_LIMIT_SHARE,
    drops,
    far_end,
    foreign_load,
    fragments,
    kept_alive,
    outer_protocol,
    responsiveness,
    restarted,
    router_cpu,
    steal,
)
from tunnelbench.model.frames import ethernet_bytes
from tunnelbench.model.plan import FLAT_OUT, Test, TrialSpec
from tunnelbench.model.result import Check, PathCounters, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.model.udp import UdpCounts, UdpMeasurement, mean_payload_bytes

UDP_HEADERS_BYTES = 28
"""IPv4 and UDP."""

COUNT_TOLERANCE = 0.001
"""Packets that arrived at the receiver's device and not at its socket, before a trial is doubted."""

OVER_LIMIT_TOLERANCE = 0.005


def check_udp_trial(
    spec: TrialSpec,
    udp: UdpMeasurement,
    *,
    received_packets: int,
    outer: str,
    exact_outer_packets: bool,
    foreign: Mapping[str, float],
    router_cpu_doubt: str,
    restart: str,
    testers_pps: float | None,
    keep_alives: Sequence[bool] = (),
    has_own_router: bool = False,
    counted_bytes: Callable[[int], int] = ethernet_bytes,
) -> tuple[Check, ...]:
    """All checks of one UDP trial through a tunnel.

    `received_packets` is what the engine's sockets were handed over all of it, echoes and drops at the sockets
    included; the others are as in `checks.check_trial`, `testers_pps` what the testers do back to back [packets/s].
    """
    found: list[Check] = []
    if udp.counters is not None:
        carried = udp.counters.data_packets + udp.counters.ack_packets
        payload_bytes = round(received_packets * mean_payload_bytes(spec.payload_bytes))
        found += [
            _merged_frames(spec, udp.counters, carried, counted_bytes, has_own_router=has_own_router),
            outer_protocol(udp.counters, carried, payload_bytes, outer, exact=exact_outer_packets),
            fragments(udp.counters, carried),
            drops(udp.counters, carried),
            _counted(udp.counters, carried, received_packets),
        ]
    found += [
        restarted(restart),
        *kept_alive(keep_alives),
        _tester(spec, udp, testers_pps),
        router_cpu(router_cpu_doubt, has_own_router=has_own_router),
    ]
    found += _common(spec, udp, foreign)
    if udp.physical_limit_pps is not None and udp.counts is not None:
        found.append(_physical_limit(udp.counts, udp.physical_limit_pps))
    if udp.ping.sent:
        found.append(responsiveness(udp.ping))
    if spec.test is Test.SEARCH:
        found += _search(udp)
    return tuple(found)


def check_udp_calibration(spec: TrialSpec, udp: UdpMeasurement, foreign: Mapping[str, float]) -> tuple[Check, ...]:
    """All checks of one trial of the testers alone; that they are the limit is what it is for."""
    return tuple(_common(spec, udp, foreign))


def _common(spec: TrialSpec, udp: UdpMeasurement, foreign: Mapping[str, float]) -> list[Check]:
    found = [foreign_load(udp.foreign_cpu_s, udp.bracket_s, foreign)]
    if udp.window is not None:
        found.append(steal(udp.window))
    if udp.counts is not None:
        found += [
            check_offered(spec, udp.counts),
            check_receiver(udp.counts),
            _pacing(udp.counts),
            check_packet_state(udp.counts),
        ]
    return found


def _merged_frames(
    spec: TrialSpec, counters: PathCounters, carried: int, counted_bytes: Callable[[int], int], *, has_own_router: bool
) -> Check:
    """One frame is one packet, as many forwarded as arrived; of a real router as in `checks`."""
    if not counters.data_packets:
        return Check("merged-frames", Verdict.VOID, "no data packets were counted", rule=1)
    mean_bytes = counters.data_bytes / counters.data_packets
    largest_bytes = counted_bytes(round(mean_payload_bytes(spec.payload_bytes)) + UDP_HEADERS_BYTES)
    missing = carried - counters.forwarded_packets
    reason = (
        f"frames of {mean_bytes:.0f} bytes on average where one packet makes {largest_bytes}; "
        f"router forwarded {counters.forwarded_packets} packets, {carried} arrived"
    )
    merged = mean_bytes > largest_bytes * 1.01
    uncounted = missing > carried * 0.01 + CONTROL_PACKETS
    if merged or (uncounted and not has_own_router):
        return Check("merged-frames", Verdict.VOID, reason, rule=1)
    if uncounted:
        reason += ": it merges packets, or offloads flows"
    return Check("merged-frames", Verdict.NOTE if uncounted else Verdict.OK, reason, rule=1)


def _counted(counters: PathCounters, carried: int, received_packets: int) -> Check:
    """What arrived at the testers' devices went to the engine's sockets: nothing else lost it there.

    Fragments are more packets on a device than at a socket.
    """
    reason = f"{carried} packets arrived at the testers' devices, the engine accounts for {received_packets}"
    if counters.reassembled:
        return Check("packet-count", Verdict.OK, f"{reason}; fragments were put together", rule=9)
    missing = carried - received_packets
    lost = missing > carried * COUNT_TOLERANCE + CONTROL_PACKETS
    return Check("packet-count", Verdict.DOUBTFUL if lost else Verdict.OK, reason, rule=9)


def check_offered(spec: TrialSpec, counts: UdpCounts) -> Check:
    """Rule 7: a sender that falls short would show a loss that is none, or none where there is one.

    The confirming trial of a search confirms nothing then; what the search found stands.
    """
    if counts.intended_packets is None:
        return Check("offered", Verdict.OK, f"flat out: {counts.sent_packets} packets were offered", rule=7)
    reason = f"{counts.sent_packets} of {counts.intended_packets} intended packets were offered"
    fatal = Verdict.DOUBTFUL if spec.test is Test.SEARCH else Verdict.VOID
    return Check("offered", fatal if counts.is_short else Verdict.OK, reason, rule=7)


def check_receiver(counts: UdpCounts) -> Check:
    """Rule 9: drops of the receiver's socket are not the router's."""
    dropped = counts.tester_dropped_packets
    reason = f"the testers' sockets dropped {dropped} of {counts.received_packets + dropped} packets"
    verdict = Verdict.OK if not dropped else Verdict.DOUBTFUL
    return Check("receiver-drops", verdict, f"{reason}: a limit of the testers" if dropped else reason, rule=9)


def _pacing(counts: UdpCounts) -> Check:
    """Rule 8."""
    if counts.intended_pps is None:
        return Check("pacing", Verdict.OK, f"flat out, by {counts.sender_path}", rule=8)
    off = counts.offered_pps / counts.intended_pps - 1
    reason = (
        f"offered {counts.offered_pps:.6g} packets/s, {off * 1e6:+.0f} ppm of what was asked for; the sender was late "
        f"by over 1 ms {counts.stalls} times, at most {counts.stall_max_s * 1e3:.3g} ms"
    )
    return Check("pacing", Verdict.NOTE if counts.stalls else Verdict.OK, reason, rule=8)


def check_packet_state(counts: UdpCounts) -> Check:
    """Packets that were not as they were sent, or not of this trial."""
    late = "an unknown number" if counts.late_packets is None else counts.late_packets
    reason = (
        f"{counts.duplicated_packets} duplicated, {counts.reordered_packets} reordered, {counts.corrupted_packets} "
        f"corrupted, {late} late, {counts.foreign_packets} foreign"
    )
    odd = counts.duplicated_packets + counts.reordered_packets + counts.corrupted_packets + counts.foreign_packets
    return Check("packet-state", Verdict.NOTE if odd or counts.late_packets else Verdict.OK, reason, rule=9)


def check_delays(spec: TrialSpec, *, has_one_clock: bool) -> tuple[Check, ...]:
    """Of a trial of delays: whether there can be any."""
    if spec.test is not Test.LATENCY:
        return ()
    if has_one_clock:
        return (Check("delays", Verdict.OK, "sender and receiver read one clock", rule=10),)
    reason = (
        "the testers are two machines with a clock each: by how much delays vary is known, how long they are is not"
    )
    return (Check("delays", Verdict.NOTE, reason, rule=10),)


def _tester(spec: TrialSpec, udp: UdpMeasurement, testers_pps: float | None) -> Check:
    """Rule 6: whether the testers, and not the router, set the figure."""
    reasons, limited = [], False
    if udp.window is not None:
        share, router = udp.window.busiest_tester_share, udp.router_busy_share or 0.0
        reasons.append(f"a tester's CPU was {share:.0%} busy, {far_end(udp.window)}the router's {router:.0%}")
        # A sender spins up to its rate's next packet: a busy CPU limits only where as much as possible is offered.
        limited = share >= TESTER_CPU_LIMIT_SHARE and spec.load == FLAT_OUT
    rates = [udp.counts.forwarding_rate_pps] if udp.counts is not None else []
    rates += [found.lower_pps for run in udp.searches if (found := run.bounds(PDR_LOSS_RATIO)).lower_pps is not None]
    if testers_pps and rates:
        reached = max(rates) / testers_pps
        reasons.append(f"{reached:.0%} of what the testers do back to back")
        limited = limited or reached > TESTER_THROUGHPUT_LIMIT_SHARE
    ratios = (NDR_LOSS_RATIO, PDR_LOSS_RATIO)
    at_testers = [run.bounds(ratio).upper_is_testers for run in udp.searches for ratio in ratios]
    if any(at_testers):
        reasons.append(f"{sum(at_testers)} of {len(at_testers)} upper bounds are loads that the testers failed at")
        limited = True
    reason = "; ".join(reasons) or "nothing to compare with"
    return Check(
        "tester-limited",
        Verdict.DOUBTFUL if limited else Verdict.OK,
        f"{reason}: the testers were the limit" if limited else reason,
        rule=6,
    )


def _physical_limit(counts: UdpCounts, limit_pps: float) -> Check:
    """Rule 17."""
    share = counts.forwarding_rate_pps / limit_pps
    reason = f"{share:.1%} of the {limit_pps:.0f} packets/s that the link can carry of this payload"
    verdict = Verdict.DOUBTFUL if share > 1 + OVER_LIMIT_TOLERANCE else Verdict.OK
    return Check("physical-limit", verdict, reason, rule=17)


def _search(udp: UdpMeasurement) -> list[Check]:
    """Rule 20: whether each search came to its end, and whether the long trial bears it out."""
    found = []
    cut = [run.ended for run in udp.searches if not run.is_complete]
    reason = f"{len(udp.searches) - len(cut)} of {len(udp.searches)} searches came to their end"
    if cut:
        reason = f"{reason}; {cut[0]}"
    found.append(Check("search", Verdict.DOUBTFUL if cut else Verdict.OK, reason, rule=20))
    if udp.counts is not None:
        counts = udp.counts
        lost = f"{counts.path_lost_packets} of {counts.sent_packets} packets lost"
        word = {True: "refuted", False: "confirmed", None: "neither confirmed nor refuted"}[udp.is_refuted]
        reason = f"{lost} in {counts.duration_s:g} s at the NDR: {word}"
        found.append(Check("confirmation", Verdict.OK if udp.is_refuted is False else Verdict.NOTE, reason, rule=20))
    return found
