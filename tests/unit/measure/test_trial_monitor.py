"""The monitor of a trial, on a simulated clock and a simulated path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.tunnel.fakes import FakeDaemon

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import THIS_MACHINE, CpuReading, SamplerOutput
from tunnelbench.host.procfs import CpuTimes, DeviceCounters
from tunnelbench.measure import trial_monitor
from tunnelbench.measure.counters import CountingPoints
from tunnelbench.measure.trial_monitor import TrafficPath, TrialMonitor, keeping_output
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.testbed.base import SLOW_START_S, Testbed
from tunnelbench.traffic.engine import PROTOCOL

PLACE = CountingPoints(Direction.OUT, ("lan",), ("tun0",), "wan")
PPS = 10_000
SOCKETS = "0 0 198.18.1.2:40000 198.18.4.1:5201 cubic mss:1448 bytes_sent:1000\n"


class Host:
    """One end of the path: its counters follow from the clock."""

    def __init__(self, path: SimulatedPath, cpus: tuple[int, ...]) -> None:
        self.path = path
        self.cpus = self.cpus_here = cpus
        self.commands: list[list[str]] = []
        self.machine = THIS_MACHINE

    def sampler(self, daemons: Any, limit_s: float) -> None:
        """Return nothing, because the CPUs of this machine are read without a sampler."""

    def run(self, argv: list[str]) -> SimpleNamespace:
        self.commands.append(argv)
        return SimpleNamespace(stdout=SOCKETS)


class SimulatedPath:
    """Traffic that begins at `flows_from_s`, and an iperf3 that ends at `ends_at_s`."""

    slow_start_s = SLOW_START_S

    def __init__(self, *, flows_from_s: float = 0.02, ends_at_s: float = 10.1, until_s: float = 99.0) -> None:
        self.clock_s = 0.0
        self.flows_from_s = flows_from_s
        self.until_s = until_s
        self.ends_at_s = ends_at_s
        self.device_gone_at_s = 99.0
        self.moves_at_s = 99.0
        self.client = Host(self, (0,))
        self.router = Host(self, (1,))
        self.server = Host(self, (0, 2))
        self.far_host = self.server
        self.router_daemon = FakeDaemon("went well\nthen died\n", "openvpn")
        self.server_daemon = FakeDaemon("", "openvpn")
        self.dies_at_s: dict[FakeDaemon, float] = {}
        self.rates: list[float] = []
        self.busy_shares: list[float | None] = []
        self.pollers: dict[int, Any] = {}
        self.printed = ""

    @property
    def hosts(self) -> tuple[Host, ...]:
        return tuple(dict.fromkeys((self.client, self.router, self.far_host, self.server)))

    @property
    def has_own_far_end(self) -> bool:
        return self.far_host is not self.server

    def on_second(self, rate_bps: float, router_busy_share: float | None) -> None:
        self.rates.append(rate_bps)
        self.busy_shares.append(router_busy_share)

    def advance(self, seconds: float) -> None:
        self.clock_s += seconds
        for daemon, at_s in self.dies_at_s.items():
            daemon.is_running = self.clock_s < at_s
            daemon.ended_at_s = at_s

    def wait(self, timeout_s: float) -> bool:
        """iperf3's client."""
        self.advance(max(0.0, min(timeout_s, self.ends_at_s - self.clock_s)) or 1e-4)
        return self.clock_s >= self.ends_at_s

    def read_host(self, host: Host) -> Any:
        packets = round(PPS * max(0.0, min(self.clock_s, self.until_s) - self.flows_from_s))
        devices = {"lan": DeviceCounters(packets // 2 * 66, packets // 2, 0, 0, 0, 0)}
        if self.clock_s < self.device_gone_at_s:
            devices["tun0"] = DeviceCounters(packets * 1500, packets, 0, 0, 0, 0)
        return SimpleNamespace(devices=devices, snmp={"Icmp.InEchoReps": 0})

    def read_cpu(self, host: Host, daemons: Any) -> CpuReading:
        busy = {0: 0.5, 1: 0.25, 2: 0.75}
        times = {cpu: CpuTimes(0, 0, self.clock_s * (1 - share), 0, 0) for cpu, share in busy.items()}
        spent = {"tund": self.clock_s * 0.15, "helper": self.clock_s * 0.05} if daemons else None
        return CpuReading(self.clock_s, times, spent, "ticks" if daemons else "")

    def misplaced(self, daemons: Any, testers: Any) -> list[str]:
        del testers
        away = self.moves_at_s <= self.clock_s < self.moves_at_s + 2
        return ["tund on the router may run on CPU 0"] if daemons and away else []

    def accompany(
        self,
        duration_s: float = 10.0,
        *,
        with_daemons: bool = True,
        is_connected: bool = True,
        starting_s: float | None = None,
    ) -> TrialMonitor:
        """Accompany one trial; `starting_s`: the programs of several clients took so long to start."""
        ends = ([self.router_daemon.as_daemon], [self.server_daemon.as_daemon]) if with_daemons else ((), ())
        path = TrafficPath("198.18.1.2", "198.18.4.1", PLACE, *ends)
        found = TrialMonitor(cast("Testbed", self), path, duration_s, self.on_second)
        found.is_connected = is_connected
        if starting_s is not None:
            found.wait_for_lead()
            self.advance(starting_s)
        program = SimpleNamespace(wait=self.wait, name="iperf3", output=lambda: self.printed)
        found.accompany(cast("Daemon", program))
        return found


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> SimulatedPath:
    simulated = SimulatedPath()
    monkeypatch.setattr("tunnelbench.measure.counters.read_host", simulated.read_host)
    monkeypatch.setattr("tunnelbench.measure.cpu.read_cpu", simulated.read_cpu)
    monkeypatch.setattr(
        trial_monitor, "time", SimpleNamespace(monotonic=lambda: simulated.clock_s, sleep=simulated.advance)
    )
    return simulated


def test_the_window_lies_inside_the_traffic_and_its_rates_are_the_traffics(path: SimulatedPath) -> None:
    window = path.accompany().window()
    assert 9.5 < window.duration_s < 10
    assert window.data_packets / window.duration_s == pytest.approx(PPS, rel=0.01)
    assert window.ack_packets / window.duration_s == pytest.approx(PPS / 2, rel=0.01)


@pytest.mark.parametrize("at_s", [4.0, 99.0])
def test_a_program_that_moves_away_and_comes_back_is_seen_once(path: SimulatedPath, at_s: float) -> None:
    path.moves_at_s = at_s
    assert path.accompany().misplaced == (("tund on the router may run on CPU 0",) if at_s < path.ends_at_s else ())


def test_cpu_shares_are_those_of_the_window(path: SimulatedPath) -> None:
    window = path.accompany().window()
    assert window.router_cpu.busy_share == pytest.approx(0.25)
    assert window.tester_cpu.cpus == (0, 2)
    assert window.tester_cpu.busy_share == pytest.approx(0.625)
    assert window.busiest_tester_share == pytest.approx(0.75)
    assert window.daemon_cpu_s == pytest.approx(window.duration_s * 0.2)
    assert window.program_cpu_s == pytest.approx({"tund": window.duration_s * 0.15, "helper": window.duration_s * 0.05})
    assert window.daemon_cpu_method == "ticks"
    assert [usage.cpus for usage in window.router_by_cpu] == [(cpu,) for cpu in window.router_cpu.cpus]
    assert sum(usage.busy_s for usage in window.router_by_cpu) == pytest.approx(window.router_cpu.busy_s)


class FarEnd(Host):
    """A machine of its own, busy for most of its time."""

    name = machine = "far"

    def __init__(self, path: SimulatedPath) -> None:
        super().__init__(path, (0,))
        self.cpus_here = ()
        self.machine = "far"

    def sampler(self, daemons: Any, limit_s: float) -> Any:
        readings = tuple(
            CpuReading(clock_s, {0: CpuTimes(0, 0, clock_s * 0.1, 0, 0)}, None, "") for clock_s in range(11)
        )
        return SimpleNamespace(
            mark_open=lambda: 0.0, mark_close=lambda: None, stop=lambda: SamplerOutput(readings, 0.0, "what it read")
        )


def test_a_far_end_of_its_own_counts_among_those_that_may_be_the_limit(path: SimulatedPath) -> None:
    path.far_host = FarEnd(path)
    found = path.accompany()
    window = found.window()
    assert window.far_end_busy_share == pytest.approx(0.9)
    assert window.busiest_tester_share == pytest.approx(0.9)
    assert window.tester_cpu.cpus == (0, 2)
    assert found.sampled == {"sampled_far": "what it read"}


class FixedSpeedRouter(FarEnd):
    """A virtual machine that executes 100 million instructions in a second, and whose clock loses 1 % of the time."""

    def sampler(self, daemons: Any, limit_s: float) -> Any:
        readings = tuple(
            CpuReading(second, {0: CpuTimes(0, 0, second * 0.2, 0, 0)}, None, "", 70 + second * 10**8, second * 0.01)
            for second in range(11)
        )
        return SimpleNamespace(
            mark_open=lambda: 0.0, mark_close=lambda: None, stop=lambda: SamplerOutput(readings, 0.0, "")
        )


class MarkedRouter(FarEnd):
    """A virtual machine that is read at both ends of the window, between which its clock loses 0.4 s."""

    def __init__(self, path: SimulatedPath, lags_s: Sequence[float]) -> None:
        super().__init__(path)
        self.lags_s = iter(lags_s)
        self.opened_at_s: list[float] = []

    def sampler(self, daemons: Any, limit_s: float) -> Any:
        marked: list[CpuReading] = []

        def read(lag_s: float) -> None:
            clock_s = self.path.clock_s
            times = {0: CpuTimes(0, 0, 0, clock_s, 0)}
            marked.append(CpuReading(clock_s, times, None, "", round(clock_s * 1e8), lag_s))

        def mark_open() -> float:
            marked.clear()
            lag_s = next(self.lags_s)
            self.opened_at_s.append(self.path.clock_s)
            read(lag_s)
            return lag_s

        def mark_close() -> None:
            read(marked[0].lag_s + 0.4)  # type: ignore[operator]

        stop = partial(SamplerOutput, (), 0.0, "")
        return SimpleNamespace(mark_open=mark_open, mark_close=mark_close, stop=lambda: stop(tuple(marked)))


@pytest.mark.parametrize(
    ("lags_s", "opened_at"),
    [([0.01], 0), ([0.07, 0.03, 0.015], 2), ([0.5] * 4, 3)],
    ids=["right", "catches up", "stays behind"],
)
def test_a_router_that_can_be_read_at_once_is_read_at_both_ends_of_the_window(
    path: SimulatedPath, lags_s: list[float], opened_at: int
) -> None:
    path.router = router = MarkedRouter(path, lags_s)
    window = path.accompany().window()
    assert len(router.opened_at_s) == len(lags_s) == opened_at + 1
    assert window.router_clock_lost_s == pytest.approx(0.4, rel=0.01)
    assert window.router_instructions == pytest.approx(window.duration_s * 1e8, rel=0.01)


def test_a_sampler_is_ended_if_the_next_one_cannot_be_started(path: SimulatedPath) -> None:
    class Refusing(FarEnd):
        def sampler(self, daemons: Any, limit_s: float) -> Any:
            raise CannotHere("no sampler")

    ended = []
    path.router = FarEnd(path)
    path.router.sampler = lambda *_: SimpleNamespace(stop=lambda: ended.append(1))  # type: ignore[method-assign]
    path.far_host = Refusing(path)
    with pytest.raises(CannotHere, match="no sampler"):
        path.accompany()
    assert ended == [1]


def test_instructions_of_a_router_of_fixed_speed_are_those_of_the_window(path: SimulatedPath) -> None:
    path.router = FixedSpeedRouter(path)
    window = path.accompany().window()
    assert window.router_instructions == pytest.approx(window.duration_s * 1e8, abs=1)
    assert window.router_clock_lost_s == pytest.approx(window.duration_s * 0.01)


def test_the_routers_cpu_over_time_covers_the_traffic_from_before_until_after(path: SimulatedPath) -> None:
    path.flows_from_s, path.ends_at_s = 0.5, 10.6
    window = path.accompany().window()
    before, *during = window.intervals
    assert before.start_s == pytest.approx(-0.5, abs=0.02)
    assert before.end_s == 0
    assert [one.end_s for one in (before, *during)][:-1] == [one.start_s for one in during]
    assert 9 <= len(during) <= 11
    shares = [one.busy_s / (one.end_s - one.start_s) / len(window.router_cpu.cpus) for one in window.intervals]
    assert shares == pytest.approx([0.25] * len(shares))


def test_the_router_is_watched_for_a_moment_before_the_traffic_starts(path: SimulatedPath) -> None:
    waiting = TrialMonitor(cast("Testbed", path), TrafficPath("a", "b", PLACE), 10.0, path.on_second)
    path.clock_s = 0.05
    waiting.wait_for_lead()
    assert path.clock_s == pytest.approx(trial_monitor.LEAD_S)
    assert trial_monitor.LEAD_S > trial_monitor.SHORTEST_INTERVAL_S
    path.clock_s = 1.0
    waiting.wait_for_lead()
    assert path.clock_s == 1.0


def test_a_part_that_is_too_short_to_be_counted_is_taken_together_with_what_follows(path: SimulatedPath) -> None:
    path.flows_from_s = 0.01
    first, *rest = path.accompany().window().intervals
    assert first.start_s == 0
    assert all(one.end_s - one.start_s >= trial_monitor.SHORTEST_INTERVAL_S for one in (first, *rest))


def test_a_tunnel_of_the_kernel_has_no_daemons_time(path: SimulatedPath) -> None:
    window = path.accompany(with_daemons=False).window()
    assert (window.daemon_cpu_s, window.daemon_cpu_method) == (None, "")


def test_the_rate_is_reported_about_once_a_second(path: SimulatedPath) -> None:
    path.accompany()
    assert 9 <= len(path.rates) <= 12
    assert path.rates == pytest.approx([PPS * 1500 * 8] * len(path.rates), rel=0.01)
    assert path.busy_shares == pytest.approx([0.25] * len(path.rates))


def test_the_senders_sockets_are_looked_at_once_half_way_through(path: SimulatedPath) -> None:
    assert path.accompany().sockets == SOCKETS
    assert path.client.commands == [["ss", "-tinHO", "state", "established"]]
    assert path.server.commands == []


def test_a_client_that_ends_at_once_is_left_to_its_own_words(path: SimulatedPath) -> None:
    path.flows_from_s, path.ends_at_s = 99, 0.05
    with pytest.raises(TrialFailed, match="the traffic ended early"):
        path.accompany().window()


def test_data_that_never_arrive_may_have_taken_another_way(path: SimulatedPath) -> None:
    path.flows_from_s = 99
    with pytest.raises(TrialFailed, match=r"few packets arrived at lan, tun0, so the data may have taken another way"):
        path.accompany().window()


def test_a_client_that_ends_half_way_gives_no_window(path: SimulatedPath) -> None:
    path.ends_at_s = 5.0
    with pytest.raises(TrialFailed, match="the traffic ended early"):
        path.accompany().window()


def test_a_test_that_was_slow_to_set_up_is_watched_to_its_own_end(path: SimulatedPath) -> None:
    path.flows_from_s, path.ends_at_s = 5.0, 15.1
    window = path.accompany().window()
    assert 9 < window.duration_s < 10
    assert window.data_packets / window.duration_s == pytest.approx(PPS, rel=0.01)


def test_a_program_that_starts_late_has_its_whole_window_on_a_slow_machine(path: SimulatedPath) -> None:
    path.slow_start_s, path.flows_from_s, path.ends_at_s = 4.0, 3.0, 13.1
    window = path.accompany().window()
    assert 9.7 < window.duration_s < 9.95


def test_the_window_ends_before_the_first_of_many_clients_does(path: SimulatedPath) -> None:
    path.flows_from_s = trial_monitor.LEAD_S + 0.02
    path.ends_at_s = path.flows_from_s + 10
    window = path.accompany(starting_s=2.0).window()
    assert 7.5 < window.duration_s < 8
    assert window.data_packets / window.duration_s == pytest.approx(PPS, rel=0.01)


@pytest.mark.parametrize(
    ("printed", "longest_s"), [('{"type":"hello","protocol":%d,"now_ns":3000000000}\n', 9.95), ("", 6.95)]
)
def test_an_engine_that_starts_late_is_watched_from_the_time_that_it_prints(
    path: SimulatedPath, printed: str, longest_s: float
) -> None:
    path.flows_from_s, path.ends_at_s = 3.0, 13.1
    path.printed = printed and printed % PROTOCOL
    window = path.accompany(is_connected=False).window()
    assert longest_s - 0.25 < window.duration_s < longest_s


def test_an_engine_that_is_accompanied_late_is_watched_to_its_own_end(path: SimulatedPath) -> None:
    path.advance(1.0)
    path.ends_at_s = 10.02
    path.printed = f'{{"type":"hello","protocol":{PROTOCOL},"now_ns":10000000}}\n'
    assert 8.5 < path.accompany(is_connected=False).window().duration_s < 9


def test_data_that_begin_to_flow_too_late_give_no_window(path: SimulatedPath) -> None:
    path.flows_from_s = 5.0
    with pytest.raises(TrialFailed, match="the traffic ended early"):
        path.accompany().window()


def test_a_test_that_does_not_end_fails(path: SimulatedPath) -> None:
    path.ends_at_s = 60.0
    with pytest.raises(TrialFailed, match="iperf3 did not end 20 s after its test of 10 s"):
        path.accompany()
    assert path.clock_s < 32


@pytest.mark.parametrize("at_s", [0.01, 0.1, 3.3, 9.2, 9.94, 9.96, 12.0])
def test_a_daemon_that_dies_at_any_time_fails_the_trial_and_is_named(path: SimulatedPath, at_s: float) -> None:
    path.dies_at_s = {path.router_daemon: at_s}
    path.until_s = at_s
    path.ends_at_s = 99
    with pytest.raises(TrialFailed, match="openvpn on the router ended during the trial; last: went well / then died"):
        path.accompany()


def test_all_daemons_that_end_during_a_trial_are_named_in_the_order_of_death(path: SimulatedPath) -> None:
    path.dies_at_s = {path.router_daemon: 3.35, path.server_daemon: 3.3}
    path.until_s = 3.3
    path.ends_at_s = 99
    said = (
        "openvpn on the server ended during the trial; last: no output; "
        "openvpn on the router ended 0.05 s later; last: went well / then died"
    )
    with pytest.raises(TrialFailed) as caught:
        path.accompany()
    assert str(caught.value) == said


@pytest.mark.parametrize("at_s", [0.005, 0.06, 3.3, 9.949])
@pytest.mark.parametrize("lingers_s", [0.0, 0.1])
def test_a_servers_daemon_that_takes_its_device_along_is_named(
    path: SimulatedPath, at_s: float, lingers_s: float
) -> None:
    path.dies_at_s = {path.server_daemon: at_s + lingers_s}
    path.device_gone_at_s = path.until_s = at_s
    path.ends_at_s = 99
    with pytest.raises(TrialFailed, match="openvpn on the server ended during the trial; last: no output"):
        path.accompany()


def test_sockets_that_are_not_there_are_not_asked_for_without_end(
    path: SimulatedPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.measure.test_trial_monitor.SOCKETS", "")
    path.accompany()
    assert len(path.client.commands) == 1


@pytest.mark.parametrize("end", ["router", "server"])
def test_a_daemon_that_somebody_stopped_is_named(path: SimulatedPath, end: str) -> None:
    getattr(path, f"{end}_daemon").is_stopped = True
    with pytest.raises(TrialFailed, match=f"openvpn on the {end} was stopped during the trial"):
        path.accompany()


def test_a_failed_trial_keeps_the_output_of_its_programs_without_keys() -> None:
    program = FakeDaemon(f"peer key {'A1b2' * 10}abc=\n", "iperf3").as_daemon
    with pytest.raises(TrialFailed) as failed, keeping_output({"iperf3_client": program}):
        raise TrialFailed("it hung")
    assert failed.value.raw == {"iperf3_client": "peer key [key]\n"}
