"""The checks of a TCP trial, and those that all trials share. They do no I/O.

Each check states what it found even if its verdict is ok, so that a reader can follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.measure.setup_checks import offloads_off, path_setup, router_setup, softirq, throttled
from tunnelbench.measure.speed_checks import is_surely_the_limit, router_clock, withstands_load
from tunnelbench.model.conditions import WINDOW_OPTION, Compression, can_shrink
from tunnelbench.model.counters import PathCounters, Ping, Window
from tunnelbench.model.frames import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    TCP_HEADER_BYTES,
    ethernet_bytes,
    tcp_packet_bytes,
    wire_bytes,
)
from tunnelbench.model.lines import Line
from tunnelbench.model.plan import CALIBRATION_KIND, Test, TrialSpec
from tunnelbench.model.result import (
    APPLICATION_LIMITED_SHARE,
    BUFFER_LIMITED_SHARE,
    CONTROL_PACKETS,
    FULL_CPU_SHARE,
    OVER_LIMIT_TOLERANCE,
    PACED_SHARE,
    Check,
    TcpMeasurement,
    Verdict,
)
from tunnelbench.model.text import counted, printable

CONTROL_BYTES = 20_000
"""Largest number of bytes that control traffic, including tinc's own connection, may add to a trial's counters."""

MERGED_FRAME_TOLERANCE = 0.01
"""Largest share by which a mean frame may exceed one segment, or arrived packets exceed forwarded ones."""
ASTRAY_LIMIT_SHARE = 0.01
"""Largest share of the WAN's bytes, in addition to CONTROL_BYTES, that may bypass the tunnel."""
ASTRAY_PACKETS_LIMIT_SHARE = 0.001
"""Largest share of the WAN's packets, in addition to CONTROL_PACKETS, that may bypass the tunnel. A busy receiver sends
one ACK for hundreds of data packets; at least LEAST_ACK_SHARE of the packets are ACKs, which must not bypass it."""
OUTER_LEAST_SHARE = 0.98
"""Smallest share of the payload, and of the inner packets, that the WAN counters must show inside the tunnel."""
SHORTEST_SHRUNK_BYTES = 128
"""Smallest mean length of inner packets that a compression must make shorter; headers fill most of a shorter one."""
FRAGMENT_NOTE_SHARE = 0.001
DROP_NOTE_SHARE = 0.01
TESTER_THROUGHPUT_LIMIT_SHARE = 0.9
"""Share of the throughput of two testers joined by a cable; a trial that reaches it is limited by the testers."""
STEAL_NOTE_SHARE = 0.01
STEAL_LIMIT_SHARE = 0.05
LEAST_ACK_SHARE = 0.001
"""Least number of ACKs for a data packet."""
CALIBRATION_LEAST_ACK_SHARE = 0.0001
"""The same without a router: packets then arrive in larger groups, up to a receive window for each ACK."""
SLUMP_SHARE = 0.5
"""Share of the median interval's rate below which an interval is a stall."""
FEWEST_INTERVALS = 3
"""Fewest intervals, without the first, that have a median to compare with."""
SHORTEST_STALL_S = 0.05
"""Shortest interval without data that is a stall [s]. iperf3 reads what is left after the last whole interval as one
more interval, of a millisecond."""


@dataclass(frozen=True)
class TrialContext:
    """The circumstances of a trial that its figures and checks depend on."""

    bracket_s: float
    """Time from the CPU reading before the traffic to the CPU reading after it [s]."""
    foreign: Mapping[str, float]
    """CPU time that other processes took on the testbed's CPUs between the two readings [s], by process name."""
    is_calibration: bool = False
    """True for a trial of the testers alone, without router and tunnel."""
    outer: str = ""
    """Description of the packets that carry the data, such as `udp port 4789`."""
    exact_outer_packets: bool = False
    """True if each inner packet makes at least one outer packet."""
    router_cpu_doubt: str = ""
    """Reason why the router's busy time may include work of other hosts; empty if it does not."""
    restart: str = ""
    """Log line in which a daemon of the tunnel reports a restart; empty if no daemon did."""
    rekeys: Sequence[str] = ()
    """Lines in which a daemon of the tunnel reports new keys."""
    must_rekey: bool = False
    """True if the trial measures what a change of keys does to the traffic."""
    own_rekeys: Sequence[str] | None = None
    """Lines that report new keys and are not of another client, if the trial times one client of a server while the
    others get new keys, which `rekeys` reports; None: another trial."""
    late_offloads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Offloads that were on after the trial although the testbed had switched them off, by device."""
    merging: str = ""
    """Sentence on the testers' devices that merged packets after they had arrived; empty: none did."""
    misplaced: Sequence[str] = ()
    """Work that could run on the CPU of another host in or after the trial, as sentences without a full stop."""
    altered: Sequence[str] = ()
    """Things on the path that the testbed has not made, and changes during the trial, each without a full stop."""
    late_rules: int = 0
    """Number of lines of packet filter rules in the router after the trial, if the testbed has made the router."""
    router_packets: tuple[int, int] | None = None
    """Packets that the router's CPUs processed, and packets that arrived at its devices; None: not counted."""
    throttled_s: float = 0.0
    """Time for which a CPU quota stopped the run or the router's programs [s]."""
    cut_by_router_packets: int = 0
    """`PathBalance.added_by_router_packets`: they arrive, and the router has not counted them as forwarded."""
    keep_alives: Sequence[bool] = ()
    """True for each keep-alive of the tunnel's programs that was answered during the trial."""
    has_own_router: bool = False
    """True if the router is a machine of its own, which may merge packets or offload flows (rule 1)."""
    counted_bytes: Callable[[int], int] = ethernet_bytes
    """Function from the length of an IP packet to the bytes that the receiving device counts for it."""
    wire_bytes: Callable[[int, int], float] = wire_bytes
    """Function from an inner packet's length and the link's MTU to the packet's bytes on the link (rule 17)."""
    inner_header_bytes: int = IPV4_HEADER_BYTES
    """Length of the IP header of the packets in the tunnel [bytes]."""
    link_mbps: float | None = None
    """Rate of the link [Mbit/s]; None: the link has no limit, or the tunnel compresses."""
    inner_mtu_bytes: int | None = None
    """MTU of the tunnel's device [bytes]; None: unknown, or the link has no limit."""
    has_tunnel: bool = True
    """False for the baseline, whose traffic no tunnel carries."""
    link_burst_bytes: int = 0
    """Bytes that the link carries at once in addition to its rate, at the start of a trial (rule 17)."""
    compression: Compression | None = None
    """Effect of the tunnel on the lengths of the data; None: they stay as long as they are."""

    @property
    def foreign_cpu_s(self) -> float:
        """CPU time of all other processes [s]."""
        return sum(self.foreign.values())

    def link_mbps_over(self, duration_s: float) -> float | None:
        """Return the highest mean rate of the link over a trial [Mbit/s]; None: the link has no limit."""
        if self.link_mbps is None or duration_s <= 0:
            return self.link_mbps
        return self.link_mbps + self.link_burst_bytes * 8 / duration_s / 1e6


def check_trial(
    spec: TrialSpec, tcp: TcpMeasurement, context: TrialContext, testers_bps: float | None = None
) -> tuple[Check, ...]:
    """Return all checks of one TCP trial; `testers_bps` is the throughput of the testers back to back, if known."""
    common = _common_checks(spec, tcp, context.foreign, is_calibration=context.is_calibration)
    if context.is_calibration:  # the testers may be the limit there
        return common
    largest = 1514
    if tcp.mss_bytes:
        largest = context.counted_bytes(tcp_packet_bytes(tcp.mss_bytes, context.inner_header_bytes))
    return (
        *path_checks(tcp.counters, tcp.bytes_received, f"one segment makes {largest}", largest, context),
        _tester(tcp, testers_bps, spec.tunnel.conditions.window_bytes),
        *router_clock(tcp.window, is_paced=bool(spec.load)),
        *common,
        _line(tcp),
        responsiveness(tcp.ping),
    )


def checks_of_stored(spec: TrialSpec, tcp: TcpMeasurement, *, compresses: bool) -> tuple[Check, ...]:
    """Return the checks of a TCP trial that follow from its stored figures alone. `compresses` is the tunnel's.

    Their names are those of `check_trial`, which knows more of the trial: a verdict of that function is never milder,
    except by a change of its rules since.
    """
    is_calibration = spec.tunnel.kind == CALIBRATION_KIND
    common = _common_checks(spec, tcp, {}, is_calibration=is_calibration)
    if is_calibration:
        return common
    given, carried = spec.tunnel.conditions, tcp.counters.data_packets + tcp.counters.ack_packets
    may_shrink = compresses and can_shrink(given.content, given.write_bytes)
    return (
        outer_protocol(
            tcp.counters,
            carried,
            tcp.bytes_received,
            "as expected",
            exact=False,
            compression=Compression() if may_shrink else None,
        ),
        fragments(tcp.counters, carried, has_tunnel=spec.tunnel.has_tunnel),
        drops(tcp.counters, carried),
        _tester(tcp, None, given.window_bytes),
        *router_clock(tcp.window, is_paced=bool(spec.load)),
        *common,
        _line(tcp),
        responsiveness(tcp.ping),
    )


def _common_checks(
    spec: TrialSpec, tcp: TcpMeasurement, foreign: Mapping[str, float], *, is_calibration: bool
) -> tuple[Check, ...]:
    """Return the checks of a TCP trial with a router or without; `foreign` is the background load by process [s]."""
    is_harmless = not is_calibration and withstands_load(tcp.window, is_paced=bool(spec.load))
    return (
        foreign_load(tcp.foreign_cpu_s, tcp.bracket_s, foreign, is_harmless=is_harmless),
        steal(tcp.window),
        _payload(spec, tcp),
        _packet_rate(tcp, spec.tunnel.conditions.write_bytes),
        _acks(tcp, CALIBRATION_LEAST_ACK_SHARE if is_calibration else LEAST_ACK_SHARE),
        _stalls(tcp),
        _sender(tcp, spec),
    )


def path_checks(
    counters: PathCounters, payload_bytes: int, one_makes: str, largest_bytes: int, context: TrialContext
) -> tuple[Check, ...]:
    """Return the checks of the path's packet counters and of the tunnel, for a trial of any kind.

    `payload_bytes` is the payload that arrived. `largest_bytes` is the length of a frame with one packet, and
    `one_makes` describes such a frame.
    """
    carried = counters.data_packets + counters.ack_packets
    return (
        _merged_frames(counters, carried, one_makes, largest_bytes, context),
        outer_protocol(
            counters,
            carried,
            payload_bytes,
            context.outer,
            exact=context.exact_outer_packets,
            compression=context.compression,
        ),
        fragments(counters, carried, has_tunnel=context.has_tunnel),
        drops(counters, carried),
        *tunnel_checks(context),
    )


def tunnel_checks(context: TrialContext) -> tuple[Check, ...]:
    """Return the checks of the tunnel's programs and of the router's CPU."""
    return (
        restarted(context.restart),
        must_rekey(context.rekeys, are_of_others=context.own_rekeys is not None)
        if context.must_rekey
        else rekeyed(context.rekeys),
        *kept_keys(context.own_rekeys),
        offloads_off(context.late_offloads, context.merging),
        router_setup(context.misplaced, context.late_rules),
        path_setup(context.altered),
        softirq(context.router_packets, context.bracket_s),
        throttled(context.throttled_s, context.bracket_s),
        *kept_alive(context.keep_alives),
        router_cpu(context.router_cpu_doubt, has_own_router=context.has_own_router),
    )


def _merged_frames(
    counters: PathCounters, carried: int, one_makes: str, largest_bytes: int, context: TrialContext
) -> Check:
    """Check that no frame holds merged packets: frames are not too long, and the router forwarded all packets.

    A router that is a separate machine may merge packets, or forward them past its counters (flow offload). Then the
    check is only a note.
    """
    if not counters.data_packets:
        return Check("merged-frames", Verdict.VOID, "no data packets were counted", rule=1)
    mean_bytes = counters.data_bytes / counters.data_packets
    cut = context.cut_by_router_packets
    missing = carried - counters.forwarded_packets - cut
    reason = (
        f"frames of {mean_bytes:.0f} bytes on average where {one_makes}; "
        f"router forwarded {counters.forwarded_packets} packets{f', made {cut} more by cutting them' * bool(cut)}, "
        f"{carried} arrived"
    )
    longest_bytes = counters.data_packets * largest_bytes * (1 + MERGED_FRAME_TOLERANCE)
    merged = counters.data_bytes > longest_bytes + CONTROL_BYTES  # the devices may carry SSH, too
    uncounted = missing > carried * MERGED_FRAME_TOLERANCE + CONTROL_PACKETS
    if merged or (uncounted and not context.has_own_router):
        return Check("merged-frames", Verdict.VOID, reason, rule=1)
    if uncounted:
        reason += ": it merges packets, or offloads flows"
    return Check("merged-frames", Verdict.NOTE if uncounted else Verdict.OK, reason, rule=1)


def outer_protocol(
    counters: PathCounters,
    carried_packets: int,
    bytes_received: int,
    outer: str,
    *,
    exact: bool,
    compression: Compression | None = None,
) -> Check:
    """Check that the data stayed inside the tunnel for the whole trial. `bytes_received` is payload.

    Data that the tunnel may have compressed are held to their number of packets only; those that it must have
    compressed took fewer bytes than they take without compression.
    """
    total_bytes = counters.outer_expected_bytes + counters.outer_other_bytes
    reason = f"{counters.outer_expected_bytes} of {total_bytes} bytes on the WAN were {outer}"
    other = counters.outer_other_packets
    astray = counters.outer_other_bytes > total_bytes * ASTRAY_LIMIT_SHARE + CONTROL_BYTES
    if other > (other + counters.outer_expected_packets) * ASTRAY_PACKETS_LIMIT_SHARE + CONTROL_PACKETS:
        astray = True
        reason += f", and {other} of {other + counters.outer_expected_packets} packets were not"
    too_few_bytes = compression is None and counters.outer_expected_bytes < bytes_received * OUTER_LEAST_SHARE
    uncompressed_bytes = _uncompressed_bytes(counters, compression) if compression else None
    stayed_long = (
        uncompressed_bytes is not None and counters.outer_expected_bytes > uncompressed_bytes * OUTER_LEAST_SHARE
    )
    if stayed_long:
        reason += f", and its packets take {uncompressed_bytes} without compression"
    too_few_packets = exact and counters.wan_packets < carried_packets * OUTER_LEAST_SHARE
    if astray or too_few_bytes or too_few_packets or stayed_long:
        reason += f" ({counters.wan_packets} frames for {carried_packets} inner packets)"
        return Check("outer-protocol-in-trial", Verdict.VOID, reason, rule=3)
    return Check("outer-protocol-in-trial", Verdict.OK, reason, rule=3)


def _uncompressed_bytes(counters: PathCounters, compression: Compression) -> int | None:
    """Return the bytes that the packets of a trial take at least outside the tunnel without compression; None if
    nothing is known of them."""
    if compression.uncompressed_bytes is None or not counters.data_packets:
        return None
    inner_bytes = counters.data_bytes // counters.data_packets - ETHERNET_HEADER_BYTES
    if inner_bytes < max(compression.longest_uncompressed_bytes + 1, SHORTEST_SHRUNK_BYTES):
        return None
    shortest_ack_bytes = IPV4_HEADER_BYTES + TCP_HEADER_BYTES
    data_bytes = counters.data_packets * compression.uncompressed_bytes(inner_bytes)
    return data_bytes + counters.ack_packets * compression.uncompressed_bytes(shortest_ack_bytes)


def sharing(data_packets: Mapping[str, int], test: Test) -> tuple[Check, ...]:
    """Check that each of several parallel tunnels carried data. `data_packets` is by tunnel device.

    A tunnel with at most CONTROL_PACKETS packets counts as idle. A single tunnel gets no check.
    """
    if len(data_packets) < 2:
        return ()
    total = sum(data_packets.values()) or 1
    shares = ", ".join(f"{device} {packets / total:.0%}" for device, packets in data_packets.items())
    idle = [device for device, packets in data_packets.items() if packets <= CONTROL_PACKETS]
    if idle:
        more = "streams (tcp.streams)" if test is Test.TCP else "flows (udp.flows)"
        reason = f"{' and '.join(idle)} carried no data ({shares}); more {more} share out better"
        return (Check("sharing", Verdict.VOID, reason, rule=3),)
    return (
        Check("sharing", Verdict.OK, f"each parallel tunnel carried data; shares of the packets: {shares}", rule=3),
    )


def fragments(counters: PathCounters, carried_packets: int, *, has_tunnel: bool) -> Check:
    """Count the packets that were too large for the path and were cut into fragments."""
    created, reassembled = counters.fragments_created, counters.reassembled
    inner, outer = counters.inner_fragments, counters.outer_fragments
    reason = f"{created} fragments made, {reassembled} packets put together again"
    if created and inner is not None:
        reason += f"; {inner} fragments arrived"
        if has_tunnel:
            reason += f" inside the tunnel and {'an unknown number' if outer is None else outer} outside"
    many = created + reassembled > carried_packets * FRAGMENT_NOTE_SHARE
    if many and outer:
        reason += "; a smaller tunnel MTU or mssfix would spare the router this"
    elif many and inner and outer == 0:
        reason += f"; {'a larger tunnel MTU or ' * has_tunnel}smaller packets would spare the sender this"
    return Check("fragments", Verdict.NOTE if many else Verdict.OK, reason, rule=4)


def drops(counters: PathCounters, carried_packets: int) -> Check:
    """Count the packets that the devices of the path dropped."""
    dropped = counters.dropped_packets
    reason = f"the path's devices dropped {dropped} of {carried_packets + dropped} packets"
    many = dropped > carried_packets * DROP_NOTE_SHARE
    return Check("drops", Verdict.NOTE if many else Verdict.OK, reason, rule=9)


def _tester(tcp: TcpMeasurement, testers_bps: float | None, window_bytes: int) -> Check:
    """Check that the router, and not a tester, limited the throughput; socket buffers that the plan sets may do so."""
    share = tcp.window.busiest_tester_share
    reason = f"a tester's CPU was {share:.0%} busy, {far_end(tcp.window)}the router's {tcp.router_busy_share:.0%}"
    limited = share >= FULL_CPU_SHARE
    if testers_bps:
        reached = tcp.throughput_bps / testers_bps
        reason += f"; {reached:.0%} of the throughput of the testers without a router"
        limited = limited or reached > TESTER_THROUGHPUT_LIMIT_SHARE
    buffers = {} if tcp.sender is None else tcp.sender.buffer_shares
    if buffers and (waited := max(buffers.values())) >= BUFFER_LIMITED_SHARE and not _has_full_cpu(tcp.window):
        name = max(buffers, key=lambda each: buffers[each])
        reason += f"; the {name} limited the sender {waited:.0%} of the time"
        if window_bytes:
            reason += f", as the plan has {WINDOW_OPTION} = {window_bytes}"
        else:
            limited = True
    limited = limited and not is_surely_the_limit(tcp.window)
    if limited:
        reason += ": the testers were the limit"
    return Check("tester-limited", Verdict.DOUBTFUL if limited else Verdict.OK, reason, rule=6)


def _has_full_cpu(window: Window) -> bool:
    """Return True if a CPU of the router was full: then the router was the limit, and TCP waited for it."""
    usages = window.router_by_cpu or (window.router_cpu,)
    return max(usage.busy_share for usage in usages) >= FULL_CPU_SHARE


def check_line(line: Line, lacks: str) -> Check:
    """Say which line carried the tunnel, and which of its properties the kernel could not give it (rule 17)."""
    if lacks:
        return Check("line", Verdict.NOTE, f"a line of {line.rates}; {lacks}", rule=17)
    return Check("line", Verdict.OK, f"a line of {line.rates}, with {line.path}", rule=17)


def far_end(window: Window) -> str:
    """Return the words for the CPU load of the tunnel's far end; empty unless the far end is a separate machine."""
    share = window.far_end_busy_share
    return "" if share is None else f"the tunnel's far end {share:.0%}, "


OWN_CPU = "the router had a CPU for itself"
"""Reason of the check `router-cpu` if the router is a namespace."""


def router_cpu(doubt: str, *, has_own_router: bool = False) -> Check:
    """Check that the router's busy time is the router's alone."""
    if doubt:
        return Check("router-cpu", Verdict.DOUBTFUL, doubt, rule=12)
    alone = "the router is a machine of its own" if has_own_router else OWN_CPU
    return Check("router-cpu", Verdict.OK, alone, rule=12)


def check_sampling(cost_s: float, bracket_s: float) -> Check:
    """Report the CPU time that the readings of its CPU times cost the router; the router's busy time includes it."""
    share = cost_s / bracket_s
    reason = f"reading the router's CPUs took {cost_s:.2f} s of them in {bracket_s:.1f} s, {share:.1%} of one CPU"
    return Check("sampling", Verdict.OK, reason, rule=13)


def foreign_load(
    foreign_cpu_s: float, bracket_s: float, foreign: Mapping[str, float], *, is_harmless: bool = False
) -> Check:
    """Check that other processes took little time of the testbed's CPUs. With `is_harmless`, that time cannot have
    changed the figures of the trial (`speed_checks.withstands_load`)."""
    share = foreign_cpu_s / bracket_s
    worst = sorted(foreign.items(), key=lambda item: -item[1])[:3]
    names = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in worst)
    reason = f"other processes took {share:.1%} of a CPU" + (f" ({names})" if names else "")
    is_high = share > FOREIGN_LIMIT_SHARE
    if is_high and is_harmless:
        reason += "; the router's speed is fixed, and the testers offered enough"
    return Check("foreign-load", Verdict.VOID if is_high and not is_harmless else Verdict.OK, reason, rule=12)


def steal(window: Window) -> Check:
    """Check that the hypervisor took little of the testbed's CPUs."""
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
        return Check("payload", Verdict.DOUBTFUL, "the kernel did not report the segment size in use", rule=15)
    reason = f"the plan asks for segments of {spec.payload_bytes} bytes of payload; the kernel used {tcp.mss_bytes}"
    return Check("payload", Verdict.OK if tcp.mss_bytes == spec.payload_bytes else Verdict.NOTE, reason, rule=15)


def _packet_rate(tcp: TcpMeasurement, write_bytes: int) -> Check:
    """Compare the packets counted on the interface with those that the payload takes."""
    if (bounds := tcp.data_packet_bounds(write_bytes)) is None:
        return Check(
            "packet-rate", Verdict.DOUBTFUL, "the packet count was not checked: the trial has no throughput", rule=16
        )
    counted, least = tcp.counters.data_packets, bounds[0]
    reason = f"{counted} data packets counted; the payload needs at least {least:.0f} (ratio {counted / least:.3f})"
    verdict = Verdict.OK if tcp.has_possible_packets(write_bytes) else Verdict.DOUBTFUL
    return Check("packet-rate", verdict, reason, rule=16)


def _acks(tcp: TcpMeasurement, least_share: float) -> Check:
    """Check that the ACKs of the data took the same path back."""
    data, acks = tcp.counters.data_packets, tcp.counters.ack_packets
    reason = f"{acks} ACKs came back through the path for {data} data packets"
    missing = acks < data * least_share
    if missing:
        reason += f", less than {least_share:.2%} of them: the others took another way"
    return Check("acks", Verdict.VOID if missing else Verdict.OK, reason, rule=16)


def _sender(tcp: TcpMeasurement, spec: TrialSpec) -> Check:
    """Check that the sending program offered enough: as much as TCP takes, or the rate at which the plan paces it."""
    if spec.load:
        carried = tcp.throughput_bps / (float(spec.load) * 1e6)
        reason = f"the plan paces the sender at {spec.load} Mbit/s, and {carried:.1%} of that arrived"
        return Check("sender", Verdict.OK if carried >= PACED_SHARE else Verdict.NOTE, reason, rule=7)
    share = tcp.sender_busy_share
    if share is None:
        return Check("sender", Verdict.OK, "the sender's kernel did not report how busy the connection was", rule=7)
    limited = share < APPLICATION_LIMITED_SHARE
    reason = f"the connection had data in flight for {share:.0%} of the time"
    if limited:
        reason += ": the sending program offered too little (application-limited)"
    return Check("sender", Verdict.DOUBTFUL if limited else Verdict.OK, reason, rule=7)


def _line(tcp: TcpMeasurement) -> Check:
    """Check that the throughput is not above the limit of the link."""
    return physical_limit(tcp.throughput_bps / 1e6, tcp.physical_limit_bps and tcp.physical_limit_bps / 1e6, "Mbit/s")


def physical_limit(rate: float, limit: float | None, unit: str) -> Check:
    """Check that a rate is not above the limit of the link. Both are in `unit`; a limit of None means no limit."""
    if limit is None:
        return Check("physical-limit", Verdict.OK, "the link has no rate limit", rule=17)
    share = rate / limit
    reason = (
        f"{share:.1%} of the {limit:.{2 if unit == 'Mbit/s' else 0}f} {unit} that the link can carry of this payload"
    )
    over = share > 1 + OVER_LIMIT_TOLERANCE
    return Check("physical-limit", Verdict.DOUBTFUL if over else Verdict.OK, reason, rule=17)


def _stalls(tcp: TcpMeasurement) -> Check:
    empty_s = [interval.end_s - interval.start_s for interval in tcp.intervals if interval.bytes == 0]
    stalls_s = [length_s for length_s in empty_s if length_s >= SHORTEST_STALL_S]
    if stalls_s:
        return Check("stalls", Verdict.DOUBTFUL, f"nothing arrived for {sum(stalls_s):g} s in all", rule=8)
    rates_bps = [
        each.bytes * 8 / (each.end_s - each.start_s)
        for each in tcp.intervals
        if each.end_s - each.start_s >= SHORTEST_STALL_S
    ][1:]  # the first has TCP's start in it
    if len(rates_bps) >= FEWEST_INTERVALS and min(rates_bps) < median(rates_bps) * SLUMP_SHARE:
        reason = f"an interval carried {min(rates_bps) / median(rates_bps):.0%} of the median of all"
        return Check("stalls", Verdict.DOUBTFUL, reason, rule=8)
    return Check("stalls", Verdict.OK, "data arrived in every interval", rule=8)


def restarted(said: str) -> Check:
    """Check that the tunnel did not restart; `said` is the log line that reports a restart."""
    if said:
        return Check("restart", Verdict.VOID, f"the tunnel restarted during the trial: {printable(said)}", rule=3)
    return Check("restart", Verdict.OK, "the tunnel did not restart during the trial", rule=3)


def rekeyed(lines: Sequence[str]) -> Check:
    """Check that the tunnel kept its keys; `lines` report new ones."""
    if lines:
        reason = (
            f"the tunnel changed its keys {counted(len(lines), 'time')} during the trial; first: {printable(lines[0])}"
        )
        return Check("rekeys", Verdict.NOTE, reason, rule=3)
    return Check("rekeys", Verdict.OK, "no change of keys was reported", rule=3)


def must_rekey(lines: Sequence[str], *, are_of_others: bool = False) -> Check:
    """Check that the tunnel changed its keys, or that the other clients of a server did; `lines` report new ones."""
    if lines:
        whose = "other clients changed their" if are_of_others else "the tunnel changed its"
        times = counted(len(lines), "time")
        return Check("rekeys", Verdict.OK, f"{whose} keys {times}; first: {printable(lines[0])}", rule=3)
    of_whom = " of other clients" if are_of_others else ""
    reason = (
        f"the tunnel reported no change of keys{of_whom} during the trial, so the trial shows none: set a longer "
        "udp.duration_s"
    )
    return Check("rekeys", Verdict.VOID, reason, rule=3)


def kept_keys(own: Sequence[str] | None) -> tuple[Check, ...]:
    """Check that the client whose packets are timed kept its keys while others changed theirs.

    `own` is `TrialContext.own_rekeys`: no check without it.
    """
    if own is None:
        return ()
    if own:
        reason = f"keys changed that are not those of another client, and the gap may be theirs: {printable(own[0])}"
        return (Check("kept-keys", Verdict.VOID, reason, rule=3),)
    return (Check("kept-keys", Verdict.OK, "the client whose packets were timed kept its keys", rule=3),)


def kept_alive(answered: Sequence[bool]) -> tuple[Check, ...]:
    """Check that the tunnel's other end answered keep-alives under load; no check where there are none."""
    if not answered:
        return ()
    verdict = Verdict.OK if all(answered) else Verdict.NOTE
    reason = f"the tunnel's other end answered {sum(answered)} of {len(answered)} keep-alives"
    return (Check("keep-alives", verdict, reason, rule=22),)


def responsiveness(ping: Ping) -> Check:
    """Check that the router answered pings during the trial."""
    if not ping.sent:
        return Check("responsiveness", Verdict.NOTE, "ping gave no summary", rule=22)
    lost = ping.sent - ping.answered
    worst = f"{ping.worst_ms:g} ms" if ping.worst_ms is not None else "none came back"
    reason = f"router answered {ping.answered} of {ping.sent} pings, worst {worst}"
    return Check("responsiveness", Verdict.NOTE if lost else Verdict.OK, reason, rule=22)
