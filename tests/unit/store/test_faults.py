"""What can be wrong with the file, told in a sentence that names it and a remedy."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.unit.builders import make_proof, make_run, make_spec, make_trial

from tunnelbench.model.errors import CannotHere, UserError, WrongInput
from tunnelbench.store import Store

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def fill(path: Path, trials: int = 40) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        for sequence in range(1, trials + 1):
            store.add_trial("a", make_trial(make_spec(sequence), proof=make_proof()))


def told(caught: pytest.ExceptionInfo[UserError]) -> str:
    return f"{caught.value.message} | {caught.value.hint}"


def test_a_file_that_is_no_sqlite_is_refused_untouched(path: Path) -> None:
    path.write_text("tunnel,throughput\nnone,94.2\n" * 50)
    before = path.read_bytes()
    with pytest.raises(WrongInput) as caught:
        Store.open(path)
    assert told(caught) == (
        f"{path}: not a store of TunnelBench: file is not a database | name another file, or move this one away"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["moz_places (url TEXT)", "format (number TEXT)"])
def test_the_sqlite_file_of_another_program_is_refused_untouched(path: Path, table: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(WrongInput, match="it holds tables of another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_told_with_how_to_save_what_it_holds(path: Path) -> None:
    fill(path)
    content = bytearray(path.read_bytes())
    content[3 * 4096 :] = b"\xa5" * (len(content) - 3 * 4096)
    path.write_bytes(content)
    damaged = pytest.raises(CannotHere, match=re.escape(f"{path}: the store is damaged"))
    with damaged as caught, Store.open(path) as store:
        store.trials("a")
    assert f"sqlite3 {path} .recover" in caught.value.hint


def test_a_damaged_row_is_told_too(path: Path) -> None:
    fill(path, trials=1)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trial SET tcp = '{\"duration_s\": 1'")
    connection.close()
    with Store.open(path) as store, pytest.raises(CannotHere, match=re.escape(f"{path}: the store is damaged")):
        store.trials("a")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trial SET outcome = CAST(outcome AS BLOB)",
        "UPDATE trial SET checks = CAST(checks AS BLOB)",
        "UPDATE trial SET checksum = CAST(checksum AS BLOB)",
    ],
)
def test_a_text_that_became_bytes_is_told_too(path: Path, statement: str) -> None:
    fill(path, trials=1)
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with Store.open(path) as store, pytest.raises(CannotHere, match=re.escape(f"{path}: the store is damaged")):
        store.trials("a")


@contextmanager
def without_privileges() -> Iterator[Path]:
    """A directory, as someone who is not root: root may write everywhere."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        owner = os.geteuid()
        if owner == 0:
            os.seteuid(NOBODY)
        try:
            yield Path(directory)
        finally:
            os.seteuid(owner)
            Path(directory).chmod(0o700)


def test_a_directory_that_may_not_be_written_is_told_with_the_way_out() -> None:
    with without_privileges() as directory:
        (directory / "closed").mkdir()
        (directory / "closed").chmod(0o555)
        for path in (directory / "closed" / "results.sqlite", directory / "closed" / "new" / "results.sqlite"):
            with pytest.raises(CannotHere) as caught:
                Store.open(path)
            assert caught.value.message == f"{path}: the store cannot be opened or written: Permission denied"
            assert "XDG_DATA_HOME" in caught.value.hint
        (directory / "closed").chmod(0o755)


@pytest.mark.parametrize(("file_mode", "directory_mode"), [(0o600, 0o555), (0o400, 0o755), (0o000, 0o755)])
def test_a_store_that_may_not_be_written_is_told_with_the_way_out(file_mode: int, directory_mode: int) -> None:
    with without_privileges() as directory:
        path = directory / "kept" / "results.sqlite"
        fill(path, trials=1)
        path.chmod(file_mode)
        path.parent.chmod(directory_mode)
        unwritable = pytest.raises(CannotHere, match=re.escape(f"{path}: the store cannot be opened or written"))
        with unwritable as caught, Store.open(path) as store:
            store.add_trial("a", make_trial(make_spec(2)))
        assert "XDG_DATA_HOME" in caught.value.hint
        path.parent.chmod(0o755)


def test_a_path_through_a_file_is_told(path: Path) -> None:
    path.write_text("")
    with pytest.raises(CannotHere, match="Not a directory"):
        Store.open(path / "results.sqlite")


def test_a_directory_in_place_of_the_file_is_told(path: Path) -> None:
    path.mkdir()
    with pytest.raises(CannotHere, match="unable to open database file"):
        Store.open(path)


@pytest.fixture
def small_disk() -> Iterator[None]:
    """A database that may not grow beyond 64 pages: SQLite says of it what it says of a full disk."""

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 64")

    event.listen(Engine, "connect", limit)
    yield
    event.remove(Engine, "connect", limit)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_loses_no_trial_that_was_stored(path: Path) -> None:
    stored = 0

    def fill_up(store: Store) -> None:
        nonlocal stored
        while stored < 1000:
            store.add_trial("a", make_trial(make_spec(stored + 1)))
            stored += 1

    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        with pytest.raises(CannotHere) as caught:
            fill_up(store)
        assert told(caught) == (
            f"{path}: database or disk is full | make room on that file system; the trials stored so far are safe"
        )
        assert 0 < stored == len(store.trials("a"))


def test_a_store_that_another_process_keeps_locked_is_told_after_a_bounded_wait(path: Path) -> None:
    fill(path, trials=1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with Store.open(path, lock_wait_s=0.05) as store:
            with pytest.raises(CannotHere, match="another process has been writing for too long") as caught:
                store.add_trial("a", make_trial(make_spec(2)))
            assert f"fuser {path}" in caught.value.hint
            assert len(store.trials("a")) == 1
    finally:
        other.close()


def test_a_database_server_of_an_unknown_kind_is_wrong_input() -> None:
    with pytest.raises(WrongInput, match="no database of the kind nonsense"):
        Store.open("nonsense://host/results")
    with pytest.raises(WrongInput, match="not a database URL"):
        Store.open("://")


def test_a_driver_that_is_missing_is_told_without_the_password() -> None:
    with pytest.raises(CannotHere) as caught:
        Store.open("postgresql+pg8000://me:secret@host/results")
    assert told(caught) == (
        "postgresql+pg8000://me:***@host/results: the Python package pg8000 is missing | pip install pg8000"
    )
