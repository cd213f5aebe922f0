"""The checks of a timed trial: figures in, verdicts in words out. No I/O.

Each says what it found whatever the verdict, so that a reader can follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.model.frames import ethernet_bytes, tcp_packet_bytes
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check, PathCounters, Ping, TcpMeasurement, Verdict, Window
from tunnelbench.model.text import printable

CONTROL_PACKETS = 60
"""What iperf3's control connection, ARP and the like may add to the counters of a trial."""

CONTROL_BYTES = 20_000
"""As CONTROL_PACKETS, in bytes on the WAN; tinc's own connection sends some too."""

TESTER_CPU_LIMIT_SHARE = 0.95
TESTER_THROUGHPUT_LIMIT_SHARE = 0.9
"""Of what the testers do back to back."""

DROP_NOTE_SHARE = 0.01
STEAL_NOTE_SHARE = 0.01
STEAL_LIMIT_SHARE = 0.05
PACKET_TOLERANCE = 0.02
OVER_LIMIT_TOLERANCE = 0.005
SHORTEST_STALL_S = 0.05
"""iperf3 reads what is left after the last whole interval as one more, of a millisecond: no data in it is no stall."""


def check_trial(
    spec: TrialSpec,
    tcp: TcpMeasurement,
    *,
    outer: str,
    exact_outer_packets: bool,
    foreign: Mapping[str, float],
    router_cpu_doubt: str,
    testers_bps: float | None,
    restart: str,
    keep_alives: Sequence[bool] = (),
    has_own_router: bool = False,
    counted_bytes: Callable[[int], int] = ethernet_bytes,
) -> tuple[Check, ...]:
    """All checks of one TCP trial.

    `outer` is what is to carry the data, in words; `foreign` other people's CPU seconds by process;
    `router_cpu_doubt` why the router's busy time may not be its own, empty where it is; `testers_bps` what
    the testers do back to back with this payload in this direction, None where that is not known [bit/s];
    `restart` what a daemon of the tunnel said of beginning anew, empty where none did; `keep_alives` whether each of
    those that the tunnel's programs sent during the trial was answered; `has_own_router` whether the router is a
    machine of its own, whose offloads are its nature (rule 1); `counted_bytes` what the device at which data arrive may
    count for an IP packet of that length.
    """
    return (
        _merged_frames(tcp, counted_bytes, has_own_router=has_own_router),
        outer_protocol(tcp.counters, tcp.carried_packets, tcp.bytes_received, outer, exact=exact_outer_packets),
        restarted(restart),
        *kept_alive(keep_alives),
        fragments(tcp.counters, tcp.carried_packets),
        drops(tcp.counters, tcp.carried_packets),
        _tester(tcp, testers_bps),
        router_cpu(router_cpu_doubt, has_own_router=has_own_router),
        foreign_load(tcp.foreign_cpu_s, tcp.bracket_s, foreign),
        steal(tcp.window),
        _payload(spec, tcp),
        _packet_rate(tcp),
        _physical_limit(tcp),
        _stalls(tcp),
        responsiveness(tcp.ping),
    )


def check_calibration(spec: TrialSpec, tcp: TcpMeasurement, foreign: Mapping[str, float]) -> tuple[Check, ...]:
    """All checks of one trial of the testers alone; that they are the limit is what it is for."""
    return (
        foreign_load(tcp.foreign_cpu_s, tcp.bracket_s, foreign),
        steal(tcp.window),
        _payload(spec, tcp),
        _packet_rate(tcp),
        _stalls(tcp),
    )


def _merged_frames(tcp: TcpMeasurement, counted_bytes: Callable[[int], int], *, has_own_router: bool) -> Check:
    """One frame is one packet: no frame is larger than a segment, and the router forwarded as many as arrived.

    A real router may merge packets, or pass them by what counts them (flow offload): that is told, and no fault.
    """
    counters = tcp.counters
    if not counters.data_packets:
        return Check("merged-frames", Verdict.VOID, "no data packets were counted", rule=1)
    mean_bytes = counters.data_bytes / counters.data_packets
    largest_bytes = counted_bytes(tcp_packet_bytes(tcp.mss_bytes)) if tcp.mss_bytes else 1514
    carried = tcp.carried_packets
    missing = carried - counters.forwarded_packets
    reason = (
        f"frames of {mean_bytes:.0f} bytes on average where one segment makes {largest_bytes}; "
        f"router forwarded {counters.forwarded_packets} packets, {carried} arrived"
    )
    merged = mean_bytes > largest_bytes * 1.01
    uncounted = missing > carried * 0.01 + CONTROL_PACKETS
    if merged or (uncounted and not has_own_router):
        return Check("merged-frames", Verdict.VOID, reason, rule=1)
    if uncounted:
        reason += ": it merges packets, or offloads flows"
    return Check("merged-frames", Verdict.NOTE if uncounted else Verdict.OK, reason, rule=1)


def outer_protocol(
    counters: PathCounters, carried_packets: int, bytes_received: int, outer: str, *, exact: bool
) -> Check:
    """The data stayed inside the tunnel through the whole trial; `bytes_received` is payload."""
    total_bytes = counters.outer_expected_bytes + counters.outer_other_bytes
    reason = f"{counters.outer_expected_bytes} of {total_bytes} bytes on the WAN were {outer}"
    astray = counters.outer_other_bytes > total_bytes * 0.01 + CONTROL_BYTES
    too_few_bytes = counters.outer_expected_bytes < bytes_received * 0.98
    too_few_packets = exact and counters.wan_packets < carried_packets * 0.98
    if astray or too_few_bytes or too_few_packets:
        reason += f" ({counters.wan_packets} frames for {carried_packets} inner packets)"
        return Check("outer-protocol-in-trial", Verdict.VOID, reason, rule=3)
    return Check("outer-protocol-in-trial", Verdict.OK, reason, rule=3)


def sharing(data_packets: Mapping[str, int]) -> tuple[Check, ...]:
    """Whether all the tunnels among which connections are shared out carried data; `data_packets` by device.

    No more than CONTROL_PACKETS is no data. Empty where there is but one tunnel.
    """
    if len(data_packets) < 2:
        return ()
    total = sum(data_packets.values()) or 1
    shares = ", ".join(f"{device} {packets / total:.0%}" for device, packets in data_packets.items())
    idle = [device for device, packets in data_packets.items() if packets <= CONTROL_PACKETS]
    if idle:
        reason = f"{' and '.join(idle)} carried no data ({shares}); more streams (tcp.streams) share out better"
        return (Check("sharing", Verdict.VOID, reason, rule=3),)
    return (Check("sharing", Verdict.OK, f"of the data packets took {shares}", rule=3),)


def fragments(counters: PathCounters, carried_packets: int) -> Check:
    """Packets that no longer fitted were cut up."""
    created, reassembled = counters.fragments_created, counters.reassembled
    reason = f"{created} fragments made, {reassembled} packets put together again"
    many = created + reassembled > carried_packets * 0.001
    if many:
        reason += "; a smaller tunnel MTU or mssfix would spare the router this"
    return Check("fragments", Verdict.NOTE if many else Verdict.OK, reason, rule=4)


def drops(counters: PathCounters, carried_packets: int) -> Check:
    """What the devices of the path dropped."""
    dropped = counters.dropped_packets
    reason = f"the path's devices dropped {dropped} of {carried_packets + dropped} packets"
    many = dropped > carried_packets * DROP_NOTE_SHARE
    return Check("drops", Verdict.NOTE if many else Verdict.OK, reason, rule=9)


def _tester(tcp: TcpMeasurement, testers_bps: float | None) -> Check:
    """Whether the testers, and not the router, set the figure."""
    share = tcp.window.busiest_tester_share
    reason = f"a tester's CPU was {share:.0%} busy, {far_end(tcp.window)}the router's {tcp.router_busy_share:.0%}"
    limited = share >= TESTER_CPU_LIMIT_SHARE
    if testers_bps:
        reached = tcp.throughput_bps / testers_bps
        reason += f"; {reached:.0%} of what the testers do back to back"
        limited = limited or reached > TESTER_THROUGHPUT_LIMIT_SHARE
    if limited:
        reason += ": the testers were the limit"
    return Check("tester-limited", Verdict.DOUBTFUL if limited else Verdict.OK, reason, rule=6)


def far_end(window: Window) -> str:
    """How busy the tunnel's far end was, where it is a machine of its own, as part of a sentence."""
    share = window.far_end_busy_share
    return "" if share is None else f"the tunnel's far end {share:.0%}, "


def router_cpu(doubt: str, *, has_own_router: bool = False) -> Check:
    """Whether the router's busy time is the router's alone."""
    if doubt:
        return Check("router-cpu", Verdict.DOUBTFUL, doubt, rule=12)
    alone = "the router is a machine of its own" if has_own_router else "the router had a CPU for itself"
    return Check("router-cpu", Verdict.OK, alone, rule=12)


def check_sampling(cost_s: float, bracket_s: float) -> Check:
    """What reading its CPUs cost a router of its own: told, for it is in the router's busy time."""
    share = cost_s / bracket_s
    reason = f"reading the router's CPUs took {cost_s:.2f} s of them in {bracket_s:.1f} s, {share:.1%} of one CPU"
    return Check("sampling", Verdict.OK, reason, rule=13)


def foreign_load(foreign_cpu_s: float, bracket_s: float, foreign: Mapping[str, float]) -> Check:
    """What other people's processes took of our CPUs."""
    share = foreign_cpu_s / bracket_s
    worst = sorted(foreign.items(), key=lambda item: -item[1])[:3]
    names = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in worst)
    reason = f"other processes took {share:.1%} of a CPU" + (f" ({names})" if names else "")
    return Check("foreign-load", Verdict.VOID if share > FOREIGN_LIMIT_SHARE else Verdict.OK, reason, rule=12)


def steal(window: Window) -> Check:
    """What the hypervisor took of them."""
    usages = (window.router_cpu, window.tester_cpu)
    share = max(usage.steal_s / (usage.wall_s * len(usage.cpus)) for usage in usages)
    verdict = Verdict.OK
    if share > STEAL_LIMIT_SHARE:
        verdict = Verdict.DOUBTFUL
    elif share > STEAL_NOTE_SHARE:
        verdict = Verdict.NOTE
    return Check("steal", verdict, f"the hypervisor took up to {share:.1%} of a CPU", rule=14)


def _payload(spec: TrialSpec, tcp: TcpMeasurement) -> Check:
    if tcp.mss_bytes is None:
        return Check("payload", Verdict.DOUBTFUL, "the kernel did not tell the segment size in use", rule=15)
    reason = f"asked for {spec.payload_bytes} bytes, segments carried {tcp.mss_bytes}"
    return Check("payload", Verdict.OK if tcp.mss_bytes == spec.payload_bytes else Verdict.NOTE, reason, rule=15)


def _packet_rate(tcp: TcpMeasurement) -> Check:
    """The packets counted on the interface against those that the payload takes.

    What was still under way when iperf3's clock stopped is counted, too, so the figure lies between what the receiver
    had read and what the sender had sent, retransmissions included.
    """
    if not tcp.mss_bytes or not tcp.bytes_received:
        return Check("packet-rate", Verdict.DOUBTFUL, "no throughput to compare the packets with", rule=16)
    counted = tcp.counters.data_packets
    lowest = tcp.bytes_received / tcp.mss_bytes
    highest = max(tcp.bytes_sent, tcp.bytes_received) / tcp.mss_bytes + (tcp.retransmits or 0)
    agrees = lowest * (1 - PACKET_TOLERANCE) <= counted <= highest * (1 + PACKET_TOLERANCE) + CONTROL_PACKETS
    reason = f"{counted} data packets counted, {lowest:.0f} take the payload (ratio {counted / lowest:.3f})"
    return Check("packet-rate", Verdict.OK if agrees else Verdict.DOUBTFUL, reason, rule=16)


def _physical_limit(tcp: TcpMeasurement) -> Check:
    limit_bps = tcp.physical_limit_bps
    if limit_bps is None:
        return Check("physical-limit", Verdict.OK, "the link has no rate limit", rule=17)
    share = tcp.throughput_bps / limit_bps
    reason = f"{share:.1%} of the {limit_bps / 1e6:.2f} Mbit/s that the link can carry of this payload"
    over = share > 1 + OVER_LIMIT_TOLERANCE
    return Check("physical-limit", Verdict.DOUBTFUL if over else Verdict.OK, reason, rule=17)


def _stalls(tcp: TcpMeasurement) -> Check:
    empty_s = [interval.end_s - interval.start_s for interval in tcp.intervals if interval.bytes == 0]
    stalls_s = [length_s for length_s in empty_s if length_s >= SHORTEST_STALL_S]
    reason = f"nothing arrived for {sum(stalls_s):g} s in all" if stalls_s else "data arrived in every interval"
    return Check("stalls", Verdict.DOUBTFUL if stalls_s else Verdict.OK, reason, rule=8)


def restarted(said: str) -> Check:
    """Whether the tunnel began anew; `said` is the line that tells."""
    if said:
        return Check("restart", Verdict.VOID, f"the tunnel began anew during the trial: {printable(said)}", rule=3)
    return Check("restart", Verdict.OK, "the tunnel was one and the same throughout", rule=3)


def kept_alive(answered: Sequence[bool]) -> tuple[Check, ...]:
    """Whether the other end of the tunnel answered its programs under load; no check where they do not ask."""
    if not answered:
        return ()
    verdict = Verdict.OK if all(answered) else Verdict.NOTE
    reason = f"the tunnel's other end answered {sum(answered)} of {len(answered)} keep-alives"
    return (Check("keep-alives", verdict, reason, rule=22),)


def responsiveness(ping: Ping) -> Check:
    """Whether the router answered through the trial."""
    if not ping.sent:
        return Check("responsiveness", Verdict.NOTE, "ping gave no summary", rule=22)
    lost = ping.sent - ping.answered
    worst = f"{ping.worst_ms:g} ms" if ping.worst_ms is not None else "none came back"
    reason = f"router answered {ping.answered} of {ping.sent} pings, worst {worst}"
    return Check("responsiveness", Verdict.NOTE if lost else Verdict.OK, reason, rule=22)
