"""Observes one trial: reads counters and CPU times during the traffic, watches the daemons and reports the rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tunnelbench.host import cgroup
from tunnelbench.host.cpu_polling import without_polling
from tunnelbench.host.daemon import Daemon, deaths
from tunnelbench.host.host import THIS_MACHINE, CpuReading, Sampler, SamplerOutput
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import check_sampling
from tunnelbench.measure.counters import Arrivals, CountingPoints, place_of, read_arrivals
from tunnelbench.model.conditions import Content
from tunnelbench.model.counters import CpuInterval, Window
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check
from tunnelbench.model.text import without_keys
from tunnelbench.qemu.instruction_profile import shares
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import engine
from tunnelbench.traffic.iperf3 import without_host_name
from tunnelbench.tunnel.base import Tunnel

SENDER_GRACE_S = 20.0
"""Time that iperf3 may take beyond its test, to connect and to send its results [s].

Through a router that carries 200 packets/s its last messages wait for seconds behind the data; 8 s were too few."""

DATA_FLOW_POLL_S = 0.01
FLOWING_PACKETS = 20
"""Number of data packets from which the test has begun; iperf3's control connection sends fewer before it."""

RAMP_S = 0.1
"""Time from the first data packets to the beginning of the measured window [s]."""

OPENING_LAG_S = 0.02
"""Time by which a virtual router's clock may be behind when the window opens [s]; while the router is busy, a reading
finds it 9 to 15 ms behind."""

CATCH_UP_LOOKS = 4
"""Number of readings after which the window opens in any case; RAMP_S lies between two of them."""

MARGIN_S = 0.05
"""Shortest time from the end of the window to the end of the test [s]; a controller on a busy CPU may wake up late."""

MOST_UNNOTICED_SHARE = 0.4
"""Largest share of the test that may pass before data flow is noticed; the rest must be enough for a window."""

SHORTEST_WINDOW_SHARE = 0.5
"""Smallest share of the test that the measured window must cover; with less the trial is void."""

DYING_S = 0.2
"""Time from the loss of a tunnel's device to the end of its program [s]; the kernel closes the device first."""

SHORTEST_INTERVAL_S = 0.1
"""Shortest interval between two readings of the router's CPU [s]; a kernel tick of 10 ms is a tenth of it."""

SAMPLED_S = 30.0
"""Time after the traffic at which a CPU sampler on another machine ends by itself [s]."""

SYNC_S = 0.05
"""Largest error of the difference between this machine's clock and a sampled machine's [s]: half of the round trip of
an SSH command, plus 0.01 s, the resolution of /proc/uptime."""

LEAD_S = 0.15
"""Time from the first CPU reading to the start of iperf3 [s]; during it the router's CPU is seen without traffic."""

OnSecond = Callable[[float, float | None], None]
"""A function that is called about once a second with the rate of the data on the interface [bit/s], and with the busy
share of the router's CPUs; None: not known before the trial ends."""


@dataclass(frozen=True)
class MonitorReading:
    """CPU times and counters of arrived packets, read at one moment."""

    cpu: CpuReading
    arrivals: Arrivals


@dataclass(frozen=True)
class TrafficPath:
    """The addresses of a trial's traffic, the devices that count it, and the daemons that must keep running."""

    client_address: str
    server_address: str
    place: CountingPoints
    router_daemons: Sequence[Daemon] = ()
    server_daemons: Sequence[Daemon] = ()
    far_end: str = "server"
    """Name of the host at the tunnel's other end."""
    client_devices: Sequence[str] = ()
    """Devices of the clients, if the tunnel's server has several: each makes a part of the traffic."""
    content: Content = Content.RANDOM
    """Data of the traffic."""

    def require_daemons(self) -> None:
        """Raise TrialFailed if a daemon of the tunnel has ended or was stopped; the message names all ended daemons."""
        groups = (("router", self.router_daemons), (self.far_end, self.server_daemons))
        if ended := deaths("during the trial", *groups):
            raise TrialFailed(ended)
        for end, daemons in groups:
            for daemon in daemons:
                if daemon.is_stopped:
                    raise TrialFailed(f"{daemon.name} on the {end} was stopped during the trial (SIGSTOP)")


LOG_KEPT_BYTES = 20_000
"""Number of bytes at the end of a program's output that are kept of a failed trial."""


@contextmanager
def keeping_output(programs: Mapping[str, Daemon], **notes: str) -> Iterator[None]:
    """Attach the output of the programs that offer the traffic to a TrialFailed that the block raises.

    The block may add to `programs`. `notes` are further texts that are attached unchanged.
    """
    try:
        yield
    except TrialFailed as error:
        error.raw = {**notes, **error.raw}
        outputs = {name: each.output(LOG_KEPT_BYTES) for name, each in programs.items()}
        error.raw |= {name: without_keys(without_host_name(output)) for name, output in outputs.items()}
        raise


def path_through(testbed: Testbed, tunnel: Tunnel[Any], direction: Direction) -> TrafficPath:
    """Return the path of a trial through a tunnel that is up."""
    place = place_of(testbed, tunnel, direction)
    ends = testbed.traffic_ends(tunnel.inside)
    return TrafficPath(
        *ends,
        place,
        tunnel.daemons_under_test,
        tunnel.far_daemons,
        tunnel.far_end.host.name,
        tunnel.client_devices,
        tunnel.content,
    )


class TrialMonitor:
    """Observes one test of iperf3 or of the packet engine.

    The measured window opens shortly after data begin to flow. It closes just under `duration_s` after the last moment
    at which the test had surely not begun, so that it ends before the test does.
    """

    def __init__(self, testbed: Testbed, path: TrafficPath, duration_s: float, on_second: OnSecond) -> None:
        self.testbed = testbed
        self.path = path
        self.duration_s = duration_s
        self.on_second = on_second
        self.sender = testbed.server if path.place.direction is Direction.IN else testbed.client
        self.flowing_packets = FLOWING_PACKETS
        self.looks_at_sockets = True
        """True if `ss` runs on the sender half-way through."""
        self.is_connected = True
        """True if the time of the test begins when a connection is established, as with TCP; False if it begins with
        the first packet that is sent, whether it arrives or not."""
        self._misplaced: dict[str, None] = {}
        self._testers: tuple[Daemon, ...] = ()
        self.sockets = ""
        """Output of `ss` on the sender, half-way through."""
        self.quota_files: Collection[Path] = ()
        """Files that count how long a CPU quota stops this process and its programs, the traffic's among them."""
        self._flows = True
        """False if the test's time has passed without `flowing_packets` packets."""
        self._started: tuple[float, Arrivals] | None = None
        """Time before the first program was started [s], and the count at that time; None: when it is accompanied."""
        self._opened: MonitorReading | None = None
        self._closed: MonitorReading | None = None
        self._samplers: dict[str, Sampler] = {}
        """CPU samplers on the hosts that are other machines, by machine."""
        try:
            for host in testbed.hosts:
                daemons = path.router_daemons if host is testbed.router else ()
                if sampler := host.sampler(daemons, duration_s + SAMPLED_S):
                    self._samplers[host.machine] = sampler
        except BaseException:  # nobody else would end the first ones
            self.close()
            raise
        self._reader = testbed.client if testbed.router.machine in self._samplers else testbed.router
        """Host whose CPUs are read during the traffic: the router, or the client if the router is another machine."""
        self._times = [cpu.read_cpu(self._reader, ())]
        """CPU readings: one before the traffic, one when data begin to flow, then about one each second."""

    def wait_for_lead(self) -> None:
        """Wait until LEAD_S have passed since the first reading; the programs of several clients start from now on."""
        time.sleep(max(0.0, self._times[0].clock_s + LEAD_S - time.monotonic()))
        with suppress(TrialFailed):  # a program of the tunnel has ended; `accompany` says which
            self._started = time.monotonic(), read_arrivals(self.testbed, self.path.place)

    def accompany(self, client: Daemon, *others: Daemon) -> None:
        """Observe the sending program until it ends, and the CPUs of the `others` that carry the traffic.

        Raises TrialFailed if it hangs or the tunnel fails.
        """
        self._testers = (client, *others)
        try:
            self._stay_with(client)
        except TrialFailed:
            time.sleep(DYING_S)
            self.path.require_daemons()  # a daemon that ended is the cause of everything else
            raise

    def _stay_with(self, client: Daemon) -> None:
        accompanied_s = time.monotonic()
        started_s, idle = self._started or (accompanied_s, read_arrivals(self.testbed, self.path.place))
        idle_s = started_s
        end_s = started_s + self.duration_s - MARGIN_S
        while (looked_s := time.monotonic()) < end_s:
            if client.wait(DATA_FLOW_POLL_S):
                return  # it failed early, or was refused; its own output says why
            self.path.require_daemons()
            arrived = (read_arrivals(self.testbed, self.path.place) - idle).data_packets
            if arrived >= self.flowing_packets:
                break
            if not arrived:
                idle_s = looked_s
        else:
            self._flows = False
        unseen_s = accompanied_s - started_s
        end_s = (self._begun_s(client, idle_s, unseen_s) or started_s) + self.duration_s - MARGIN_S
        self._times.append(self._read_cpu())
        client.wait(RAMP_S)
        self._opened = latest = self._open(client)
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
                rate_bps = (reading.arrivals - latest.arrivals).data_bytes * 8 / elapsed_s
                self.on_second(rate_bps, self._router_busy_share(latest.cpu, reading.cpu))
                latest = reading
        self._closed = self._close()
        self.quota_files = cgroup.files_of_children()
        self._times.append(self._closed.cpu)
        if not client.wait(SENDER_GRACE_S):
            raise TrialFailed(f"{client.name} did not end {SENDER_GRACE_S:g} s after its test of {self.duration_s:g} s")

    def _begun_s(self, client: Daemon, idle_s: float, unseen_s: float) -> float | None:
        """Return a moment before which the test did not begin, now that data flow [s]; None: unknown.

        Nobody looked for data for `unseen_s`, while the programs of all clients were started.

        A program may take long to start, and its connection long to be made, and the test ends that much later. iperf3
        makes its connection before its test, so that there was no test while no packet had arrived, until `idle_s`. The
        packet engine prints its time when it begins, by the clock of its machine.
        """
        if self.is_connected:
            unnoticed_s = min(self.testbed.slow_start_s, self.duration_s * MOST_UNNOTICED_SHARE)
            return max(idle_s, time.monotonic() - unnoticed_s - unseen_s)
        begun_ns = engine.hello_count(client.output(), "now_ns") if self.sender.machine == THIS_MACHINE else None
        return None if begun_ns is None else begun_ns / 1e9

    def window(self) -> Window:
        """Return the counts of the measured window. Raises TrialFailed if the traffic was too short."""
        if self._opened is None or self._closed is None:
            devices = ", ".join(dict.fromkeys((*self.path.place.client_devices, *self.path.place.server_devices)))
            elsewhere = f": few packets arrived at {devices}, so the data may have taken another way"
            raise TrialFailed("the traffic ended early" + ("" if self._flows else elsewhere))
        before, after = self._opened.cpu, self._closed.cpu
        duration_s = after.clock_s - before.clock_s
        if duration_s < self.duration_s * SHORTEST_WINDOW_SHARE:
            raise TrialFailed(
                f"data flowed for only {duration_s:.1f} s of {self.duration_s:g} s; "
                "on a slow or busy machine, let trials take longer"
            )
        arrived = self._closed.arrivals - self._opened.arrivals
        router, client, server = self.testbed.router, self.testbed.client, self.testbed.server
        remote = {machine: sampler.stop() for machine, sampler in self._samplers.items()}
        testers = cpu.cpus_here(client, server)
        tester_cpus = [cpu.usage(before, after, [one]) for one in testers]
        for host in (client, server):
            if host.machine in remote:
                first, last = sampled_inside(remote[host.machine], before.clock_s, after.clock_s, host.name)
                tester_cpus += [cpu.scaled(cpu.usage(first, last, [one]), duration_s) for one in host.cpus]
        far_share = None
        if self.testbed.has_own_far_end:
            far = self.testbed.far_host
            if far.machine in remote:
                first, last = sampled_inside(remote[far.machine], before.clock_s, after.clock_s, far.name)
                far_share = cpu.usage(first, last, far.cpus).busy_share
            elif not {*far.cpus} & {*testers}:  # else its share would be that of the testers, too
                far_share = cpu.usage(before, after, far.cpus).busy_share
        intervals = router_intervals(self._times, router.cpus) if router.machine not in remote else ()
        router_by_cpu = [cpu.usage(before, after, [one]) for one in router.cpus if router.machine not in remote]
        if sampled := remote.get(router.machine):
            before, after = sampled_inside(sampled, before.clock_s, after.clock_s, router.name)
            router_by_cpu = [cpu.scaled(cpu.usage(before, after, [one]), duration_s) for one in router.cpus]
            intervals = sampled_intervals(sampled.readings, self._times[1].clock_s, router.cpus)
        share = duration_s / (after.clock_s - before.clock_s)
        instructions, lag_s = increase(before.instructions, after.instructions), increase(before.lag_s, after.lag_s)
        spent_s = None
        if before.daemons_s is not None and after.daemons_s is not None:
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
            router_instructions=None if instructions is None else round(instructions * share),
            router_clock_lost_s=None if lag_s is None else lag_s * share,
            router_instruction_shares=instruction_shares(before, after),
        )

    @property
    def sampled(self) -> dict[str, str]:
        """Return the output of the CPU samplers, by machine."""
        return {f"sampled_{machine}": sampler.stop().raw for machine, sampler in self._samplers.items()}

    @property
    def sampling(self) -> tuple[Check, ...]:
        """Return the check of the CPU time that the router's CPU sampler took; empty if the router has no sampler."""
        sampler = self._samplers.get(self.testbed.router.machine)
        cost_s = sampler.stop().cost_s if sampler else None
        return () if cost_s is None else (check_sampling(cost_s, time.monotonic() - self._times[0].clock_s),)

    def close(self) -> None:
        """End the CPU samplers; a second call has no effect."""
        for sampler in self._samplers.values():
            with suppress(CannotHere):  # the sampler on a lost host ends by itself
                sampler.stop()

    @property
    def misplaced(self) -> tuple[str, ...]:
        """Return a sentence for each setting by which the CPU of one host could do the work of another host.

        The settings are read each time that the CPU counters are read.
        """
        return tuple(self._misplaced)

    def _router_busy_share(self, before: CpuReading, after: CpuReading) -> float | None:
        router = self.testbed.router
        return cpu.usage(before, after, router.cpus).busy_share if self._reader is router else None

    def _read(self) -> MonitorReading:
        return MonitorReading(self._read_cpu(), read_arrivals(self.testbed, self.path.place))

    def _open(self, client: Daemon) -> MonitorReading:
        """Open the measured window, and return its first reading.

        A virtual router that has just begun to work may have to catch up first: it then executes more instructions per
        second than its speed. The window waits for it, but not long: if the router stays behind, a check reports it.
        """
        for _ in range(CATCH_UP_LOOKS):
            reading = self._read()
            lag_s = max((sampler.mark_open() for sampler in self._samplers.values()), default=0.0)
            if lag_s <= OPENING_LAG_S or client.wait(RAMP_S):
                break
        return reading

    def _close(self) -> MonitorReading:
        """Close the measured window, and return its last reading."""
        reading = self._read()
        for sampler in self._samplers.values():
            sampler.mark_close()
        return reading

    def _read_cpu(self) -> CpuReading:
        self._misplaced.update(dict.fromkeys(self.testbed.misplaced(self.path.router_daemons, self._testers)))
        found = cpu.read_cpu(self._reader, self.path.router_daemons if self._reader is self.testbed.router else ())
        return without_polling(found, self.testbed.pollers)


def increase(before: float | None, after: float | None) -> float | None:
    """Return the increase of a count; None: it was not read."""
    return None if before is None or after is None else after - before


def instruction_shares(before: CpuReading, after: CpuReading) -> dict[str, float]:
    """Return the share of the instructions between two readings at each place; empty if they were not counted."""
    if before.instructions_by_place is None or after.instructions_by_place is None:
        return {}
    return shares(before.instructions_by_place, after.instructions_by_place)


def sampled_inside(
    sampled: SamplerOutput, opened_s: float, closed_s: float, name: str
) -> tuple[CpuReading, CpuReading]:
    """Return the CPU samples at the begin and the end of a window, or else the first and the last one inside it.

    Raises TrialFailed if there are fewer than two.
    """
    if len(sampled.marked) > 1:
        return sampled.marked[0], sampled.marked[-1]
    inside = [each for each in sampled.readings if opened_s + SYNC_S <= each.clock_s <= closed_s - SYNC_S]
    if len(inside) < 2:
        raise TrialFailed(
            f"the {name}'s CPU was read {len(inside)} times within the traffic, but two readings are needed. "
            "It is read once a second: let trials take 5 s or more"
        )
    return inside[0], inside[-1]


def sampled_intervals(readings: Sequence[CpuReading], start_s: float, cpus: Sequence[int]) -> tuple[CpuInterval, ...]:
    """Return the intervals between CPU samples, from the last sample before data began to flow at `start_s`."""
    first = max((number for number, each in enumerate(readings) if each.clock_s <= start_s), default=0)
    return _intervals(readings[first:], start_s, cpus)


def router_intervals(times: Sequence[CpuReading], cpus: Sequence[int]) -> tuple[CpuInterval, ...]:
    """Return the intervals between CPU readings; data began to flow at the second reading.

    An interval below SHORTEST_INTERVAL_S is joined with the next one, and the last with the one before it.
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
    return _intervals(readings, start_s, cpus)


def _intervals(readings: Sequence[CpuReading], start_s: float, cpus: Sequence[int]) -> tuple[CpuInterval, ...]:
    return tuple(
        CpuInterval(before.clock_s - start_s, after.clock_s - start_s, cpu.usage(before, after, cpus).busy_s)
        for before, after in pairwise(readings)
    )
