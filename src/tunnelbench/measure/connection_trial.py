"""Measures trials of TCP connections with the packet engine: new connections per second, and how many can be open."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host
from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.connection_checks import check_connection_trial
from tunnelbench.measure.counters import read_arrivals
from tunnelbench.measure.meter import Judged, TrafficMeter
from tunnelbench.measure.router_filter import TRACKED_CONNECTIONS
from tunnelbench.measure.trial_monitor import FLOWING_PACKETS, OnSecond, TrafficPath, TrialMonitor, keeping_output
from tunnelbench.measure.udp_exchange import READY_LIMIT_S, does_not_listen, end_far_end
from tunnelbench.measure.udp_trial import NOTICED_S, EngineMeter, OfferedUdp
from tunnelbench.model.connections import ConnectionCounts, TrackerReading
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import CALIBRATION_KIND, FLAT_OUT, HELD_S, ConnectionTraffic, Test, TrialSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import connections, ping
from tunnelbench.traffic.connections import ConnectionLoad

LIMIT = "/proc/sys/net/netfilter/nf_conntrack_max"
"""Most connections that the kernel tracks."""

READ_TRACKER_S = 0.2
"""Time between two readings of the router's connection tracking [s]."""


@dataclass(kw_only=True)
class OfferedConnections(OfferedUdp):
    """The results of the connections of one trial."""

    connections: ConnectionCounts | None = None


class ConnectionMeter(EngineMeter, TrafficMeter[OfferedConnections]):
    """Measures trials of TCP connections. It keeps the rate of the testers without a router, for later checks."""

    def __init__(self, testbed: Testbed, traffic: ConnectionTraffic, on_second: OnSecond) -> None:
        super().__init__(testbed, traffic, on_second)
        self.traffic = traffic
        self._testers_per_s: float | None = None
        """New connections per second of the testers without a router; None: unknown."""

    def remember(self, record: TrialRecord) -> None:
        found = record.udp.connections if record.udp and record.counts else None
        if found and record.spec.tunnel.kind == CALIBRATION_KIND:
            self._testers_per_s = found.established_per_s

    def load_of(self, spec: TrialSpec) -> ConnectionLoad:
        """Return the connections that a trial opens."""
        if spec.test is Test.CONCURRENT:
            opening_s = self.traffic.most / self.traffic.opening_rate
            return ConnectionLoad(opening_s + HELD_S, self.traffic.opening_rate, self.traffic.most)
        return ConnectionLoad(self.traffic.duration_s, None if spec.load == FLAT_OUT else float(spec.load))

    def offer(self, spec: TrialSpec, path: TrafficPath) -> OfferedConnections:
        """Open the connections of a trial; the client pings the router at the same time."""
        load = self.load_of(spec)
        testbed = self.testbed
        first_arrivals = read_arrivals(testbed, path.place)
        monitor = TrialMonitor(testbed, path, load.duration_s, self.on_second)
        monitor.looks_at_sockets = monitor.is_connected = False
        if load.rate_per_s is not None:
            monitor.flowing_packets = max(1, min(FLOWING_PACKETS, int(load.rate_per_s * NOTICED_S)))
        programs: dict[str, Daemon] = {}
        session = secrets.token_hex(7)
        with closing(monitor), keeping_output(programs, load=str(load)), ExitStack() as stack:
            argv = connections.accept_command(self.programs[testbed.server.machine], path.server_address, session)
            far = programs["engine_far_end"] = _start(stack, testbed.server, argv)
            if not far.wait_for('"hello"', READY_LIMIT_S):
                raise TrialFailed(does_not_listen(far))
            connections.require_open_files("far end", far.output(), load)
            pinger = testbed.client.start(ping.command(testbed.addresses.router_lan))
            stack.callback(pinger.stop)
            argv = connections.connect_command(
                self.programs[testbed.client.machine], path.server_address, session, load, source=path.client_address
            )
            with tracker_watched(testbed.router) as most:
                near = programs["engine_client"] = _start(stack, testbed.client, argv)
                monitor.accompany(near)
                tracked_before, tracked_most = most()
            pinger.interrupt()
            pinger.wait(1)
            path.require_daemons()
            end_far_end(far)
            counts = connections.parse(near.output(), far.output(), load)
            counts = replace(counts, tracked_before=tracked_before, tracked_most=tracked_most)
            return OfferedConnections(
                connections=counts,
                window=monitor.window(),
                ping=ping.parse(pinger.output(), interrupted=True),
                first_arrivals=first_arrivals,
                raw={"connections": asdict(counts), **monitor.sampled},
                sampling=monitor.sampling,
                misplaced=monitor.misplaced,
                quota_files=monitor.quota_files,
            )

    def judge(
        self, spec: TrialSpec, offered: OfferedConnections, counters: PathCounters, context: TrialContext
    ) -> Judged:
        measured = UdpMeasurement(
            counts=None,
            connections=offered.connections,
            counters=counters,
            window=offered.window,
            bracket_s=context.bracket_s,
            foreign_cpu_s=context.foreign_cpu_s,
            ping=offered.ping,
        )
        return measured, check_connection_trial(spec, measured, context, self._testers_per_s)


def _start(stack: ExitStack, host: Host, argv: list[str]) -> Daemon:
    daemon = host.start(argv, has_input=True)
    stack.callback(daemon.stop)
    return daemon


MostTracked = Callable[[], tuple[TrackerReading | None, TrackerReading | None]]


@contextmanager
def tracker_watched(router: Host) -> Iterator[MostTracked]:
    """Read the router's connection tracking while the block runs.

    The function returns the first reading, and that with the most entries so far; None where the router has none.
    """
    first = read_tracker(router)
    readings = [first] if first else []
    ended = threading.Event()

    def read_on() -> None:
        while readings and not ended.wait(READ_TRACKER_S):
            if found := read_tracker(router):
                readings.append(found)

    thread = threading.Thread(target=read_on)
    thread.start()
    try:
        yield lambda: (first, max(readings, key=lambda reading: reading.entries, default=None))
    finally:
        ended.set()
        thread.join()


def read_tracker(router: Host) -> TrackerReading | None:
    """Read how many connections the router's kernel tracks; None if it does not report it."""
    found = router.run(["cat", TRACKED_CONNECTIONS, LIMIT], check=False).stdout.split()
    if not found or not all(re.fullmatch(r"\d{1,18}", number) for number in found):
        return None
    return TrackerReading(int(found[0]), int(found[1]) if len(found) > 1 else None)
