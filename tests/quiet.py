"""A further try for a lab test that failed while the machine was not quiet.

The plugin measures the machine during each lab test. A test that fails on a quiet machine has failed. A test is tried
once more if it fails while the hypervisor takes CPU time, or while it and the tests next to it wait for a CPU. For a
test marked `alone`, CPU time that processes outside of pytest use is a reason, too. During a further try the other
workers stand still, so that it is a reason for every test then. A test has three tries at most. The terminal summary
counts the further tries and gives the reason of each.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

from tunnelbench.host.procfs import all_processes, foreign_cpu_s, parse_stat

STEAL_LIMIT = 0.05
"""Share of all CPU time that the hypervisor may take during a test; 1 to 3 % are usual on a virtual machine."""
STEAL_WINDOW_LIMIT = 0.25
"""Share of all CPU time that the hypervisor may take in any window."""
OTHERS_LIMIT = 0.10
"""Share of all CPU time that processes outside of pytest may use during a test marked `alone`."""
WAITING_LIMIT = 0.5
"""Share of the time in which a process may wait for a CPU during a test that runs next to others."""
WAITING_WINDOW_LIMIT = 0.9
"""Share of any window in which a process may wait for a CPU during a test that runs next to others. A trial of two
seconds can fail because of one such moment in a test that waits for other things most of the time."""
WINDOW_S = 0.5
QUIET_LIMIT_S = 30.0
"""Longest wait for a quiet machine before a further try [s]."""
MOST_TRIES = 3
LOCKS = (Path(__file__), Path(__file__).with_name("conftest.py"))
"""Files that every worker can open and lock, and that stay as they are."""
PROPERTY = "further try"
"""Name of the property of a report that holds the reason."""


@dataclass(frozen=True)
class Reading:
    """CPU time of the machine since boot, all CPUs together [s]."""

    stolen_s: float
    all_s: float
    waiting_s: float = 0.0
    """Time in which a process waited for a CPU (some of /proc/pressure/cpu); 0 if the kernel has no such file [s]."""
    clock_s: float = 0.0

    @classmethod
    def now(cls) -> Reading:
        cpus = parse_stat(Path("/proc/stat").read_text()).values()
        stolen_s = sum(cpu.steal_s for cpu in cpus)
        all_s = stolen_s + sum(cpu.user_s + cpu.system_s + cpu.idle_s + cpu.softirq_s for cpu in cpus)
        pressure = Path("/proc/pressure/cpu")
        waiting_us = int(pressure.read_text().split()[4].removeprefix("total=")) if pressure.exists() else 0
        return cls(stolen_s, all_s, waiting_us / 1e6, time.monotonic())


class Watch:
    """A measurement of the machine, from its construction to the call of `disturbance`."""

    def __init__(self, *, is_alone: bool) -> None:
        self._readings = [Reading.now()]
        self._processes = all_processes() if is_alone else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def disturbance(self) -> str:
        """End the measurement and return what disturbed the test; empty for a quiet machine."""
        self._ended.set()
        self._thread.join()
        self._readings.append(Reading.now())
        others_s: dict[str, float] = {}
        if self._processes is not None:
            # Process 1 inherits the CPU time of all orphans, those of the tests included.
            before, after = ({k: v for k, v in read.items() if k != 1} for read in (self._processes, all_processes()))
            others_s = foreign_cpu_s(before, after, os.getpid(), range(os.cpu_count() or 1))
        return judge(self._readings, others_s, is_alone=self._processes is not None)

    def _sample(self) -> None:
        while not self._ended.wait(WINDOW_S):
            self._readings.append(Reading.now())


def waiting_share(before: Reading, after: Reading) -> float:
    """Return the share of the time between two readings in which a process waited for a CPU."""
    elapsed_s = after.clock_s - before.clock_s
    return (after.waiting_s - before.waiting_s) / elapsed_s if elapsed_s > 0 else 0.0


def judge(readings: Sequence[Reading], others_s: dict[str, float], *, is_alone: bool = True) -> str:
    """Return what disturbed a test; empty for a quiet machine.

    `readings` are at least two, in order. `others_s` is the CPU time of processes outside of pytest by name [s]. A test
    that does not run alone is disturbed if it and its neighbours wait for a CPU most of the time.
    """
    all_s = readings[-1].all_s - readings[0].all_s
    if all_s <= 0:
        return ""
    stolen = (readings[-1].stolen_s - readings[0].stolen_s) / all_s
    windows = list(pairwise(readings[:-1]))  # without the last one: it may be too short for a share of clock ticks
    worst = max(((b.stolen_s - a.stolen_s) / (b.all_s - a.all_s) for a, b in windows if b.all_s > a.all_s), default=0.0)
    others = sum(others_s.values()) / all_s
    found = []
    if stolen > STEAL_LIMIT or worst > STEAL_WINDOW_LIMIT:
        found.append(f"the hypervisor took {stolen:.0%} of the CPU time, {worst:.0%} in the worst {WINDOW_S:g} s")
    waiting = waiting_share(readings[0], readings[-1])
    worst_waiting = max((waiting_share(a, b) for a, b in windows), default=0.0)
    if not is_alone and (waiting > WAITING_LIMIT or worst_waiting > WAITING_WINDOW_LIMIT):
        found.append(
            f"processes waited for a CPU {waiting:.0%} of the time, {worst_waiting:.0%} in the worst {WINDOW_S:g} s"
        )
    if others > OTHERS_LIMIT:
        names = ", ".join(sorted(others_s, key=lambda name: -others_s[name])[:5])
        found.append(f"other processes used {others:.0%} of the CPU time ({names})")
    return "; ".join(found)


def wait_for_quiet(*, is_alone: bool) -> None:
    """Wait until a second passes without a disturbance, or until the limit."""
    deadline = time.monotonic() + QUIET_LIMIT_S
    while time.monotonic() < deadline:
        watch = Watch(is_alone=is_alone)
        time.sleep(1)  # the duration of the measurement
        if not watch.disturbance():
            return


@contextmanager
def turn(*, is_alone: bool) -> Iterator[None]:
    """Hold a turn on this machine: at the same time as other workers, or alone.

    Whoever waits for a turn holds the second lock, so that a worker that wants to be alone is not passed by the others.
    """
    turns, queue = (path.open() for path in LOCKS)
    with turns, queue:
        with stopped_time_limit():
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(turns, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
            fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextmanager
def stopped_time_limit() -> Iterator[None]:
    """Do not count the block in the time limit of the test, whose timer pytest-timeout has started.

    The tries of another test can take longer than this limit.
    """
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)


def one_try(
    item: pytest.Item, nextitem: pytest.Item | None, *, is_alone: bool, others_stand_still: bool
) -> tuple[list[pytest.TestReport], str]:
    """Run a test once; returns its reports and what disturbed it."""
    with turn(is_alone=others_stand_still):
        if others_stand_still:
            wait_for_quiet(is_alone=is_alone)
        watch = Watch(is_alone=is_alone or others_stand_still) if item.get_closest_marker("lab") else None
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        return reports, watch.disturbance() if watch else ""


def failure_of(reports: Sequence[pytest.TestReport]) -> pytest.TestReport | None:
    """Return the first report of a failure, unless the test hung; None: there is none."""
    failure = next((report for report in reports if report.failed), None)
    return None if failure is None or "from pytest-timeout" in failure.longreprtext else failure


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    is_alone = item.get_closest_marker("alone") is not None
    reports, disturbance = one_try(item, nextitem, is_alone=is_alone, others_stand_still=False)
    earlier: list[tuple[str, str]] = []
    """Failure of each earlier try, and the reason for another one."""
    while len(earlier) + 1 < MOST_TRIES and disturbance and (failure := failure_of(reports)):
        text = failure.longreprtext
        earlier.append((text, f"{disturbance}; failed in {failure.when} with: {text.splitlines()[-1].strip()}"))
        item.session._setupstate.teardown_exact(None)  # a shared fixture that failed is made once more, too
        reports, disturbance = one_try(item, nextitem, is_alone=is_alone, others_stand_still=True)
    reports[0].user_properties.extend((PROPERTY, reason) for _, reason in earlier)
    for report in reports:
        if report.failed:  # the last try may have failed because of what an earlier one left
            report.sections.extend((f"Try {number}", text) for number, (text, _) in enumerate(earlier, start=1))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    reports = [report for listed in terminalreporter.stats.values() for report in listed]
    tries = [
        (report.nodeid, reason)
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, reason in report.user_properties
        if name == PROPERTY
    ]
    if tries:
        terminalreporter.section(f"further tries, because the machine was not quiet: {len(tries)}")
        for nodeid, reason in tries:
            terminalreporter.line(f"{nodeid}: {reason}")
