"""Rules for all tests: the mark `lab` for tests that need root and namespaces, and no skipped test in CI."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any speed", deadline=None)  # a busy machine may stall any example
settings.load_profile("any speed")

pytest_plugins = ["pytester", "tests.quiet"]

KERNEL_FEATURE = "kernel feature:"
"""Start of the reason of a skip because this kernel lacks a feature; CI accepts no other skip."""

LEFTOVER_WAIT_S = 5.0
"""Time that killed processes get to end [s]."""


def pytest_configure() -> None:
    """Heed Ctrl-C again where a script started pytest in the background: a shell starts such a process without it.

    Programs inherit an ignored signal, and tests interrupt the programs that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip_in_ci(report)
    return report


def refuse_skip_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure where CI=true, unless the kernel lacks a feature."""
    if os.environ.get("CI") != "true" or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(KERNEL_FEATURE):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not accept: {reason}"


@pytest.hookimpl(trylast=True)  # after tests that are not wanted have been left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the part of each worker begin with some of the tests that have the longest time limits.

    pytest-xdist gives each worker an equal part of the list. A worker that is ready takes tests from the end of
    another worker's part.
    """

    def limit_s(item: pytest.Item) -> float:
        marker = item.get_closest_marker("timeout")
        return float(marker.args[0]) if marker else 0.0

    slow = sorted(filter(limit_s, items), key=limit_s, reverse=True)
    others = [item for item in items if not limit_s(item)]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    parts: list[pytest.Item] = []
    for worker in range(workers):
        part = slow[worker::workers]
        size = (len(items) - len(parts)) // (workers - worker)
        count = max(0, size - len(part))
        parts += [*part, *others[:count]]
        others = others[count:]
    items[:] = [*parts, *others]


@pytest.fixture(scope="session")
def lab_obstacle() -> str:
    """Reason why no namespace can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "not root"
    name = f"tb-probe-{os.getpid()}"
    try:
        subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True, text=True)
        subprocess.run(["ip", "netns", "delete", name], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        return "no ip command (package iproute2)"
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.strip()}"
    return ""


@pytest.fixture
def lab(lab_obstacle: str) -> Iterator[None]:
    """Skip the test where no namespace can be made. Fail it if it leaves a namespace, a process in one, or a device."""
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    before = traces()
    yield
    deadline = time.monotonic() + LEFTOVER_WAIT_S
    while left := traces() - before:
        if time.monotonic() > deadline:
            pytest.fail("left behind: " + ", ".join(sorted(left)))
        time.sleep(0.05)


def share_of_worker() -> dict[str, object]:
    """Return how much of the CPUs this process may get."""
    return {
        "nice value": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduling class": os.sched_getscheduler(0),
        "CPUs": os.sched_getaffinity(0),
    }


@pytest.fixture(autouse=True)
def _share_of_worker_stays() -> Iterator[None]:
    """Fail a test that leaves this process a smaller share of the CPUs, with which later tests would measure too late.

    A process that is not root cannot raise its share again.
    """
    before = share_of_worker()
    yield
    assert share_of_worker() == before


@pytest.fixture(autouse=True)
def _lab_for_marked_tests(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("lab"):
        request.getfixturevalue("lab")


def traces() -> set[str]:
    """Return all that a testbed could leave on this machine, as `kind name`."""
    listed = subprocess.run(["ip", "-j", "netns", "list"], check=True, capture_output=True, text=True).stdout
    namespaces = {f"namespace {entry['name']}" for entry in json.loads(listed or "[]")}
    devices = {f"device {path.name}" for path in Path("/sys/class/net").iterdir()}
    folders = {f"run folder {path.name}" for path in Path("/run/tunnelbench").glob("[0-9]*")}
    return namespaces | devices | folders | processes_elsewhere()


def processes_elsewhere() -> set[str]:
    """Return the processes in other network namespaces than this one."""
    own = Path("/proc/self/ns/net").readlink()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").readlink() != own:
                found.add(f"process {process.name} ({(process / 'comm').read_text().strip()})")
        except OSError:
            continue  # it has ended, or is a zombie
    return found
