"""What goes on beside the traffic of a trial: the window is read, the daemons are looked after, the rate is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import CpuReading
from tunnelbench.measure import cpu
from tunnelbench.measure.counters import Arrivals, Place, read_arrivals
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import CpuInterval, Window
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel.base import Tunnel

GRACE_S = 20.0
"""What an iperf3 may take beyond its test for connecting and for its results: through a router that carries
200 packets/s its last words wait for seconds behind the data, and 8 s were too few."""

POLL_S = 0.01
FLOWING_PACKETS = 20
"""So many data packets and the test has begun: until then iperf3's control connection sends fewer."""

RAMP_S = 0.1
"""From the first packets to the beginning of the window."""

MARGIN_S = 0.05
"""From the end of the window to the end of the test at the earliest: a controller on a busy CPU may wake up late."""

MOST_UNNOTICED_SHARE = 0.4
"""Of the test: what is left must be enough for a window."""

SHORTEST_WINDOW_SHARE = 0.5
"""Of the test's duration; with less of it inside the window the trial is void."""

DYING_S = 0.2
"""From the going of a tunnel's device to the end of its program: the kernel closes the one before the other."""

SHORTEST_INTERVAL_S = 0.1
"""Of the router's CPU over time: the kernel may count in ticks of 10 ms, a tenth of it."""

SAMPLED_S = 30.0
"""What a sampler on another machine lives beyond the traffic at most, should nobody end it."""

SYNC_S = 0.05
"""How far the clocks of this machine and of a sampled one may be apart: half of what asking for the time takes over
SSH, and a hundredth of a second in which /proc/uptime counts."""

LEAD_S = 0.15
"""From the first reading to the start of iperf3: what the router's CPU does before the traffic is seen, too."""

OnSecond = Callable[[float], None]
"""Called about once a second with the rate of the data on the interface [bit/s]."""


@dataclass(frozen=True)
class Reading:
    """CPU times and arrivals at one moment."""

    cpu: CpuReading
    arrivals: Arrivals


@dataclass(frozen=True)
class TrafficPath:
    """What the traffic of a trial goes to, and what must live for it."""

    client_address: str
    server_address: str
    place: Place
    router_daemons: Sequence[Daemon] = ()
    server_daemons: Sequence[Daemon] = ()
    far_end: str = "server"
    """Who the tunnel's other end is on."""

    def require_daemons(self) -> None:
        """Raises TrialFailed when one of the tunnel's programs has ended."""
        for end, daemons in (("router", self.router_daemons), (self.far_end, self.server_daemons)):
            for daemon in daemons:
                if not daemon.is_running:
                    last = daemon.last_line()
                    raise TrialFailed(f"{daemon.name} on the {end} ended during the trial; last: {last}")
                if daemon.is_stopped:
                    raise TrialFailed(f"{daemon.name} on the {end} was stopped during the trial and does nothing")


def path_through(testbed: Testbed, tunnel: Tunnel[Any], place: Place) -> TrafficPath:
    """The path of a trial through a tunnel that is up."""
    ends = testbed.client_address, testbed.addresses.target
    far_end = tunnel.far_end.host.name
    return TrafficPath(*ends, place, tunnel.daemons_under_test, tunnel.far_daemons, far_end)


class Companion:
    """Accompanies one test of iperf3 or of the packet engine.

    The window opens shortly after data flow and closes just under `duration_s` after iperf3 was started: the test
    itself begins later than that, so the window ends before the test does.
    """

    def __init__(self, testbed: Testbed, path: TrafficPath, duration_s: float, on_second: OnSecond) -> None:
        self.testbed = testbed
        self.path = path
        self.duration_s = duration_s
        self.on_second = on_second
        self.sender = testbed.server if path.place.direction is Direction.IN else testbed.client
        self.flowing_packets = FLOWING_PACKETS
        self.looks_at_sockets = True
        """Whether `ss` is asked half-way through, on the sender."""
        self.sockets = ""
        """What `ss` said of the sender's connections half-way through."""
        self._opened: Reading | None = None
        self._closed: Reading | None = None
        self._samplers = {
            host.machine: sampler
            for host in testbed.hosts
            if (sampler := host.sampler(path.router_daemons if host is testbed.router else (), duration_s + SAMPLED_S))
        }
        """Of the hosts that are other machines."""
        self._reader = testbed.client if testbed.router.machine in self._samplers else testbed.router
        """Whose CPUs are read beside the traffic: where the router is a part of this machine, the router's."""
        self._times = [cpu.read_cpu(self._reader, ())]
        """Of the router: before the traffic, when data began to flow, then about once a second."""

    def wait_for_lead(self) -> None:
        """Wait until LEAD_S have passed since the first reading."""
        time.sleep(max(0.0, self._times[0].clock_s + LEAD_S - time.monotonic()))

    def accompany(self, client: Daemon) -> None:
        """Stay with the program that offers the traffic; raises TrialFailed when it hangs or the tunnel dies."""
        try:
            self._stay_with(client)
        except TrialFailed:
            time.sleep(DYING_S)
            self.path.require_daemons()  # where one has ended, everything else follows from that
            raise

    def _stay_with(self, client: Daemon) -> None:
        started_s = time.monotonic()
        end_s = started_s + self.duration_s - MARGIN_S
        idle = read_arrivals(self.testbed, self.path.place)
        while time.monotonic() < end_s:
            if client.wait(POLL_S):
                return  # it failed early, or was refused: its own words say why
            self.path.require_daemons()
            if (read_arrivals(self.testbed, self.path.place) - idle).data_packets >= self.flowing_packets:
                break
        # Where setting up took long, through a slow tunnel, the test ends that much later.
        unnoticed_s = min(self.testbed.slow_start_s, self.duration_s * MOST_UNNOTICED_SHARE)
        end_s = max(end_s, time.monotonic() + self.duration_s - unnoticed_s)
        self._times.append(self._read_cpu())
        client.wait(RAMP_S)
        self._opened = latest = self._read()
        half_way_s = started_s + self.duration_s / 2
        has_looked = not self.looks_at_sockets
        while (now_s := time.monotonic()) < end_s:
            if not has_looked and now_s >= half_way_s:
                self.sockets = self.sender.run(["ss", "-tinHO", "state", "established"]).stdout
                has_looked = True
                continue  # that may have taken long
            if client.wait(max(0.0, min(1.0, end_s - now_s, 1.0 if has_looked else half_way_s - now_s))):
                return
            self.path.require_daemons()
            reading = self._read()
            self._times.append(reading.cpu)
            elapsed_s = reading.cpu.clock_s - latest.cpu.clock_s
            if elapsed_s > 0.2:
                self.on_second((reading.arrivals - latest.arrivals).data_bytes * 8 / elapsed_s)
                latest = reading
        self._closed = self._read()
        self._times.append(self._closed.cpu)
        if not client.wait(GRACE_S):
            raise TrialFailed(f"{client.name} did not end {GRACE_S:g} s after its test of {self.duration_s:g} s")

    def window(self) -> Window:
        """What was counted inside the traffic; TrialFailed when there was too little of it."""
        if self._opened is None or self._closed is None:
            raise TrialFailed("the traffic ended before its time")
        before, after = self._opened.cpu, self._closed.cpu
        duration_s = after.clock_s - before.clock_s
        if duration_s < self.duration_s * SHORTEST_WINDOW_SHARE:
            raise TrialFailed(f"data flowed for only {duration_s:.1f} s of {self.duration_s:g} s")
        arrived = self._closed.arrivals - self._opened.arrivals
        router, client, server = self.testbed.router, self.testbed.client, self.testbed.server
        elsewhere = {machine: sampler.stop() for machine, sampler in self._samplers.items()}
        testers = cpu.cpus_here(client, server)
        tester_cpus = [cpu.usage(before, after, [one]) for one in testers]
        for host in (client, server):
            if host.machine in elsewhere:
                first, last = sampled_inside(elsewhere[host.machine].readings, before.clock_s, after.clock_s, host.name)
                tester_cpus += [cpu.scaled(cpu.usage(first, last, [one]), duration_s) for one in host.cpus]
        far_share = None
        if self.testbed.has_own_far_end:
            far = self.testbed.far_host
            first, last = sampled_inside(elsewhere[far.machine].readings, before.clock_s, after.clock_s, far.name)
            far_share = cpu.usage(first, last, far.cpus).busy_share
        intervals = router_intervals(self._times, router.cpus) if router.machine not in elsewhere else ()
        router_by_cpu = [cpu.usage(before, after, [one]) for one in router.cpus if router.machine not in elsewhere]
        if sampled := elsewhere.get(router.machine):
            before, after = sampled_inside(sampled.readings, before.clock_s, after.clock_s, router.name)
            router_by_cpu = [cpu.scaled(cpu.usage(before, after, [one]), duration_s) for one in router.cpus]
            intervals = sampled_intervals(sampled.readings, self._times[1].clock_s, router.cpus)
        sampled_s = after.clock_s - before.clock_s
        spent_s = None
        if before.daemons_s is not None and after.daemons_s is not None:
            share = duration_s / sampled_s
            spent_s = {
                name: (after_s - before.daemons_s.get(name, 0.0)) * share for name, after_s in after.daemons_s.items()
            }
        return Window(
            duration_s=duration_s,
            data_packets=arrived.data_packets,
            ack_packets=arrived.ack_packets,
            router_cpu=cpu.together(router_by_cpu),
            tester_cpu=cpu.together(tester_cpus),
            busiest_tester_share=max(far_share or 0.0, *(one.busy_share for one in tester_cpus)),
            daemon_cpu_s=None if spent_s is None else sum(spent_s.values()),
            daemon_cpu_method=after.daemons_method,
            router_by_cpu=tuple(router_by_cpu),
            program_cpu_s=spent_s or {},
            intervals=intervals,
            far_end_busy_share=far_share,
        )

    @property
    def sampled(self) -> dict[str, str]:
        """What the samplers of other machines wrote, by machine."""
        return {f"sampled_{machine}": sampler.stop().raw for machine, sampler in self._samplers.items()}

    @property
    def sampling_cost_s(self) -> float | None:
        """What reading the router's CPUs took of them [s]; None: no process on the router did that."""
        sampler = self._samplers.get(self.testbed.router.machine)
        return sampler.stop().cost_s if sampler else None

    def close(self) -> None:
        """End what reads the other machines; does no harm when called twice."""
        for sampler in self._samplers.values():
            with suppress(CannotHere):  # a host that is lost: it ends by itself
                sampler.stop()

    def _read(self) -> Reading:
        return Reading(self._read_cpu(), read_arrivals(self.testbed, self.path.place))

    def _read_cpu(self) -> CpuReading:
        return cpu.read_cpu(self._reader, self.path.router_daemons if self._reader is self.testbed.router else ())


def sampled_inside(
    readings: Sequence[CpuReading], opened_s: float, closed_s: float, name: str
) -> tuple[CpuReading, CpuReading]:
    """The first and the last sample inside a window. Raises TrialFailed where they are too few."""
    inside = [each for each in readings if opened_s + SYNC_S <= each.clock_s <= closed_s - SYNC_S]
    if len(inside) < 2:
        raise TrialFailed(
            f"the {name}'s CPU was read {len(inside)} times within the traffic, twice is the least: "
            "it reads once a second, so a trial should take 5 s or more"
        )
    return inside[0], inside[-1]


def sampled_intervals(readings: Sequence[CpuReading], start_s: float, cpus: Sequence[int]) -> tuple[CpuInterval, ...]:
    """From sample to sample, from the last one before data began to flow at `start_s`."""
    first = max((number for number, each in enumerate(readings) if each.clock_s <= start_s), default=0)
    return tuple(
        CpuInterval(before.clock_s - start_s, after.clock_s - start_s, cpu.usage(before, after, cpus).busy_s)
        for before, after in pairwise(readings[first:])
    )


def router_intervals(times: Sequence[CpuReading], cpus: Sequence[int]) -> tuple[CpuInterval, ...]:
    """Between readings, of which the second is the moment at which data began to flow.

    What is shorter than SHORTEST_INTERVAL_S goes with what follows it, and the last with what is before it.
    """
    if len(times) < 3:
        return ()
    start_s = times[1].clock_s
    kept = [times[1]]
    for reading in times[2:]:
        if reading.clock_s - kept[-1].clock_s >= SHORTEST_INTERVAL_S:
            kept.append(reading)
    if len(kept) > 1:
        kept[-1] = times[-1]
    readings = kept if start_s - times[0].clock_s < SHORTEST_INTERVAL_S else [times[0], *kept]
    return tuple(
        CpuInterval(before.clock_s - start_s, after.clock_s - start_s, cpu.usage(before, after, cpus).busy_s)
        for before, after in pairwise(readings)
    )
