"""The results of a run whose store is lost while it is measured."""

from __future__ import annotations

import re
import secrets
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.postgresql import Cluster, server
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli.stored_results import StoredResults
from tunnelbench.host.signals import AskedToEnd
from tunnelbench.model.errors import CannotHere, ExitCode, StoreAwayAtEnd, StoreLost
from tunnelbench.model.result import TrialRecord
from tunnelbench.store.postgresql import Server
from tunnelbench.store.store import Store

__all__ = ["server"]

RUN_ID = "20250314-092653-a1b2c3"


def folder_deleted(path: Path) -> None:
    shutil.rmtree(path.parent)


def file_moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.sqlite"))


def log_deleted(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def file_replaced(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def measure(
    path: Path, lose: Callable[[Path], None], first: TrialRecord, *rest: TrialRecord, run_id: str = RUN_ID
) -> None:
    """Store the records of a run, and lose the store after the first one."""
    with Store.open(path) as store:
        store.begin_run(make_run(run_id=run_id, status="running", ended_at=None))
        with StoredResults(store, store.run(run_id)) as results:
            results.add_trial(first)
            lose(path)
            for record in rest:
                results.add_trial(record)


@pytest.mark.parametrize("lose", [folder_deleted, file_moved, log_deleted, file_replaced])
def test_a_store_that_is_lost_ends_the_run_and_import_takes_the_trials(
    lose: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_in: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results" / "a.sqlite"
    records = make_records()
    with pytest.raises(StoreLost) as caught:
        measure(path, lose, *records[:2])
    kept = next(tmp_path.rglob(f"tunnelbench-{RUN_ID}.json"))
    assert caught.value.message == (
        f"{path}: the store was deleted, moved or replaced while it was open; the run has ended, and its 2 trials are"
        f" in {kept}"
    )
    assert caught.value.hint.startswith(f"tunnelbench import {kept} stores them; ")
    imported = tmp_path / "imported.sqlite"
    done = type_in("import", kept, "--store", imported)
    assert done.exit_code == 0, done.output
    with Store.open(imported) as store:
        (run,) = store.runs()
        assert [record.spec for record in store.trials(run.run_id)] == [record.spec for record in records[:2]]
        assert [record.tcp for record in store.trials(run.run_id)] == [record.tcp for record in records[:2]]


def run_deleted(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM run")
        connection.commit()


def table_dropped(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE trial_raw")


def file_emptied(path: Path) -> None:
    # In another process: closing the file here would release the locks that SQLite holds in this process.
    subprocess.run(["truncate", "--size=0", path], check=True)


def file_cut(path: Path) -> None:
    subprocess.run(["truncate", f"--size={path.stat().st_size // 2}", path], check=True)


def file_overwritten(path: Path) -> None:
    """Copy an earlier state of the store over it, as a restored backup: the file keeps its number."""
    subprocess.run(["cp", f"{path}.backup", path], check=True)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with so many runs that the log of SQLite was merged into the file, and its state before them."""
    path = tmp_path_factory.mktemp("filled") / "a.sqlite"
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="20240101-000000-000000"))
    shutil.copyfile(path, f"{path}.backup")
    records = make_records()
    with Store.open(path) as store:
        for number in range(60):
            store.add_run(make_run(run_id=f"20240101-000000-{number + 1:06}"), records, ())
    return path


@pytest.fixture
def filled_store(filled: Path, tmp_path: Path) -> Path:
    """A copy of `filled`."""
    shutil.copy(f"{filled}.backup", tmp_path)
    return Path(shutil.copy(filled, tmp_path))


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (run_deleted, f"run {RUN_ID} is not in the store any more"),
        (table_dropped, "the store is damaged: no such table: trial_raw"),
        (file_emptied, "the store is damaged: the file has 0 bytes"),
        (file_cut, "the store is damaged: "),
        (file_overwritten, f"run {RUN_ID} is not in the store any more|the store is damaged: "),
    ],
)
@pytest.mark.parametrize("measured_later", [0, 2])
def test_the_trials_are_kept_if_the_content_of_the_store_is_lost(
    lose: Callable[[Path], None], why: str, measured_later: int, filled_store: Path, type_in: CommandLine
) -> None:
    path = filled_store
    with pytest.raises(StoreLost) as caught:
        measure(path, lose, *make_records()[: 1 + measured_later])
    kept = path.with_name(f"tunnelbench-{RUN_ID}.json")
    assert str(kept) in caught.value.message
    assert re.search(why, caught.value.message)
    done = type_in("import", kept, "--store", path.with_name("imported.sqlite"))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["results.sqlite", "{folder}/results.sqlite"])
def test_trials_are_kept_if_the_current_folder_is_deleted_with_the_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run_id = f"20250314-092653-{secrets.token_hex(3)}"
    kept = Path("/var/tmp") / f"tunnelbench-{run_id}.json"
    try:
        with pytest.raises(StoreLost, match=f"its 1 trial is in {kept}"):
            measure(Path(name.format(folder=folder)), lambda _: shutil.rmtree(folder), make_records()[0], run_id=run_id)
        assert kept.is_file()
    finally:
        kept.unlink(missing_ok=True)


def test_a_store_that_is_lost_after_the_last_trial_is_noticed_when_the_run_ends(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with pytest.raises(StoreLost, match="its 1 trial is in"):
        measure(path, Path.unlink, make_records()[0])


def test_a_recovery_file_follows_no_link_and_replaces_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    path = tmp_path / "results.sqlite"
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / f"tunnelbench-{RUN_ID}.json").symlink_to(target)
    with pytest.raises(StoreLost):
        measure(path, Path.unlink, make_records()[0])
    assert target.read_text() == "precious"
    assert (tmp_path / "other" / f"tunnelbench-{RUN_ID}.json").exists()


def test_a_run_that_ends_by_itself_or_fails_has_its_status(tmp_path: Path) -> None:
    with Store.open(tmp_path / "results.sqlite") as store:
        store.begin_run(make_run(run_id=RUN_ID, status="running", ended_at=None))
        found = []
        for error in (None, AskedToEnd(), CannotHere("it failed")):
            try:
                with StoredResults(store, store.run(RUN_ID)):
                    if error:
                        raise error
            except (AskedToEnd, CannotHere):
                pass
            found.append(store.run(RUN_ID).status)
    assert found == ["done", "interrupted", "failed"]


def test_a_server_that_is_away_when_a_run_ends_may_answer_later(
    server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Server, "patience_s", 0.0)
    monkeypatch.setattr("tunnelbench.store.store.END_PATIENCE_S", 0.0)
    url = server.new_database()
    first, second = make_records()[:2]

    def measure_until_the_server_stops(store: Store) -> None:
        with StoredResults(store, store.run(RUN_ID)) as results:
            results.add_trial(first)
            server.stop("immediate")
            results.add_trial(second)

    with Store.open(url) as store:
        store.begin_run(make_run(run_id=RUN_ID, status="running", ended_at=None))
        try:
            with pytest.raises(StoreAwayAtEnd) as caught:
                measure_until_the_server_stops(store)
        finally:
            server.start()
    assert caught.value.exit_code == ExitCode.TRY_LATER
    assert "its 2 trials are in " in caught.value.message
