"""A short trial says if this machine holds the speed of a virtual router, and which speed it holds."""

from __future__ import annotations

import pytest

from tunnelbench.qemu.fixed_speed import MachineWork
from tunnelbench.qemu.speed_trial import SpeedTrial, judge_speed, try_speed


def trial(executed_mips: float, lost_s: float, used_s: float = 1.2) -> SpeedTrial:
    """A trial of two seconds at 125 MIPS."""
    before = MachineWork(10.0, 1.0, 1_000_000, 0.5)
    return judge_speed(
        before, MachineWork(12.0, 2.0, 1_000_000 + round(executed_mips * 2e6), 0.5 + lost_s), 125.0, used_s
    )


@pytest.mark.parametrize(
    ("executed_mips", "lost_s", "held_mips"),
    [
        (124.5, 0.01, 125.0),
        (180.0, -0.9, 125.0),  # it catches up
        (125.0, 0.04, 62.5),  # not quite held
        (100.0, 0.4, 31.25),  # without headroom for 62.5
        (63.0, 1.0, 31.25),
        (1.0, 1.9, None),
    ],
)
def test_the_speed_that_a_machine_holds(executed_mips: float, lost_s: float, held_mips: float | None) -> None:
    found = trial(executed_mips, lost_s)
    assert found.held_mips == held_mips
    assert found.is_held == (held_mips == 125.0)


def test_a_speed_that_is_held_needs_no_advice() -> None:
    assert trial(125, 0, used_s=0.8).result() == "this machine holds 125 MIPS with 40% of a CPU"
    assert not trial(125, 0, used_s=0.8).advice("tunnelbench run quick --on malta")


def test_a_speed_that_leaves_less_than_half_a_cpu_is_a_warning() -> None:
    found = trial(125, 0, used_s=1.2)
    assert found.is_held
    assert found.text("tunnelbench run quick --on malta") == (
        "warning: this machine holds 125 MIPS with 60% of a CPU, so that packets may be too much for it; "
        "end other programs on this machine, or set speed_mips = 62.5 in a testbed file, or for one run: "
        "tunnelbench run quick --on malta --set speed_mips=62.5"
    )


def test_a_speed_that_is_not_held_is_reported_with_the_command_that_sets_another() -> None:
    found = trial(100, 0.4)
    assert found.result() == "this machine emulated 100 million instructions per second, not 125: it holds 31.25 MIPS"
    assert found.advice("tunnelbench run quick --on malta") == (
        "end other programs on this machine, or set speed_mips = 31.25 in a testbed file, or for one run: "
        "tunnelbench run quick --on malta --set speed_mips=31.25"
    )
    assert found.text("x").startswith("warning: this machine emulated 100 million")
    assert trial(1, 1.9).advice("x") == "end other programs on this machine"
    assert trial(1, 1.9).result().endswith("it holds no speed that QEMU offers")


def test_the_trial_reads_the_machine_before_and_after() -> None:
    works = iter([MachineWork(1.0, 0.0, 0, 0.0), MachineWork(2.0, 1.0, 125_000_000, 0.002)])
    spent_s = iter([3.0, 3.5])
    found = try_speed(lambda: next(works), lambda: next(spent_s), 125.0, duration_s=0.0)
    assert (found.executed_mips, found.lost_share, found.used_share) == pytest.approx((125.0, 0.002, 0.5))
