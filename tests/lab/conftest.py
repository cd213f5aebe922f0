"""Testbeds for lab tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.bench import make_testbed

from tunnelbench.model.testbed import Link
from tunnelbench.testbed.netns import NetnsTestbed


@pytest.fixture
def testbed(lab: None, tmp_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is up, its cables as fast as the machine."""
    with make_testbed(tmp_path / "run") as made:
        yield made


@pytest.fixture
def fast_ethernet(lab: None, tmp_path: Path) -> Iterator[NetnsTestbed]:
    """A testbed that is up, its cables of 100 Mbit/s."""
    with make_testbed(tmp_path / "run", Link(rate_out_mbps=100, rate_in_mbps=100)) as made:
        yield made
