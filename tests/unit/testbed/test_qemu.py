"""How busy a virtual router was, from QEMU's threads."""

from __future__ import annotations

import pytest

from tunnelbench.host.host import CpuReading
from tunnelbench.host.procfs import CpuTimes
from tunnelbench.measure.cpu import usage
from tunnelbench.qemu.machine import Threads
from tunnelbench.testbed.qemu import corrected


def look(clock_s: float, spent_s: float) -> Threads:
    return Threads(clock_s, {"CPU 0/TCG 8": spent_s * 0.75, "qemu 7": spent_s * 0.25}, 0.0)


def reading(clock_s: float, idle_s: float) -> CpuReading:
    return CpuReading(clock_s, {0: CpuTimes(1.0, 2.0, idle_s, 3.0, 0.5)}, None, "")


LOOKS = [look(100.0, 10.0), look(101.0, 10.2), look(102.0, 10.7), look(103.0, 10.7)]


def test_a_router_that_uses_up_its_share_is_busy_though_it_takes_itself_for_idle() -> None:
    # Half of a CPU, all of it used from 101 s to 102 s; the guest saw itself half idle.
    before, after = corrected([reading(101.0, 50.0), reading(102.0, 50.5)], LOOKS, share=0.5)
    assert usage(before, after, [0]).busy_share == pytest.approx(1.0)


def test_between_two_looks_the_work_is_taken_for_even() -> None:
    before, after = corrected([reading(100.5, 50.0), reading(101.5, 50.0)], LOOKS, share=1.0)
    assert usage(before, after, [0]).busy_share == pytest.approx(0.1 + 0.25)


def test_a_router_that_stands_still_is_idle() -> None:
    before, after = corrected([reading(102.25, 50.0), reading(102.75, 50.0)], LOOKS, share=0.5)
    assert usage(before, after, [0]).busy_share == pytest.approx(0.0)


def test_readings_beyond_the_looks_are_left_out() -> None:
    found = corrected([reading(99.0, 50.0), reading(101.0, 50.0), reading(104.0, 50.0)], LOOKS, share=0.5)
    assert [each.clock_s for each in found] == [101.0]


def test_the_split_stays_the_guests_own() -> None:
    (found,) = corrected([reading(101.0, 50.0)], LOOKS, share=0.5)
    assert (found.cpus[0].user_s, found.cpus[0].system_s, found.cpus[0].softirq_s) == (1.0, 2.0, 3.0)
    assert found.cpus[0].steal_s == 0.0
