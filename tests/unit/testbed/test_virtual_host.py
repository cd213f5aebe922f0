"""The busy time of a virtual machine is read from its instructions or from QEMU's threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import LocalHost
from tunnelbench.host.parsing import UnexpectedOutput
from tunnelbench.host.ssh import LinkLost
from tunnelbench.measure.cpu import usage
from tunnelbench.model.testbed import HostAccess
from tunnelbench.qemu.fixed_speed import MachineWork
from tunnelbench.qemu.machine import VirtualMachine
from tunnelbench.qemu.speed_trial import SPEED_TRIAL_S
from tunnelbench.testbed.virtual_host import Account, VirtualHost, WorkSampler, cpu_readings, parse_account

STAT = """\
cpu  600 0 300 5000 0 0 100 0 0 0
cpu0 600 0 300 5000 0 0 100 0 0 0
intr 5
4711 (open vpn) S 1 4711 4711 0 -1 4194304 300 0 0 0 150 50 0 0 20 0 1 0 900 1 1
4712 (tincd) R 1 4712 4712 0 -1 4194304 300 0 0 0 7 3 0 0 20 0 1 0 900 1 1
"""


IDLE = Account(1.0, 2.0, 3.0, {})
WORKS = [
    (MachineWork(clock_s, busy_s, round(busy_s * 125e6), lag_s=0.0), None)
    for clock_s, busy_s in ((100.0, 10.0), (101.0, 10.4), (102.0, 11.4), (103.0, 11.4))
]


def test_the_busy_time_of_a_router_is_that_of_its_instructions() -> None:
    readings = list(cpu_readings(WORKS, IDLE, IDLE))
    busy = [usage(before, after, [0]).busy_share for before, after in pairwise(readings)]
    assert busy == pytest.approx([0.4, 1.0, 0.0])


def test_the_split_is_the_guests_own_of_the_time_that_it_really_had() -> None:
    readings = list(cpu_readings(WORKS, IDLE, Account(1.3, 2.1, 3.6, {})))
    spent = usage(readings[0], readings[-1], [0])
    assert (spent.user_s, spent.system_s, spent.softirq_s) == pytest.approx((0.42, 0.14, 0.84))
    assert spent.busy_s == pytest.approx(1.4)
    assert {each.daemons_s is None for each in readings} == {True}


def test_a_program_has_its_share_of_the_routers_work() -> None:
    """The guest's own times began earlier and ended later: the program had 2.1 of 3 s, and so 70 % of each work."""
    before, after = Account(1, 2, 3, {"openvpn": 5.0}), Account(3, 2.5, 3.5, {"openvpn": 7.1})
    spent = [each.daemons_s and each.daemons_s["openvpn"] for each in cpu_readings(WORKS, before, after)]
    assert spent == pytest.approx([0.0, 0.28, 0.98, 0.98])


def test_a_router_that_counted_no_time_has_programs_without_time() -> None:
    idle = Account(1, 2, 3, {"openvpn": 5.0})
    assert [each.daemons_s for each in cpu_readings(WORKS, idle, idle)] == [{"openvpn": 0.0}] * 4


def test_what_a_guest_says_of_its_programs_is_read_whatever_their_names_hold() -> None:
    found = parse_account(STAT, {4711: "openvpn", 4712: "tincd"})
    assert found == Account(6.0, 3.0, 1.0, {"openvpn": 2.0, "tincd": 0.1})


def test_a_program_that_has_ended_has_used_nothing_more() -> None:
    assert parse_account(STAT, {4711: "a", 4712: "b", 9: "gone"}).programs_s["gone"] == 0.0


class SlowHost(VirtualHost):
    """A virtual machine whose clock is behind, and gains so much in each second of work."""

    def __init__(self, tmp_path: Path, lag_s: float, gain_s: float) -> None:
        super().__init__("router", HostAccess("r"), "run", tmp_path, LocalHost("here", tmp_path, ()), emulated_on=(0,))
        self.lag_s = lag_s
        self.gain_s = gain_s
        self.seconds = 0
        self.emulator = cast("VirtualMachine", SimpleNamespace(speed_mips=125.0, work=self.work))

    def work(self) -> MachineWork:
        return MachineWork(0.0, 0.0, 0, self.lag_s)

    def run(self, argv: Sequence[str], **_: Any) -> Any:
        assert argv[:2] == ("timeout", "1")
        self.seconds += 1
        self.lag_s = max(0.0, self.lag_s - self.gain_s)


@pytest.mark.parametrize(
    ("lag_s", "gain_s", "seconds"),
    [(0.02, 0.5, 0), (0.03, 0.5, 1), (0.3, 0.5, 1), (2.0, 0.5, 4), (9.0, 0.0, 1), (9.0, -1.0, 1)],
)
def test_a_router_works_until_its_clock_is_right_or_gains_nothing(
    tmp_path: Path, lag_s: float, gain_s: float, seconds: int
) -> None:
    host = SlowHost(tmp_path, lag_s, gain_s)
    assert host.emulator is not None
    host.catch_up(host.emulator)
    assert host.seconds == seconds


class SampledHost(SlowHost):
    """A virtual machine of fixed speed that is sampled."""

    def account(self, daemons: Sequence[Daemon]) -> Account:
        return IDLE


def sampled(tmp_path: Path, work: Callable[[], MachineWork], *, is_running: bool = True) -> WorkSampler:
    machine = SimpleNamespace(
        work=work, instruction_counts=None, last_words=lambda: "its last words", is_running=is_running
    )
    host = SampledHost(tmp_path, 0.0, 0.0)
    host.emulator = cast("VirtualMachine", machine)
    return WorkSampler(host, host.emulator, ())


def test_a_mark_is_a_reading_at_once(tmp_path: Path) -> None:
    works = (MachineWork(100.0 + number, number * 0.5, number * 10**8, number * 0.1) for number in range(100))
    sampler = sampled(tmp_path, lambda: next(works))
    assert sampler.mark_open() == pytest.approx(0.1)
    assert sampler.mark_open() == pytest.approx(0.2)  # it replaces the first one
    sampler.mark_close()
    found = sampler.stop()
    assert [reading.instructions for reading in found.marked] == [2 * 10**8, 3 * 10**8]
    assert all(reading in found.readings for reading in found.marked)


def test_a_machine_that_ends_during_a_trial_is_an_error_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.testbed.virtual_host.WORK_INTERVAL_S", 0.001)
    works = iter([MachineWork(1.0, 0.0, 0, 0.0)])
    has_failed = threading.Event()

    def work() -> MachineWork:
        for each in works:
            return each
        has_failed.set()
        raise UnexpectedOutput("the answer of QEMU's monitor", ValueError("no time"))

    sampler = sampled(tmp_path, work)
    assert has_failed.wait(10)
    with pytest.raises(UnexpectedOutput, match="the answer of QEMU's monitor"):
        sampler.stop()


def test_a_machine_that_does_not_answer_is_not_said_to_have_ended(tmp_path: Path) -> None:
    def silent() -> MachineWork:
        raise TimeoutError

    with pytest.raises(LinkLost, match="the virtual router does not answer; its last words"):
        sampled(tmp_path, silent)


class BusyHost(SlowHost):
    """A virtual machine of fixed speed whose readings are given."""

    def shell(self, script: str, *_arguments: str, **_: Any) -> str:
        assert script.endswith("&")
        self.seconds = int(script.split()[1])  # timeout SECONDS
        return ""


def test_a_speed_is_tried_with_a_busy_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.qemu.speed_trial.time.sleep", lambda _: None)
    host = BusyHost(tmp_path, 0.0, 0.0)
    works = iter([MachineWork(1.0, 0.0, 0, 0.0), MachineWork(3.0, 1.6, 200_000_000, 0.4)])
    host.emulator = cast(
        "VirtualMachine", SimpleNamespace(speed_mips=125.0, work=lambda: next(works), cpu_s=lambda: 0.0)
    )
    found = host.try_speed()
    assert found is not None
    assert (found.executed_mips, found.held_mips) == (100.0, 31.25)
    assert host.seconds > SPEED_TRIAL_S  # the router is busy for the whole trial
    host.emulator = cast("VirtualMachine", SimpleNamespace(speed_mips=None))
    assert host.try_speed() is None


def test_a_machine_that_is_killed_while_its_speed_is_tried_is_reported(tmp_path: Path) -> None:
    def ended() -> MachineWork:
        raise ConnectionResetError("QEMU has ended")

    host = BusyHost(tmp_path, 0.0, 0.0)
    words = "the last line on its console is: Killed"
    machine = SimpleNamespace(
        speed_mips=125.0, work=ended, cpu_s=lambda: 0.0, last_words=lambda: words, is_running=False
    )
    host.emulator = cast("VirtualMachine", machine)
    with pytest.raises(LinkLost, match="the virtual router has ended; the last line on its console is: Killed"):
        host.try_speed()
