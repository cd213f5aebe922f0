"""UDP trials: a rate, an echo, delays, a whole search, a loss curve or bursts, each one record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.procfs import all_processes
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import check_sampling, sharing
from tunnelbench.measure.companion import FLOWING_PACKETS, Companion, OnSecond, TrafficPath, path_through
from tunnelbench.measure.counters import (
    Arrivals,
    arrivals,
    data_shares,
    direct_counters,
    direct_place,
    path_counters,
    place_of,
    read_arrivals,
    read_host,
    read_path,
)
from tunnelbench.measure.engines import engines_of
from tunnelbench.measure.search import MlrSearch, Search
from tunnelbench.measure.tcp_trial import TrialFindings, router_cpu_doubt
from tunnelbench.measure.udp_checks import check_delays, check_udp_calibration, check_udp_trial
from tunnelbench.measure.udp_exchange import Exchanger, as_point
from tunnelbench.model.errors import NotBegun
from tunnelbench.model.frames import udp_limit_pps
from tunnelbench.model.plan import (
    CALIBRATION_KIND,
    FLAT_OUT,
    IDLE,
    IDLE_PPS,
    IMIX,
    Direction,
    Test,
    TrialSpec,
    UdpTraffic,
)
from tunnelbench.model.result import Check, PathCounters, Ping, TrialRecord, Window
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, Classification
from tunnelbench.model.udp import Burst, UdpCounts, UdpMeasurement
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.traffic import engine, ping
from tunnelbench.traffic.engine import Load
from tunnelbench.tunnel.base import Tunnel

UNKNOWN_LIMIT_PPS = 1_000_000.0
"""Where no calibration says what the testers can do, a search starts here; its own trials find the testers' limit."""

FLOOD_S = 0.5
CURVE_SHARES = tuple(share / 10 for share in range(5, 16))
"""Of what comes through when the path is flooded: the loads of a loss curve."""

SMALLEST_BURST_PACKETS = 16
BURST_LIMIT_S = 2.0
"""RFC 9004, section 5: the longest burst that is tried lasts so long at the testers' highest rate."""
BURST_TOLERANCE = 0.02

PROBE_PORT = engine.PORT + 1
PROBE_SHARE = 0.05
MOST_PROBES_PPS = 1000.0
FEWEST_PROBES_PPS = 10.0
"""Packets per second that ask for delays beside a load: this share of it, within these bounds."""
PROBE_MARGIN_S = 0.2
"""The load is there before the first of them and after the last."""

WARM_UP_S = 0.3
WARM_UP_PPS = 1000.0


@dataclass
class Traffic:
    """What the traffic of one trial left."""

    counts: UdpCounts | None = None
    window: Window | None = None
    ping: Ping = field(default_factory=lambda: Ping(0, 0, None))
    parts: dict[str, Any] = field(default_factory=dict)
    """The further fields of a UdpMeasurement."""
    beside: tuple[Arrivals, ...] = ()
    """What arrived while no traffic was offered: the connection to a router of its own shares the LAN's cable."""
    sampling: Check | None = None
    """What reading the CPUs of a router of its own cost it."""


class UdpMeter:
    """Measures UDP trials, knowing what the testers can do at most and what the searches have found."""

    def __init__(self, testbed: Testbed, traffic: UdpTraffic, on_second: OnSecond) -> None:
        self.testbed = testbed
        self.traffic = traffic
        self.on_second = on_second
        self.programs = engines_of(testbed)
        self._testers_pps: dict[tuple[int, Direction, Test], float] = {}
        """What the testers do back to back, by payload, direction and test [packets/s]."""
        self._pdr_pps: dict[tuple[int, str, int, Direction], float] = {}
        """By round, tunnel, payload and direction [packets/s]."""

    def remember(self, record: TrialRecord) -> None:
        """Take what a calibration or a search found for the trials to come; other records are passed over."""
        spec, udp = record.spec, record.udp
        if udp is None or not record.counts:
            return
        if spec.tunnel.kind == CALIBRATION_KIND and spec.load == FLAT_OUT and udp.counts is not None:
            self._testers_pps[spec.payload_bytes, spec.direction, spec.test] = udp.counts.forwarding_rate_pps
        if spec.test is Test.SEARCH:
            found = [pps for run in udp.searches if (pps := run.bounds(PDR_LOSS_RATIO).lower_pps) is not None]
            if found:
                self._pdr_pps[spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction] = median(found)

    def calibrate(self, spec: TrialSpec, link: BackToBack) -> TrialFindings:
        """One trial of the testers alone (rule 6). Raises TrialFailed when it ends without a figure."""
        place = direct_place(link, spec.direction)
        exchanger = self._exchanger(spec, TrafficPath(link.client_address, link.server_address, place))
        before = read_host(self.testbed.client), read_host(self.testbed.server)
        traffic, bracket_s, foreign = self._observed(spec, exchanger)
        after = read_host(self.testbed.client), read_host(self.testbed.server)
        udp = _measurement(traffic, direct_counters(before, after, place), bracket_s, foreign, None)
        return TrialFindings(None, check_udp_calibration(spec, udp, foreign), _raw(exchanger, foreign), udp)

    def measure(self, spec: TrialSpec, tunnel: Tunnel[Any]) -> TrialFindings:
        """One trial through a tunnel. Raises TrialFailed when it ends without a figure."""
        exchanger = self._exchanger(spec, self.path(spec.direction, tunnel))
        said_before, asked_before = tunnel.log_sizes(), len(tunnel.keep_alives())
        before, place = read_path(self.testbed), exchanger.path.place
        reading = read_arrivals(self.testbed, place) - arrivals(before.client, before.server, place)
        traffic, bracket_s, foreign = self._observed(spec, exchanger)
        after = read_path(self.testbed)
        counters = without(path_counters(before, after, place), (reading, *traffic.beside))
        udp = _measurement(traffic, counters, bracket_s, foreign, self._limit_pps(spec, tunnel))
        kind = Test.ECHO if spec.test is Test.ECHO else Test.RATE
        checks = check_udp_trial(
            spec,
            udp,
            received_packets=exchanger.received_packets,
            outer=str(tunnel.outer),
            exact_outer_packets=tunnel.has_exact_outer_packets,
            foreign=foreign,
            router_cpu_doubt=router_cpu_doubt(self.testbed, tunnel),
            restart=tunnel.restart_since(said_before),
            keep_alives=tunnel.keep_alives()[asked_before:],
            has_own_router=self.testbed.has_own_router,
            counted_bytes=tunnel.counted_bytes,
            testers_pps=self._testers_pps.get((spec.payload_bytes, spec.direction, kind)),
        )
        checks += sharing(data_shares(before, after, place))
        checks += check_delays(spec, has_one_clock=exchanger.has_one_clock)
        if traffic.sampling is not None:
            checks = (*checks, traffic.sampling)
        raw = _raw(exchanger, foreign) | {"counters_before": asdict(before), "counters_after": asdict(after)}
        return TrialFindings(None, checks, raw, udp)

    def warm_up(self, tunnel: Tunnel[Any]) -> None:
        """A few packets each way that are not counted: paths, ARP and CPU clocks settle (rule 23)."""
        self.programs = engines_of(self.testbed)  # a tester that was lost has nothing of ours any more
        for direction in self.traffic.direction:
            exchanger = Exchanger(self.testbed, self.path(direction, tunnel), self.programs, "18")
            exchanger.exchange(Load("18", WARM_UP_S, WARM_UP_PPS, interval_s=0.1))

    def path(self, direction: Direction, tunnel: Tunnel[Any]) -> TrafficPath:
        return path_through(self.testbed, tunnel, place_of(self.testbed, tunnel, direction))

    def _exchanger(self, spec: TrialSpec, path: TrafficPath) -> Exchanger:
        return Exchanger(self.testbed, path, self.programs, spec.payload)

    def _observed(self, spec: TrialSpec, exchanger: Exchanger) -> tuple[Traffic, float, dict[str, float]]:
        """The traffic of a trial, how long it took, and what strangers used meanwhile."""
        testbed = self.testbed
        cpus = cpu.cpus_here(*testbed.hosts)
        processes_before, started_s = all_processes(), time.monotonic()
        traffic = self._traffic(spec, exchanger)
        bracket_s = time.monotonic() - started_s
        return traffic, bracket_s, cpu.foreign_by_name(processes_before, all_processes(), cpus)

    def _traffic(self, spec: TrialSpec, exchanger: Exchanger) -> Traffic:
        match spec.test:
            case Test.SEARCH:
                return self._search(spec, exchanger)
            case Test.LOSS_CURVE:
                return self._loss_curve(spec, exchanger)
            case Test.BURST:
                return self._bursts(spec, exchanger)
            case Test.LATENCY:
                return self._latency(spec, exchanger)
            case _:
                rate_pps = None if spec.load == FLAT_OUT else float(spec.load)
                is_echo = spec.test is Test.ECHO
                return self._timed(exchanger, rate_pps, self.traffic.duration_s, is_echo=is_echo, has_ping=True)

    def _latency(self, spec: TrialSpec, exchanger: Exchanger) -> Traffic:
        """Delays under a load. A few packets beside it ask for them: those of the load may leave many in one call, and
        then have no times of their own."""
        pps, duration_s = self._latency_pps(spec), self.traffic.duration_s
        if spec.load == IDLE:
            return self._timed(exchanger, pps, duration_s, takes_delays=True)
        probe_pps = min(MOST_PROBES_PPS, max(FEWEST_PROBES_PPS, pps * PROBE_SHARE))
        probe_s = duration_s - 2 * PROBE_MARGIN_S
        probe = Load(exchanger.sizes, probe_s, probe_pps, takes_delays=True, port=PROBE_PORT, sleeps=True)
        prober = exchanger.beside()

        def ask() -> UdpCounts:
            time.sleep(PROBE_MARGIN_S)
            return prober.exchange(probe)

        with ThreadPoolExecutor(max_workers=1) as pool:
            answers = pool.submit(ask)
            traffic = self._timed(exchanger, pps - probe_pps, duration_s)
            found = answers.result()
        exchanger.take_in(prober)
        if traffic.counts is not None:
            traffic.counts = replace(traffic.counts, delay=found.delay, delay_variation=found.delay_variation)
        return traffic

    def _timed(
        self,
        exchanger: Exchanger,
        rate_pps: float | None,
        duration_s: float,
        *,
        takes_delays: bool = False,
        is_echo: bool = False,
        has_ping: bool = False,
    ) -> Traffic:
        """One trial with its window; the router is pinged beside it where that disturbs nothing."""
        before = read_arrivals(self.testbed, exchanger.path.place)
        companion = Companion(self.testbed, exchanger.path, duration_s, self.on_second)
        beside = [read_arrivals(self.testbed, exchanger.path.place) - before]
        companion.looks_at_sockets = False
        if rate_pps is not None:
            companion.flowing_packets = max(1, min(FLOWING_PACKETS, int(rate_pps * duration_s / 10)))
        load = Load(
            exchanger.sizes,
            duration_s,
            rate_pps,
            is_echo=is_echo,
            takes_delays=takes_delays,
            interval_s=min(self.traffic.interval_s, duration_s),
        )
        started_s, sampling = time.monotonic(), None
        try:
            with self._pinged(has_ping) as pinger:
                counts = exchanger.exchange(load, companion.accompany)
            answers = ping.parse(pinger.output(), interrupted=True) if pinger else Ping(0, 0, None)
            before = read_arrivals(self.testbed, exchanger.path.place)
            window = companion.window()
            beside.append(read_arrivals(self.testbed, exchanger.path.place) - before)
            if companion.sampling_cost_s is not None:
                sampling = check_sampling(companion.sampling_cost_s, time.monotonic() - started_s)
        finally:
            companion.close()
        return Traffic(counts, window, answers, beside=tuple(beside), sampling=sampling)

    @contextmanager
    def _pinged(self, has_ping: bool) -> Iterator[Daemon | None]:
        """Ping the router from the LAN while the block runs."""
        if not has_ping or not self.testbed.addresses.router_lan:
            yield None
            return
        with ExitStack() as stack:
            pinger = self.testbed.client.start(ping.command(self.testbed.addresses.router_lan))
            stack.callback(pinger.stop)
            yield pinger
            pinger.interrupt()
            pinger.wait(1)

    def _highest_pps(self, spec: TrialSpec) -> float:
        return self._testers_pps.get((spec.payload_bytes, spec.direction, Test.RATE), UNKNOWN_LIMIT_PPS)

    def _latency_pps(self, spec: TrialSpec) -> float:
        """The rate of a latency trial. Raises NotBegun where no search has told the PDR."""
        if spec.load == IDLE:
            return IDLE_PPS
        pdr_pps = self._pdr_pps.get((spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction))
        if pdr_pps is None:
            raise NotBegun(f"no search of this round told the PDR of which to take {spec.load}")
        return pdr_pps * float(spec.load.removesuffix("%")) / 100

    def _search(self, spec: TrialSpec, exchanger: Exchanger) -> Traffic:
        """The repeated searches, then the long trial at their median NDR (rule 20)."""
        final_s = self.traffic.trial_s
        search: Search = MlrSearch(
            classification=Classification(final_s, 3 * final_s),
            initial_trial_s=final_s / 4,
            time_limit_s=self.traffic.search_limit_s,
        )
        runs = tuple(search.find(exchanger.point, self._highest_pps(spec)) for _ in range(self.traffic.repeats))
        found = [pps for run in runs if (pps := run.bounds(NDR_LOSS_RATIO).lower_pps) is not None]
        traffic = Traffic()
        if found and self.traffic.confirm_s:
            traffic = self._timed(exchanger, median(found), self.traffic.confirm_s, has_ping=True)
        traffic.parts["searches"] = runs
        return traffic

    def _loss_curve(self, spec: TrialSpec, exchanger: Exchanger) -> Traffic:
        """Loss at loads around what comes through when the path is flooded (RFC 2544, section 26.3, has line rate)."""
        highest_pps = self._highest_pps(spec)
        flood = as_point(exchanger.exchange(Load(exchanger.sizes, FLOOD_S, highest_pps, interval_s=0.1)))
        loads = sorted({min(highest_pps, flood.forwarding_rate_pps * share) for share in CURVE_SHARES})
        points = [exchanger.point(self.traffic.trial_s, pps) for pps in loads if pps >= 1]
        return Traffic(parts={"points": (*points, flood)})

    def _bursts(self, spec: TrialSpec, exchanger: Exchanger) -> Traffic:
        """Twice as long until one is cut, then halve the gap (RFC 9004)."""
        longest = max(SMALLEST_BURST_PACKETS, int(self._highest_pps(spec) * BURST_LIMIT_S))
        bursts: list[Burst] = []

        def send(packets: int) -> bool:
            nonlocal longest
            counts = exchanger.exchange(Load(exchanger.sizes, burst_packets=packets, interval_s=0.1))
            bursts.append(Burst(counts.sent_packets, counts.received_packets, counts.tester_dropped_packets))
            if bursts[-1].is_whole and counts.sending_s >= BURST_LIMIT_S:
                longest = min(longest, packets)  # where no calibration told the testers' rate
            return bursts[-1].is_whole and counts.sent_packets == packets

        whole, cut = 0, SMALLEST_BURST_PACKETS
        while send(cut) and cut < longest:
            whole, cut = cut, min(longest, cut * 2)
        while bursts[-1].packets < longest and cut - whole > max(1, whole * BURST_TOLERANCE):
            middle = (whole + cut) // 2
            whole, cut = (middle, cut) if send(middle) else (whole, middle)
        return Traffic(parts={"bursts": tuple(bursts)})

    def _limit_pps(self, spec: TrialSpec, tunnel: Tunnel[Any]) -> float | None:
        link = self.testbed.spec.link
        rate_mbps = link.rate_in_mbps if spec.direction is Direction.IN else link.rate_out_mbps
        if rate_mbps is None or tunnel.compresses:
            return None
        sizes = ((spec.payload_bytes, 1),) if spec.payload_bytes else IMIX
        return udp_limit_pps(rate_mbps, sizes, tunnel.wire_bytes, link.mtu_bytes)


def without(counters: PathCounters, beside: Sequence[Arrivals]) -> PathCounters:
    """A trial's counters without what arrived when none of its packets could."""
    return replace(
        counters,
        data_packets=counters.data_packets - sum(each.data_packets for each in beside),
        data_bytes=counters.data_bytes - sum(each.data_bytes for each in beside),
        ack_packets=counters.ack_packets - sum(each.ack_packets for each in beside),
    )


def _measurement(
    traffic: Traffic,
    counters: PathCounters,
    bracket_s: float,
    foreign: dict[str, float],
    physical_limit_pps: float | None,
) -> UdpMeasurement:
    return UdpMeasurement(
        counts=traffic.counts,
        counters=counters,
        window=traffic.window,
        bracket_s=bracket_s,
        foreign_cpu_s=sum(foreign.values()),
        ping=traffic.ping,
        physical_limit_pps=physical_limit_pps,
        **traffic.parts,
    )


def _raw(exchanger: Exchanger, foreign: dict[str, float]) -> dict[str, Any]:
    return {"exchanges": exchanger.log, "foreign_cpu_s": foreign}
