"""What all tests share: the `lab` marker for those that need root and namespaces; the rule that CI skips nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KERNEL_FEATURE = "kernel feature:"
"""What the reason of a skip begins with when this kernel lacks something; in CI no other skip is accepted."""

LEFTOVER_WAIT_S = 5.0
"""How long processes that were killed have to vanish."""


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


@pytest.fixture(scope="session")
def lab_obstacle() -> str:
    """Why namespaces cannot be made here; empty where they can."""
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
    """Namespaces can be made; afterwards none is left, nor a process in one, nor a device in the machine's own."""
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    before = traces()
    yield
    deadline = time.monotonic() + LEFTOVER_WAIT_S
    while left := traces() - before:
        if time.monotonic() > deadline:
            pytest.fail("left behind: " + ", ".join(sorted(left)))
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def _lab_for_marked_tests(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("lab"):
        request.getfixturevalue("lab")


def traces() -> set[str]:
    """What a testbed could leave on this machine, as `kind name`."""
    listed = subprocess.run(["ip", "-j", "netns", "list"], check=True, capture_output=True, text=True).stdout
    namespaces = {f"namespace {entry['name']}" for entry in json.loads(listed or "[]")}
    devices = {f"device {path.name}" for path in Path("/sys/class/net").iterdir()}
    folders = {f"run folder {path.name}" for path in Path("/run/tunnelbench").glob("[0-9]*")}
    return namespaces | devices | folders | processes_elsewhere()


def processes_elsewhere() -> set[str]:
    """Processes in another network namespace than ours."""
    own = Path("/proc/self/ns/net").readlink()
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").readlink() != own:
                found.add(f"process {process.name} ({(process / 'comm').read_text().strip()})")
        except OSError:
            continue  # it has ended, or is a zombie
    return found
