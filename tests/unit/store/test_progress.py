"""The progress of a run in its store: the newest one is read, and a failure to write it changes nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.postgresql import Cluster, server
from tests.unit.builders import make_run, make_spec, make_trial

from tunnelbench.model.errors import StoreLost
from tunnelbench.model.progress import MOST_RATES, RunProgress
from tunnelbench.store.store import Store

__all__ = ["server"]

PROGRESS = RunProgress("2025-03-14T09:30:00+00:00", "round 1: vxlan", 3, 60.0, 1.5, 10.0, (1e6, 2e6), 0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture(params=["file", "server"])
def location(request: pytest.FixtureRequest, path: Path) -> str:
    if request.param == "file":
        return str(path)
    made: Cluster = request.getfixturevalue("server")
    return made.new_database()


def test_the_progress_that_was_published_last_is_read(location: str) -> None:
    with Store.open(location) as store, Store.open(location) as reader:
        store.begin_run(make_run(run_id="a"))
        table = store.progress("a")
        assert reader.progress("a").read() is None
        for done in range(3):
            table.publish(replace(PROGRESS, trials_done=done))
        assert reader.progress("a").read() == replace(PROGRESS, trials_done=2)
        table.close()


def test_a_trial_is_stored_while_progress_is_published_and_neither_waits(location: str) -> None:
    with Store.open(location) as store:
        store.begin_run(make_run(run_id="a"))
        table = store.progress("a")
        for sequence in range(1, 6):
            table.publish(replace(PROGRESS, trials_done=sequence))
            store.add_trial("a", make_trial(make_spec(sequence)))
        table.close()
        assert len(store.trials("a")) == 5


def test_progress_does_not_wait_for_another_writer(path: Path) -> None:
    with Store.open(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        store.begin_run(make_run(run_id="a"))
        table = store.progress("a")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="locked"):
            table.publish(PROGRESS)
        other.execute("ROLLBACK")
        table.publish(PROGRESS)
        assert table.read() == PROGRESS
        table.close()


def test_a_careless_session_never_stores_a_trial(path: Path) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        table = store.progress("a")
        table.publish(PROGRESS)
        table.close()
        with store._transactions.engine.connect() as connection:
            assert connection.scalar(text("PRAGMA synchronous")) == 2  # FULL


def test_progress_that_was_changed_is_reported(path: Path) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        table = store.progress("a")
        table.publish(PROGRESS)
        table.close()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE progress SET progress = replace(progress, 'vxlan', 'other')")
        with pytest.raises(StoreLost):
            store.progress("a").read()


@pytest.mark.parametrize(
    "change",
    [{"left_s": float("nan")}, {"left_s": -1.0}, {"rates_bps": (1.0,) * (MOST_RATES + 1)}, {"router_busy_share": -0.1}],
)
def test_impossible_progress_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no such progress"):
        replace(PROGRESS, **change)  # type: ignore[arg-type]


def test_the_newest_runs_are_read_without_the_others(location: str) -> None:
    with Store.open(location) as store:
        for number in range(5):
            status = "running" if number == 1 else "done"
            store.begin_run(make_run(run_id=f"run-{number}", started_at=f"2025-03-14T09:0{number}:00", status=status))
        store.begin_run(make_run(run_id="run-9", started_at="2025-03-14T09:02:00"))
        ids = [run.run_id for run in store.newest_runs(3)]
        assert ids == ["run-4", "run-3", "run-9"]
        assert [run.run_id for run in store.newest_runs(9, before="run-9")] == ["run-2", "run-1", "run-0"]
        assert [run.run_id for run in store.newest_runs(9, status="running")] == ["run-1"]
        assert [run.run_id for run in store.newest_runs(9, only=["run-0", "x"])] == ["run-0"]
        assert store.newest_runs(9, before="no such run") == []


def test_the_version_of_a_run_changes_when_a_trial_is_stored(location: str) -> None:
    with Store.open(location) as store:
        store.begin_run(make_run(run_id="a", trials_recorded=0))
        before = store.progress("a").version()
        assert before == store.progress("a").version()
        store.add_trial("a", make_trial(make_spec(1)))
        assert store.progress("a").version() not in {before, ""}
        assert store.progress("b").version() == ""
        assert store.progress("a").latest_trials(5) == [1]
