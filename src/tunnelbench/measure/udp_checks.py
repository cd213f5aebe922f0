"""The checks of a UDP trial. They do no I/O.

`model.search` judges each load of a search; the checks of this module judge the whole trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from statistics import median

from tunnelbench.measure.checks import (
    TESTER_THROUGHPUT_LIMIT_SHARE,
    TrialContext,
    drops,
    far_end,
    foreign_load,
    fragments,
    path_checks,
    physical_limit,
    responsiveness,
    steal,
    tunnel_checks,
)
from tunnelbench.measure.speed_checks import is_surely_the_limit, router_clock, withstands_load
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.frames import udp_packet_bytes
from tunnelbench.model.plan import CALIBRATION_KIND, FLAT_OUT, Test, TrialSpec
from tunnelbench.model.result import CONTROL_PACKETS, FULL_CPU_SHARE, Check, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, SearchPoint, lower_bounds
from tunnelbench.model.text import counted
from tunnelbench.model.udp import UdpCounts, UdpMeasurement, mean_payload_bytes

GAP_SHARE = 0.1
"""Largest delay of the sender, as a share of the longest gap between two arrivals."""
SHORTEST_DELAY_S = 0.001
"""Delay of the sender that is accepted with any gap [s]."""
COUNT_TOLERANCE = 0.001
"""Largest share of the packets that may arrive at a tester's device but not at its socket."""

STEADY_LOSS_PACKETS = 10
"""Smallest number of lost packets in a trial of a search whose loss ratio is compared with those of other loads."""
STEADY_LOSS_FACTOR = 3.0
"""Largest quotient of two loss ratios that count as about equal."""
STEADY_LOSS_SPAN = 10.0
"""Smallest quotient of the highest and the lowest load at which about the same share was lost, if the load is not the
cause of the loss. Behind a limit, the loss ratio triples within some per cent of the load."""


def check_udp_trial(
    spec: TrialSpec,
    udp: UdpMeasurement,
    context: TrialContext,
    received_packets: int = 0,
    testers_pps: float | None = None,
) -> tuple[Check, ...]:
    """Return all checks of one UDP trial.

    `received_packets` is the number that reached the engine's sockets in the trial, including echoes and socket drops.
    `testers_pps` is the packet rate of the testers without a router; None if unknown.
    """
    found = _common_checks(spec, udp, context.foreign, is_calibration=context.is_calibration)
    if context.is_calibration:  # the testers may be the limit there
        return tuple(found)
    if udp.counters is not None:
        payload_bytes = mean_payload_bytes(spec.payload_bytes)
        largest = context.counted_bytes(udp_packet_bytes(round(payload_bytes), context.inner_header_bytes))
        received_bytes = round(received_packets * payload_bytes)
        found += path_checks(udp.counters, received_bytes, f"one packet makes {largest}", largest, context)
        found.append(_counted(udp.counters, received_packets, has_own_router=context.has_own_router))
    else:
        found += tunnel_checks(context)
    return (*found, *_router_checks(spec, udp, testers_pps))


def checks_of_stored_udp(spec: TrialSpec, udp: UdpMeasurement) -> tuple[Check, ...]:
    """Return the checks of a UDP trial that follow from its stored figures alone, as `checks_of_stored` for TCP."""
    is_calibration = spec.tunnel.kind == CALIBRATION_KIND
    found = _common_checks(spec, udp, {}, is_calibration=is_calibration)
    if is_calibration:
        return tuple(found)
    if udp.counters is not None:
        carried = udp.counters.data_packets + udp.counters.ack_packets
        found += [fragments(udp.counters, carried, has_tunnel=spec.tunnel.has_tunnel), drops(udp.counters, carried)]
    return (*found, *_router_checks(spec, udp, None))


def _common_checks(
    spec: TrialSpec, udp: UdpMeasurement, foreign: Mapping[str, float], *, is_calibration: bool
) -> list[Check]:
    """Return the checks of a UDP trial with a router or without; `foreign` is the background load by process [s]."""
    is_harmless = not is_calibration and withstands_load(udp.window, is_paced=spec.load != FLAT_OUT)
    found = [foreign_load(udp.foreign_cpu_s, udp.bracket_s, foreign, is_harmless=is_harmless)]
    if udp.window is not None:
        found.append(steal(udp.window))
    if udp.counts is not None:
        counts = udp.counts
        found += [check_offered(spec, counts), check_receiver(counts), _pacing(counts), check_packet_state(counts)]
        found += _gap(spec, counts)
    return found


def _router_checks(spec: TrialSpec, udp: UdpMeasurement, testers_pps: float | None) -> list[Check]:
    """Return the checks of a UDP trial through a router that follow from its figures, but for the path's counters."""
    found = [*check_handshakes(udp)] or [_tester(spec, udp, testers_pps)]
    if udp.window is not None:
        # Other trials are paced as well, but their delays, gaps and times of handshakes depend on each wait.
        is_paced = spec.load != FLAT_OUT and spec.test is Test.RATE
        found += router_clock(udp.window, is_paced=is_paced)
    if udp.physical_limit_pps is not None and udp.counts is not None:
        found.append(physical_limit(udp.counts.forwarding_rate_pps, udp.physical_limit_pps, "packets/s"))
    if udp.ping.sent:
        found.append(responsiveness(udp.ping))
    if spec.test.is_search:
        found += _search(udp)
    return found


def _counted(counters: PathCounters, received_packets: int, *, has_own_router: bool) -> Check:
    """Check that all packets that arrived at the testers' devices also reached the engine's sockets, and no others.

    A fragmented packet is several packets on a device and one at a socket. A network card may merge packets before it
    counts them, so that more packets reach the engine than a card has counted.
    """
    carried = counters.data_packets + counters.ack_packets
    reason = f"{carried} packets arrived at the testers' devices; {received_packets} of them reached the packet engine"
    if counters.reassembled:
        return Check("packet-count", Verdict.OK, f"{reason}; fragments were put together", rule=9)
    missing = carried - received_packets
    tolerance = carried * COUNT_TOLERANCE + CONTROL_PACKETS
    if -missing > tolerance and not has_own_router:
        reason = f"{reason.partition(';')[0]}, and the packet engine counted {received_packets}: more than arrived"
        return Check("packet-count", Verdict.DOUBTFUL, reason, rule=9)
    return Check("packet-count", Verdict.DOUBTFUL if missing > tolerance else Verdict.OK, reason, rule=9)


def check_offered(spec: TrialSpec, counts: UdpCounts) -> Check:
    """Check that the sender sent all intended packets (rule 7); otherwise the loss ratio is wrong.

    If the confirming trial of a search fails this check, it confirms nothing, but the search's result remains valid.
    """
    if counts.intended_packets is None:
        return Check("offered", Verdict.OK, f"flat out: {counts.sent_packets} packets were offered", rule=7)
    reason = f"{counts.sent_packets} of {counts.intended_packets} intended packets were offered"
    fatal = Verdict.DOUBTFUL if spec.test.is_search else Verdict.VOID
    return Check("offered", fatal if counts.is_short else Verdict.OK, reason, rule=7)


def check_receiver(counts: UdpCounts) -> Check:
    """Check that no tester's socket dropped packets (rule 9); such drops are not the router's."""
    dropped = counts.tester_dropped_packets
    reason = f"the testers' sockets dropped {dropped} of {counts.received_packets + dropped} packets"
    verdict = Verdict.OK if not dropped else Verdict.DOUBTFUL
    return Check("receiver-drops", verdict, f"{reason}: a limit of the testers" if dropped else reason, rule=9)


def _pacing(counts: UdpCounts) -> Check:
    """Check that the sender kept its pace (rule 8)."""
    if counts.intended_pps is None:
        return Check("pacing", Verdict.OK, f"flat out, by {counts.sender_path}", rule=8)
    off = counts.offered_pps / counts.intended_pps - 1
    reason = (
        f"offered {counts.offered_pps:.6g} packets/s, {off * 1e6:+.0f} ppm from the intended rate; the sender was late "
        f"by over 1 ms {counted(counts.stalls, 'time')}, at most {counts.stall_max_s * 1e3:.3g} ms"
    )
    return Check("pacing", Verdict.NOTE if counts.stalls else Verdict.OK, reason, rule=8)


def check_packet_state(counts: UdpCounts) -> Check:
    """Count the packets that arrived corrupted, twice, late or out of order, or that belong to another trial."""
    late = "an unknown number" if counts.late_packets is None else counts.late_packets
    reason = (
        f"{counts.duplicated_packets} duplicated, {counts.reordered_packets} reordered, {counts.corrupted_packets} "
        f"corrupted, {late} late, {counts.foreign_packets} foreign"
    )
    odd = counts.duplicated_packets + counts.reordered_packets + counts.corrupted_packets + counts.foreign_packets
    return Check("packet-state", Verdict.NOTE if odd or counts.late_packets else Verdict.OK, reason, rule=9)


def _gap(spec: TrialSpec, counts: UdpCounts) -> list[Check]:
    """Check that the path, and not the sender, made the longest gap between two arrivals; only for the test `rekey`."""
    if spec.test not in {Test.REKEY, Test.HANDSHAKE}:
        return []
    if counts.longest_gap_s is None:
        return [Check("gap", Verdict.VOID, "fewer than two packets arrived, so there is no time between two", rule=8)]
    reason = f"the longest gap is {counts.longest_gap_s * 1e3:.3g} ms, the sender's longest delay"
    reason = f"{reason} {counts.stall_max_s * 1e3:.3g} ms"
    is_senders = counts.stall_max_s > max(counts.longest_gap_s * GAP_SHARE, SHORTEST_DELAY_S)
    return [Check("gap", Verdict.DOUBTFUL if is_senders else Verdict.OK, reason, rule=8)]


def check_handshakes(udp: UdpMeasurement) -> tuple[Check, ...]:
    """Check that clients have set up tunnels, and that the server, and not a tester, limited their number."""
    counts, window = udp.handshakes, udp.window
    if counts is None or window is None:  # a trial with which those with new tunnels are compared
        return ()
    reason = f"{counts.begun} tunnels were begun, {counts.finished} were up in time, and {counts.failed} failed"
    failed = Verdict.NOTE if counts.failed else Verdict.OK
    share, router = window.busiest_tester_share, udp.router_busy_share or 0.0
    limited = share >= FULL_CPU_SHARE > router and not is_surely_the_limit(window)
    limit = f"a tester's CPU was {share:.0%} busy, {far_end(window)}the router's {router:.0%}"
    return (
        Check("handshakes", Verdict.VOID if counts.per_s is None else failed, reason, rule=9),
        Check(
            "tester-limited",
            Verdict.DOUBTFUL if limited else Verdict.OK,
            f"{limit}: a tester was the limit" if limited else limit,
            rule=6,
        ),
    )


def check_delays(spec: TrialSpec, *, has_one_clock: bool) -> tuple[Check, ...]:
    """Check that a latency trial can have one-way delays; no check for other trials."""
    if spec.test is not Test.LATENCY:
        return ()
    if has_one_clock:
        return (Check("delays", Verdict.OK, "sender and receiver read one clock", rule=10),)
    reason = "the testers are two machines with separate clocks: the variation of delays is known, their length is not"
    return (Check("delays", Verdict.NOTE, reason, rule=10),)


def _tester(spec: TrialSpec, udp: UdpMeasurement, testers_pps: float | None) -> Check:
    """Check that the router, and not a tester, limited the rate (rule 6)."""
    reasons, limited = [], False
    if udp.window is not None:
        share, router = udp.window.busiest_tester_share, udp.router_busy_share or 0.0
        reasons.append(f"a tester's CPU was {share:.0%} busy, {far_end(udp.window)}the router's {router:.0%}")
        # A sender spins up to its rate's next packet: a busy CPU limits only where as much as possible is offered.
        limited = share >= FULL_CPU_SHARE and spec.load == FLAT_OUT
    rates = [udp.counts.forwarding_rate_pps] if udp.counts is not None else []
    rates += lower_bounds(udp.searches, PDR_LOSS_RATIO)
    if testers_pps and rates:
        reached = max(rates) / testers_pps
        reasons.append(f"{reached:.0%} of the packet rate of the testers without a router")
        limited = limited or reached > TESTER_THROUGHPUT_LIMIT_SHARE
    ratios = (NDR_LOSS_RATIO, PDR_LOSS_RATIO)
    at_testers = [run.bounds(ratio).upper_is_testers for run in udp.searches for ratio in ratios]
    if any(at_testers):
        reasons.append(f"the testers could not send or receive {sum(at_testers)} of {len(at_testers)} upper bounds")
        limited = True
    limited = limited and not is_surely_the_limit(udp.window)
    reason = "; ".join(reasons) or "the testers' own rate is unknown, so that their limit was not checked"
    return Check(
        "tester-limited",
        Verdict.DOUBTFUL if limited else Verdict.OK,
        f"{reason}: the testers were the limit" if limited else reason,
        rule=6,
    )


def _search(udp: UdpMeasurement) -> list[Check]:
    """Check that each search ended within its time limit, and that the confirming trial confirms the NDR (rule 20)."""
    found = []
    cut = [run.ended for run in udp.searches if not run.is_complete]
    reason = f"{len(udp.searches) - len(cut)} of {len(udp.searches)} searches ended within their time limit"
    if cut:
        reason = f"{reason}; {cut[0]}"
    found.append(Check("search", Verdict.DOUBTFUL if cut else Verdict.OK, reason, rule=20))
    if udp.counts is not None:
        counts = udp.counts
        lost = f"{counts.path_lost_packets} of {counts.sent_packets} packets lost"
        word = {True: "refuted", False: "confirmed", None: "neither confirmed nor refuted"}[udp.is_refuted]
        reason = f"{lost} in {counts.duration_s:g} s at the NDR: {word}"
        found.append(Check("confirmation", Verdict.OK if udp.is_refuted is False else Verdict.NOTE, reason, rule=20))
    found.append(_steady_loss(udp))
    return found


def _steady_loss(udp: UdpMeasurement) -> Check:
    """Check that the loss depends on the load (rule 20); otherwise the rates only show how long a trial is."""
    for run in udp.searches:
        alike = _alike(run.points)
        if not alike or alike[-1].intended_pps < STEADY_LOSS_SPAN * alike[0].intended_pps:
            continue
        ratios = [point.loss_ratio for point in alike]
        is_above = median(ratios) > PDR_LOSS_RATIO
        reason = (
            f"{min(ratios):.2%} to {max(ratios):.2%} of the packets were lost at loads from "
            f"{alike[0].intended_pps:.0f} to {alike[-1].intended_pps:.0f} packets/s: the loss does not depend on the "
            f"load, and the {'NDR and the PDR' if is_above else 'NDR'} only shows how long a trial is"
        )
        return Check("steady-loss", Verdict.DOUBTFUL if is_above else Verdict.NOTE, reason, rule=20)
    return Check("steady-loss", Verdict.OK, "no loss that does not depend on the load", rule=20)


def _alike(points: Iterable[SearchPoint]) -> list[SearchPoint]:
    """Return the trials that lost about the same share as the one with the lowest load, up to the first that did not;
    in ascending order of their loads."""
    lossy = [point for point in points if not point.is_void and point.lost_packets >= STEADY_LOSS_PACKETS]
    lossy.sort(key=lambda point: point.intended_pps)
    least = lossy[0].loss_ratio if lossy else 0.0
    within = (least / STEADY_LOSS_FACTOR, least * STEADY_LOSS_FACTOR)
    return list(takewhile(lambda point: within[0] <= point.loss_ratio <= within[1], lossy))
