"""Testbeds for lab tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab import rig as rigs
from tests.lab.bench import make_testbed
from tests.lab.rig import Rig

from tunnelbench.model.testbed import Link
from tunnelbench.testbed.netns import NetnsTestbed

RERUNS = 2
RERUN_DELAY_S = 5
"""A hypervisor that runs others for a while can make any lab test fail, and those are seldom two in a row. Pytest lists
what it ran again (`R` in `-ra`): one that needs it often is to be mended."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.flaky(reruns=RERUNS, reruns_delay=RERUN_DELAY_S))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for a testbed: ocserv makes a socket in it, whose path may have no more than 107 bytes (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="tb-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def rig(lab_obstacle: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    made = rigs.set_up(tmp_path_factory.mktemp("rig"))
    try:
        yield made
    finally:
        made.take_down()


@pytest.fixture
def untouched(rig: Rig, lab: None) -> Iterator[Rig]:  # it looks for what is left, so it comes last
    """The rig, which is afterwards as it was."""
    before = rig.state()
    yield rig
    rig.end_sleepers()
    assert rig.state() == before


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Where a run is kept."""
    return str(tmp_path / "store.sqlite")


@pytest.fixture
def testbed(lab: None, short_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is up, its cables as fast as the machine."""
    with make_testbed(short_path / "run") as made:
        yield made


@pytest.fixture
def fast_ethernet(lab: None, tmp_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is up, its cables of 100 Mbit/s."""
    with make_testbed(tmp_path / "run", Link(rate_out_mbps=100, rate_in_mbps=100)) as made:
        yield made
