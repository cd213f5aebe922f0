"""A command line to try, and a store with a run in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.builders import make_records, make_run

from tunnelbench import cli
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.store.store import Store

RUN_ID = "20250314-092653-quick"

CommandLine = Callable[..., Result]
"""Runs a verb with its words; `columns` is the width."""

CopyOf = Callable[[Callable[[Path], None], Path], Path]
"""Puts a copy of the store that a function fills at a path, and returns the path."""


@pytest.fixture
def type_in() -> CommandLine:
    """Run `tunnelbench WORD...` in this process, 80 columns wide."""

    def run(*words: str | Path, columns: int = 80) -> Result:
        return CliRunner().invoke(cli.main, [str(word) for word in words], env={"COLUMNS": str(columns)})

    return run


def keep(path: Path, run: RunRecord, records: tuple[TrialRecord, ...]) -> None:
    """Put a run into the store at a path."""
    with Store.open(path) as store:
        store.begin_run(run)
        for record in records:
            store.add_trial(run.run_id, record)
        if run.ended_at:
            store.end_run(run.run_id, run.status, run.ended_at)


@pytest.fixture(autouse=True)
def _no_data_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test see the store and the imported results of the person who runs it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "no-data"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the default store, which is not there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "tunnelbench" / "results.sqlite"


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory: pytest.TempPathFactory) -> CopyOf:
    """Fill a store once, and put a copy of it in place for each test: a store with many trials takes a second."""
    filled: dict[Callable[[Path], None], Path] = {}

    def put(fill: Callable[[Path], None], path: Path) -> Path:
        if fill not in filled:
            filled[fill] = tmp_path_factory.mktemp("store") / path.name
            fill(filled[fill])
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        shutil.copy(filled[fill], path)
        return path

    return put


@pytest.fixture
def store(home: Path, copy_of: CopyOf) -> Path:
    """The default store with two runs, of which the later one is whole."""
    return copy_of(_two_runs, home)


def _two_runs(path: Path) -> None:
    keep(path, make_run(run_id="20250301-101112-early", started_at="2025-03-01T10:11:12+00:00", ended_at=None,
                        status="interrupted", plan_name="wr841n"), make_records(1)[:2])  # fmt: skip
    keep(path, make_run(run_id=RUN_ID), make_records())
