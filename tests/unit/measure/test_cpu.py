"""CPU time around a trial."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost

from tunnelbench.host.host import CpuReading
from tunnelbench.host.procfs import CpuTimes, ProcessCpu
from tunnelbench.measure import cpu
from tunnelbench.measure.cpu import read_cpu, usage, wait_for_quiet

EARLIER = CpuReading(100.0, {0: CpuTimes(1, 2, 30, 4, 5), 1: CpuTimes(1, 1, 40, 1, 1)}, None, "")
LATER = CpuReading(110.0, {0: CpuTimes(2, 4, 36, 5, 5), 1: CpuTimes(1, 1, 50, 1, 1)}, None, "")


def test_usage_is_the_difference_of_two_readings_on_the_cpus_asked_for() -> None:
    found = usage(EARLIER, LATER, [0])
    assert found.cpus == (0,)
    assert (found.wall_s, found.idle_s, found.user_s, found.system_s, found.softirq_s, found.steal_s) == (
        10, 6, 1, 2, 1, 0,
    )  # fmt: skip


def test_busy_is_wall_less_idle_though_ticks_saw_nothing() -> None:
    assert usage(EARLIER, LATER, [0]).busy_s == 4
    assert usage(EARLIER, LATER, [0, 1]).busy_s == 4
    assert usage(EARLIER, LATER, [0, 1]).busy_share == 0.2
    assert usage(EARLIER, LATER, [1]).busy_share == 0


def test_a_reading_of_this_machine_has_its_cpus_and_the_time_of_its_daemons(tmp_path: Path) -> None:
    daemon = FakeDaemon("")
    daemon.pid = 1
    host = FakeHost("router", tmp_path)
    found = read_cpu(host, [daemon.as_daemon])
    assert 0 in found.cpus
    assert found.clock_s == pytest.approx(time.monotonic(), abs=5)
    assert list(found.daemons_s or ()) == [daemon.name]
    assert found.daemons_method in ("schedstat", "ticks")


def test_without_daemons_there_is_no_time_of_theirs(tmp_path: Path) -> None:
    found = read_cpu(FakeHost("router", tmp_path), [])
    assert (found.daemons_s, found.daemons_method) == (None, "")


class Strangers:
    """A machine on which somebody works for a while: `all_processes`, `sleep` and the clock of the module."""

    def __init__(self, busy_s: float, share: float) -> None:
        self.clock_s = 0.0
        self.busy_s = busy_s
        self.share = share

    def all_processes(self) -> dict[int, ProcessCpu]:
        return {7: ProcessCpu(1, min(self.clock_s, self.busy_s) * self.share, 0.0, 0, "cc1")}

    def sleep(self, seconds: float) -> None:
        self.clock_s += seconds

    def wait(self, monkeypatch: pytest.MonkeyPatch, limit_s: float) -> float:
        monkeypatch.setattr(cpu, "all_processes", self.all_processes)
        monkeypatch.setattr(cpu, "time", SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.clock_s))
        return wait_for_quiet([0], limit_s)


def test_where_it_is_quiet_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Strangers(0, 0).wait(monkeypatch, 30) == 0
    assert Strangers(60, 0.04).wait(monkeypatch, 30) == 0


def test_a_trial_waits_until_strangers_have_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Strangers(busy_s=4, share=1.0).wait(monkeypatch, 30) == pytest.approx(4, abs=0.3)


def test_the_wait_for_quiet_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Strangers(busy_s=1000, share=0.06).wait(monkeypatch, 30) == pytest.approx(30, abs=0.3)
