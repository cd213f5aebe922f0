"""A router that loses power in the middle of a run. It has a rig of its own, for the restart ends all that is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab import rig as rigs
from tests.lab.awaiting import await_traffic, until
from tests.lab.rig import TRIALS, Rig, outcomes, plan, start, trials_in

pytestmark = pytest.mark.lab


@pytest.fixture
def rig(lab: None, tmp_path: Path) -> Iterator[Rig]:
    made = rigs.set_up(tmp_path / "rig")
    try:
        yield made
    finally:
        made.take_down()


def test_a_router_that_restarts_in_mid_run_costs_one_trial_and_the_run_ends_cleanly(
    rig: Rig, store: str, tmp_path: Path
) -> None:
    before = rig.state()
    testbed = str(rig.testbed_file(quiet_wait_s=0))
    running = start("run", plan(tmp_path, "rounds = 2\n" + TRIALS), "--on", testbed, "--store", store, "--json")
    try:
        until(lambda: trials_in(store) == 1, "the calibration")
        await_traffic(running.pid)
        rig.restart(after_s=2.0)
        output, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    _, (first, _), second = outcomes(output)
    assert first == "void", errors
    assert second == ("measured", ""), errors
    rig.end_sleepers()
    assert rig.state() == before
