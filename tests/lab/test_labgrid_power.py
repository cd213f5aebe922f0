"""A router that no longer answers, whose power labgrid switches. It has a rig of its own: a restart ends all in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from tests.lab import rig as rigs
from tests.lab.awaiting import await_traffic, until
from tests.lab.labgrid_runs import COUNTING_OR_NOT, SHORT_PLAN, SLOW_START_S, place_file, rack_on_laptop, run_started
from tests.lab.rig import TRIALS, Rig, outcomes, plan, trials_in
from tests.labgrid_rack import LabgridRack

from tunnelbench.cli.common_options import open_store

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture
def rig(lab: None, tmp_path: Path) -> Iterator[Rig]:
    made = rigs.set_up(tmp_path / "rig")
    try:
        yield made
    finally:
        made.take_down()


@pytest.fixture
def rack(rig: Rig, tmp_path: Path) -> Iterator[LabgridRack]:
    (tmp_path / "rack").mkdir()
    with rack_on_laptop(tmp_path / "rack") as made:
        yield made
        assert made.holder_of("attic") == "None"


@contextmanager
def power_on_starts(rig: Rig, rack: LabgridRack) -> Iterator[None]:
    """Restart the router when its power is switched on during the block."""

    def wait() -> None:
        until(lambda: rack.switched.read_text().endswith("1"), "the router is switched on", SLOW_START_S)
        rig.restart(after_s=1.0)

    thread = Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def switch_off(rig: Rig) -> None:
    """End the router's SSH server with its sessions, as if the router had crashed."""
    with suppress(subprocess.CalledProcessError):  # it has no session
        rig.end_sessions()
    rig.dropbear.kill()
    rig.dropbear.wait()


def test_a_router_that_does_not_answer_at_the_start_is_switched_on_once_and_noted(
    rig: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    switch_off(rig)
    words = [plan(tmp_path, SHORT_PLAN), "--on", place_file(rig), "--store", store]
    with run_started(tmp_path, *words) as (running, output, errors), power_on_starts(rig, rack):
        assert running.wait(240) in COUNTING_OR_NOT, errors.read_text()
    found = json.loads(output.read_text())
    assert "labgrid has switched the power of the place attic off and on" in found["run"]["notes"][0]
    assert {outcome for outcome, _ in outcomes(output.read_text())} == {"measured"}
    assert rack.switched.read_text() == "01"


def test_a_router_that_dies_in_mid_run_is_switched_off_and_on_and_the_run_goes_on(
    rig: Rig, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    words = [plan(tmp_path, "rounds = 2\n" + TRIALS), "--on", place_file(rig), "--store", store]
    with run_started(tmp_path, *words) as (running, output, errors):
        until(lambda: trials_in(store) == 1, "the calibration", SLOW_START_S)
        await_traffic(running.pid, SLOW_START_S)
        with power_on_starts(rig, rack):
            switch_off(rig)
            assert running.wait(240) in COUNTING_OR_NOT, errors.read_text()
    _, (first, _), second = outcomes(output.read_text())
    assert (first, second) == ("void", ("measured", ""))
    done = "The router did not answer for 5 s: labgrid has switched the power of the place attic off and on."
    assert done in errors.read_text()
    with open_store(store) as stored:
        (run,) = stored.runs()
        assert stored.trials(run.run_id)[-1].raw["recovery"] == done
    assert rack.switched.read_text() == "01"
