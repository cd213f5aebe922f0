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


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short path: ocserv makes a socket in it, whose path may have at most 107 bytes (unix(7))."""
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
def untouched(rig: Rig, lab: None) -> Iterator[Rig]:  # the state is compared after the lab fixture has ended
    """The rig. The test fails if it leaves the rig in another state."""
    before = rig.state()
    yield rig
    rig.end_sleepers()
    assert rig.state() == before


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Path of a store that does not exist yet."""
    return str(tmp_path / "store.sqlite")


@pytest.fixture
def testbed(lab: None, short_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is set up, with cables as fast as the machine."""
    with make_testbed(short_path / "run") as made:
        yield made


@pytest.fixture
def fast_ethernet(lab: None, tmp_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is set up, with cables of 100 Mbit/s."""
    with make_testbed(tmp_path / "run", Link(rate_out_mbps=100, rate_in_mbps=100)) as made:
        yield made


@pytest.fixture(scope="module")
def bed(lab_obstacle: str) -> Iterator[NetnsTestbed]:
    """One testbed for all tests of a file; each test takes back what it changes."""
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    with tempfile.TemporaryDirectory(prefix="tb-") as folder, make_testbed(Path(folder) / "run", quiet_wait_s=0) as up:
        yield up
