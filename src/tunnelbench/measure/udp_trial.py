"""Measures UDP trials. Each test gives one record: a rate, an echo, delays, a search, a loss curve or bursts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from tunnelbench.host.daemon import Daemon
from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.counters import read_arrivals
from tunnelbench.measure.engine_setup import engines_of
from tunnelbench.measure.meter import Judged, Meter, Offered, TrafficMeter
from tunnelbench.measure.search import MlrSearch, Search
from tunnelbench.measure.trial_monitor import FLOWING_PACKETS, OnSecond, TrafficPath, TrialMonitor, path_through
from tunnelbench.measure.udp_checks import check_delays, check_udp_trial
from tunnelbench.measure.udp_exchange import Exchanger, as_point
from tunnelbench.model.counters import PathCounters, Ping, Window
from tunnelbench.model.errors import NotBegun, TrialFailed
from tunnelbench.model.frames import IMIX, udp_limit_pps
from tunnelbench.model.plan import (
    CALIBRATION_KIND,
    FLAT_OUT,
    IDLE,
    IDLE_PPS,
    IMIX_PAYLOAD_BYTES,
    SMALLEST_UDP_PAYLOAD_BYTES,
    ConnectionTraffic,
    Direction,
    SoakTraffic,
    Test,
    TrialSpec,
    UdpTraffic,
    payload_text,
)
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, Classification, lower_bounds
from tunnelbench.model.udp import Burst, UdpCounts, UdpMeasurement
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import engine, ping
from tunnelbench.traffic.engine import SenderLoad
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.versions import version_of

UNKNOWN_LIMIT_PPS = 1_000_000.0
"""Highest load of a search without a calibration [packets/s]; the search's own trials find the testers' limit."""

FLOOD_S = 0.5
CURVE_SHARES = tuple(share / 10 for share in range(5, 16))
"""Loads of a loss curve, as shares of the rate that the path forwards when it is flooded."""

SMALLEST_BURST_PACKETS = 16
BURST_LIMIT_S = 2.0
"""Duration of the longest burst at the testers' highest rate [s] (RFC 9004, section 5)."""
BURST_TOLERANCE = 0.02

PROBE_PORT = engine.ENGINE_PORT + 1
PROBE_SHARE = 0.05
MOST_PROBES_PPS = 1000.0
FEWEST_PROBES_PPS = 10.0
"""Lowest rate of the probe packets that measure delays [packets/s]; their rate is PROBE_SHARE of the load."""
PROBE_MARGIN_S = 0.2
"""Time from the start of the load to the first probe, and from the last probe to the end of the load [s]."""

NOTICED_S = 0.1
"""Longest time for which packets of a low rate may flow until they are noticed [s]."""

WARM_UP_S = 0.3
WARM_UP_PPS = 1000.0


@dataclass(kw_only=True)
class OfferedUdp(Offered):
    """The results of the traffic of one UDP trial."""

    counts: UdpCounts | None = None
    window: Window | None = None
    parts: dict[str, Any] = field(default_factory=dict)
    """Fields of the UdpMeasurement that only some tests have, by name."""
    received_packets: int = 0
    """Packets that reached the sockets of both testers, including socket drops and echoes."""
    has_one_clock: bool = True
    """True if both testers read the same clock."""


class EngineMeter(Meter):
    """A meter whose traffic comes from the packet engine.

    Raises CannotHere if a tester has no engine and this machine's engine does not run there.
    """

    def __init__(
        self, testbed: Testbed, traffic: UdpTraffic | SoakTraffic | ConnectionTraffic, on_second: OnSecond
    ) -> None:
        super().__init__(testbed, on_second)
        self._directions = traffic.direction
        self._flows = traffic.flows if isinstance(traffic, UdpTraffic) else 1
        sizes = traffic.payload_bytes  # those of connections are smaller than any of UDP
        largest = IMIX_PAYLOAD_BYTES if IMIX_PAYLOAD_BYTES in sizes else max(*sizes, SMALLEST_UDP_PAYLOAD_BYTES)
        self._largest = payload_text(largest)
        self.programs = engines_of(testbed)

    def warm_up(self, tunnel: Tunnel[Any]) -> None:
        self.programs = engines_of(self.testbed)  # a tester that was lost has lost its copy of the engine
        for direction in self._directions:
            path = path_through(self.testbed, tunnel, direction)
            self.exchanger(path, "18").exchange(SenderLoad("18", WARM_UP_S, WARM_UP_PPS, interval_s=0.1))
            with suppress(TrialFailed):  # if no packet of this size arrives, the trials show it
                # The sender's kernel learns the path's MTU from the first packets that do not fit, which are lost.
                load = SenderLoad(self._largest, WARM_UP_S, WARM_UP_PPS, interval_s=0.1)
                self.exchanger(path, self._largest).exchange(load, may_be_refused=True)

    def versions(self) -> Mapping[str, str]:
        wanted, testers = rf"^{engine.ENGINE_PROGRAM} (\S+)", (self.testbed.client, self.testbed.server)
        return {
            f"{host.name}.{engine.ENGINE_PROGRAM}": version_of(host, [self.programs[host.machine], "--version"], wanted)
            for host in testers
        }

    def exchanger(self, path: TrafficPath, sizes: str) -> Exchanger:
        """Return the exchanger that sends payloads of these sizes over a path."""
        return Exchanger(self.testbed, path, self.programs, sizes, self._flows)


class UdpMeter(EngineMeter, TrafficMeter[OfferedUdp]):
    """Measures UDP trials. It keeps the testers' own rates and the PDR of each search, for later trials."""

    def __init__(self, testbed: Testbed, traffic: UdpTraffic, on_second: OnSecond) -> None:
        super().__init__(testbed, traffic, on_second)
        self.traffic = traffic
        self._testers_pps: dict[tuple[int, Direction, Test], float] = {}
        """Packet rate of the testers without a router [packets/s], by payload, direction and test."""
        self._pdr_pps: dict[tuple[int, str, int, Direction], float] = {}
        """PDR of each search [packets/s], by round, tunnel, payload and direction."""

    def remember(self, record: TrialRecord) -> None:
        spec, udp = record.spec, record.udp
        if udp is None or not record.counts:
            return
        if spec.tunnel.kind == CALIBRATION_KIND and spec.load == FLAT_OUT and udp.counts is not None:
            self._testers_pps[spec.payload_bytes, spec.direction, spec.test] = udp.counts.forwarding_rate_pps
        if spec.test is Test.SEARCH and (found := lower_bounds(udp.searches, PDR_LOSS_RATIO)):
            self._pdr_pps[spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction] = median(found)

    def offer(self, spec: TrialSpec, path: TrafficPath) -> OfferedUdp:
        exchanger = self.exchanger(path, spec.payload)
        first_arrivals = read_arrivals(self.testbed, path.place)
        offered = self._traffic(spec, exchanger)
        offered.first_arrivals = first_arrivals
        offered.received_packets = exchanger.received_packets
        offered.engine_sent_packets = exchanger.sent_packets
        offered.has_one_clock = exchanger.has_one_clock
        offered.raw = {"exchanges": exchanger.log}
        return offered

    def judge(self, spec: TrialSpec, offered: OfferedUdp, counters: PathCounters, context: TrialContext) -> Judged:
        receiving_s = 0.0 if offered.counts is None else offered.counts.receiving_s
        limit_pps, link_mbps = None, context.link_mbps_over(receiving_s)
        if link_mbps is not None:
            sizes = ((spec.payload_bytes, 1),) if spec.payload_bytes else IMIX
            mtu_bytes, header_bytes = self.testbed.spec.link.mtu_bytes, context.inner_header_bytes
            limit_pps = udp_limit_pps(
                link_mbps,
                sizes,
                context.wire_bytes,
                mtu_bytes,
                header_bytes,
                inner_mtu_bytes=context.inner_mtu_bytes,
            )
        udp = UdpMeasurement(
            counts=offered.counts,
            counters=counters,
            window=offered.window,
            bracket_s=context.bracket_s,
            foreign_cpu_s=context.foreign_cpu_s,
            rekeys=len(context.rekeys) if spec.test is Test.REKEY and not context.is_calibration else None,
            ping=offered.ping,
            physical_limit_pps=limit_pps,
            **offered.parts,
        )
        testers_pps = self._testers_pps.get(_calibration_of(spec))
        checks = check_udp_trial(spec, udp, context, offered.received_packets, testers_pps)
        delays = () if context.is_calibration else check_delays(spec, has_one_clock=offered.has_one_clock)
        return udp, (*checks, *delays)

    def _traffic(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        match spec.test:
            case Test.SEARCH | Test.ECHO_SEARCH:
                return self._search(spec, exchanger)
            case Test.LOSS_CURVE:
                return self._loss_curve(spec, exchanger)
            case Test.BURST:
                return self._bursts(spec, exchanger)
            case Test.LATENCY:
                return self._latency(spec, exchanger)
            case Test.REKEY:
                return self._timed_sparsely(spec, exchanger)
            case _:
                rate_pps = None if spec.load == FLAT_OUT else float(spec.load)
                is_echo = spec.test.is_echo
                return self._timed(exchanger, rate_pps, self.traffic.duration_s, is_echo=is_echo, has_ping=True)

    def _latency(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        """Measure delays under a load, with separate probe packets.

        The sender may pass many packets of the load to the kernel in one call, so that they have no send times of their
        own.
        """
        pps, duration_s = self._latency_pps(spec), self.traffic.duration_s
        if spec.load == IDLE:
            return self._timed(exchanger, pps, duration_s, takes_delays=True)
        probe_pps = min(MOST_PROBES_PPS, max(FEWEST_PROBES_PPS, pps * PROBE_SHARE))
        probe_s = duration_s - 2 * PROBE_MARGIN_S
        probe = SenderLoad(exchanger.sizes, probe_s, probe_pps, takes_delays=True, port=PROBE_PORT, sleeps=True)
        prober = exchanger.beside()

        def ask() -> UdpCounts:
            time.sleep(PROBE_MARGIN_S)
            return prober.exchange(probe)

        with ThreadPoolExecutor(max_workers=1) as pool:
            answers = pool.submit(ask)
            traffic = self._timed(exchanger, pps - probe_pps, duration_s, has_ping=True)
            found = answers.result()
        exchanger.take_in(prober)
        if traffic.counts is not None:
            traffic.counts = replace(traffic.counts, delay=found.delay, delay_variation=found.delay_variation)
        return traffic

    def _timed_sparsely(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        """Offer packets at a rate at which each has a send time of its own, and measure their delays and gaps."""
        pps, duration_s = float(spec.load), self.traffic.duration_s
        return self._timed(exchanger, pps, duration_s, takes_delays=True, sleeps=True, has_ping=True)

    def _timed(
        self,
        exchanger: Exchanger,
        rate_pps: float | None,
        duration_s: float,
        *,
        takes_delays: bool = False,
        sleeps: bool = False,
        is_echo: bool = False,
        has_ping: bool = False,
    ) -> OfferedUdp:
        """Offer one load and measure its window; with `has_ping`, the client pings the router meanwhile."""
        before = read_arrivals(self.testbed, exchanger.path.place)
        monitor = TrialMonitor(self.testbed, exchanger.path, duration_s, self.on_second)
        beside = [read_arrivals(self.testbed, exchanger.path.place) - before]
        monitor.looks_at_sockets = monitor.is_connected = False
        if rate_pps is not None:
            monitor.flowing_packets = max(1, min(FLOWING_PACKETS, int(rate_pps * min(duration_s / 10, NOTICED_S))))
        load = SenderLoad(
            exchanger.sizes,
            duration_s,
            rate_pps,
            is_echo=is_echo,
            takes_delays=takes_delays,
            sleeps=sleeps,
            interval_s=min(self.traffic.interval_s, duration_s),
        )
        with closing(monitor):
            with self._pinged(has_ping) as pinger:
                counts = exchanger.exchange(load, monitor.accompany)
            answers = ping.parse(pinger.output(), interrupted=True) if pinger else Ping(0, 0, None)
            before = read_arrivals(self.testbed, exchanger.path.place)
            window = monitor.window()
            beside.append(read_arrivals(self.testbed, exchanger.path.place) - before)
            sampling = monitor.sampling
        return OfferedUdp(
            counts=counts,
            window=window,
            ping=answers,
            beside=tuple(beside),
            sampling=sampling,
            misplaced=monitor.misplaced,
            quota_files=monitor.quota_files,
        )

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
        return self._testers_pps.get(_calibration_of(spec), UNKNOWN_LIMIT_PPS)

    def _latency_pps(self, spec: TrialSpec) -> float:
        """Return the rate of a latency trial [packets/s]. Raises NotBegun if no search has found the PDR."""
        if spec.load == IDLE:
            return IDLE_PPS
        pdr_pps = self._pdr_pps.get((spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction))
        if pdr_pps is None:
            raise NotBegun(f"the load is {spec.load}, but no search of this round found the PDR")
        return pdr_pps * float(spec.load.removesuffix("%")) / 100

    def _search(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        """Make the plan's number of searches, then the confirming trial at their median NDR (rule 20)."""
        final_s = self.traffic.trial_s
        search: Search = MlrSearch(
            classification=Classification(final_s, 3 * final_s),
            initial_trial_s=final_s / 4,
            time_limit_s=self.traffic.search_limit_s,
        )
        point = partial(exchanger.point, is_echo=spec.test.is_echo)
        runs = tuple(search.find(point, self._highest_pps(spec)) for _ in range(self.traffic.repeats))
        found = lower_bounds(runs, NDR_LOSS_RATIO)
        traffic = OfferedUdp()
        if found and self.traffic.confirm_s:
            confirm_s, is_echo = self.traffic.confirm_s, spec.test.is_echo
            traffic = self._timed(exchanger, median(found), confirm_s, is_echo=is_echo, has_ping=True)
        traffic.parts["searches"] = runs
        return traffic

    def _loss_curve(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        """Measure loss at loads around the rate that the path forwards when it gets more packets than it can forward
        (RFC 2544, section 26.3, starts at line rate instead)."""
        highest_pps = self._highest_pps(spec)
        flood = as_point(exchanger.exchange(SenderLoad(exchanger.sizes, FLOOD_S, highest_pps, interval_s=0.1)))
        loads = sorted({min(highest_pps, flood.forwarding_rate_pps * share) for share in CURVE_SHARES})
        points = [exchanger.point(self.traffic.trial_s, pps) for pps in loads if pps >= 1]
        return OfferedUdp(parts={"points": (*points, flood)})

    def _bursts(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        """Find the longest burst without loss (RFC 9004): double its length until it loses packets, then bisect."""
        longest = max(SMALLEST_BURST_PACKETS, int(self._highest_pps(spec) * BURST_LIMIT_S))
        bursts: list[Burst] = []

        def send(packets: int) -> bool:
            nonlocal longest
            counts = exchanger.exchange(SenderLoad(exchanger.sizes, burst_packets=packets, interval_s=0.1))
            bursts.append(Burst(counts.sent_packets, counts.received_packets, counts.tester_dropped_packets))
            if bursts[-1].is_whole and counts.sending_s >= BURST_LIMIT_S:
                longest = min(longest, packets)  # where no calibration found the testers' rate
            return bursts[-1].is_whole and counts.sent_packets == packets

        whole, cut = 0, SMALLEST_BURST_PACKETS
        while send(cut) and cut < longest:
            whole, cut = cut, min(longest, cut * 2)
        while bursts[-1].packets < longest and cut - whole > max(1, whole * BURST_TOLERANCE):
            middle = (whole + cut) // 2
            whole, cut = (middle, cut) if send(middle) else (whole, middle)
        return OfferedUdp(parts={"bursts": tuple(bursts)})


def _calibration_of(spec: TrialSpec) -> tuple[int, Direction, Test]:
    """Return payload, direction and test of the calibration that limits the testers in a trial."""
    return spec.payload_bytes, spec.direction, Test.ECHO if spec.test.is_echo else Test.RATE
