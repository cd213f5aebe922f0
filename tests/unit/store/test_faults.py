"""Each failure of the file is one sentence that names the file and a remedy."""

from __future__ import annotations

import os
import re
import resource
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.unit.builders import make_proof, make_run, make_spec, make_trial

from tunnelbench.host.python_packages import POSTGRESQL, install_hint
from tunnelbench.model.errors import CannotHere, StoreLost, UserError, WrongInput
from tunnelbench.store.sqlite import SqliteDatabase
from tunnelbench.store.store import Store

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def fill(path: Path, trials: int = 40) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        for sequence in range(1, trials + 1):
            store.add_trial("a", make_trial(make_spec(sequence), proof=make_proof()))


def sentence(caught: pytest.ExceptionInfo[UserError]) -> str:
    return f"{caught.value.message} | {caught.value.hint}"


def test_a_file_that_is_no_sqlite_is_refused_untouched(path: Path) -> None:
    path.write_text("tunnel,throughput\nnone,94.2\n" * 50)
    before = path.read_bytes()
    with pytest.raises(WrongInput) as caught:
        Store.open(path)
    assert sentence(caught) == (
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


def test_a_damaged_file_is_reported_with_how_to_save_what_it_holds(path: Path) -> None:
    fill(path)
    content = bytearray(path.read_bytes())
    content[3 * 4096 :] = b"\xa5" * (len(content) - 3 * 4096)
    path.write_bytes(content)
    damaged = pytest.raises(CannotHere, match=re.escape(f"{path}: the store is damaged"))
    with damaged as caught, Store.open(path) as store:
        store.trials("a")
    assert f"sqlite3 {path} .recover" in caught.value.hint


def test_a_damaged_row_is_reported_too(path: Path) -> None:
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
def test_a_text_that_became_bytes_is_reported_too(path: Path, statement: str) -> None:
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


def test_a_directory_that_may_not_be_written_is_reported_with_the_way_out() -> None:
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
def test_a_store_that_may_not_be_written_is_reported_with_the_way_out(file_mode: int, directory_mode: int) -> None:
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


def test_a_path_through_a_file_is_reported(path: Path) -> None:
    path.write_text("")
    with pytest.raises(CannotHere, match="Not a directory"):
        Store.open(path / "results.sqlite")


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "socket", "/dev/zero", "/dev/full", "folder"])
def test_what_is_no_file_is_refused_as_a_store_without_reading_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, create: bool
) -> None:
    place = Path(kind) if kind.startswith("/") else path
    if kind == "folder":
        path.mkdir()
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    elif "fifo" in kind:
        os.mkfifo(tmp_path / "fifo")
        path.symlink_to("fifo") if "link" in kind else (tmp_path / "fifo").rename(path)
    with pytest.raises(WrongInput) as caught:
        Store.open(place, create=create)
    why = "it is a folder" if kind == "folder" else "it is no regular file"
    assert sentence(caught) == f"{place}: not a store of TunnelBench: {why} | name another file, or move this one away"


def test_a_store_that_was_cut_to_nothing_is_damaged(path: Path) -> None:
    fill(path, trials=1)
    path.write_bytes(b"")
    with pytest.raises(CannotHere) as caught:
        Store.open(path, create=False)
    assert caught.value.message == f"{path}: the store is damaged: the file has 0 bytes"
    assert path.read_bytes() == b""


def test_the_log_of_a_store_that_was_cut_to_nothing_stays(path: Path) -> None:
    path.write_bytes(b"")
    log = Path(f"{path}-wal")
    log.write_bytes(b"the last trials")
    with pytest.raises(CannotHere, match="the file has 0 bytes"):
        Store.open(path)
    assert log.read_bytes() == b"the last trials"


def test_a_store_on_a_read_only_file_system_is_reported_with_the_way_out(path: Path, tmp_path: Path) -> None:
    fill(path, trials=1)
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    subprocess.run(["mount", "--bind", str(tmp_path), str(tmp_path)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(tmp_path)], check=True)
        for place, create in ((path, False), (path, True), (tmp_path / "new" / "results.sqlite", True)):
            with pytest.raises(CannotHere) as caught:
                Store.open(place, create=create).runs()
            assert caught.value.message == (
                f"{place}: the store cannot be opened or written: its file system is read-only"
            )
            assert "name the copy with --store" in caught.value.hint
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


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
        assert sentence(caught) == (
            f"{path}: database or disk is full | make room on that file system; the trials stored so far are safe"
        )
        assert 0 < stored == len(store.trials("a"))


def test_another_process_that_reads_and_closes_the_store_takes_nothing_away(path: Path) -> None:
    reader = (
        "import sys, pathlib, tunnelbench.store.store as s; print(len(s.Store.open(pathlib.Path(sys.argv[1])).runs()))"
    )
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        for sequence in (1, 2):
            store.add_trial("a", make_trial(make_spec(sequence)))
            read = subprocess.run([sys.executable, "-c", reader, path], check=True, capture_output=True, text=True)
            assert read.stdout == "1\n"
            assert Path(f"{path}-wal").exists()  # SQLite deletes it when the last process closes the store
    with Store.open(path) as store:
        assert len(store.trials("a")) == 2


def test_a_trial_is_stored_if_the_store_is_locked_for_longer_than_one_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, trials=1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(
        "tunnelbench.store.transactions.time.sleep", lambda _: other.close()
    )  # the first wait was in vain
    with Store.open(path, lock_wait_s=0.05) as store:
        store.add_trial("a", make_trial(make_spec(2)))
        assert len(store.trials("a")) == 2


def test_a_limit_of_the_size_of_files_is_reported_with_the_way_out(path: Path) -> None:
    fill(path, trials=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        with pytest.raises(CannotHere) as caught:
            Store.open(path)
        with pytest.raises(CannotHere) as caught_new:
            Store.open(path.with_name("new.sqlite"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "raise the limit of the size of files (ulimit -f)" in caught.value.hint
    assert "raise the limit of the size of files (ulimit -f)" in caught_new.value.hint
    assert not path.with_name("new.sqlite").exists()  # an empty file would be taken for a damaged store


def test_a_store_that_another_process_locks_is_reported_after_a_bounded_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteDatabase, "patience_s", 0.0)
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


@pytest.mark.parametrize("name", [":memory:", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused_and_no_file_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongInput, match="SQLite would keep :memory: in memory, and lose it"):
        Store.open(name)
    assert not list(tmp_path.iterdir())


def test_a_database_server_of_an_unknown_kind_is_wrong_input() -> None:
    with pytest.raises(WrongInput, match="no database of the kind nonsense is supported"):
        Store.open("nonsense://host/results")
    with pytest.raises(WrongInput, match="not a database URL"):
        Store.open("://")


def test_a_driver_that_is_missing_is_reported() -> None:
    with pytest.raises(CannotHere) as caught:
        Store.open("postgresql+pg8000://me@host/results")
    assert sentence(caught) == (
        "postgresql+pg8000://me@host/results: the Python package pg8000 is missing | "
        "write postgresql:// at its beginning, which uses the driver psycopg"
    )


def test_without_psycopg_the_hint_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CannotHere) as caught:
        Store.open("postgresql://me@host/results")
    assert sentence(caught) == (
        f"postgresql://me@host/results: the Python package psycopg is missing | {install_hint(POSTGRESQL)}"
    )


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT run_old.* FROM n, run_old"
PROGRAMS = {
    "a view in place of a table": ("ALTER TABLE run RENAME TO run_old", f"CREATE VIEW run AS {ENDLESS}"),
    "a view that SQLite's schema calls a table": (
        "ALTER TABLE run RENAME TO run_old",
        f"CREATE VIEW run AS {ENDLESS}",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET type = 'table' WHERE name = 'run'",
    ),
    "a virtual table": ("DROP TABLE soak_chunk", "CREATE VIRTUAL TABLE soak_chunk USING fts5(run_id)"),
    "a trigger": ("CREATE TRIGGER run_more AFTER UPDATE ON run BEGIN DELETE FROM trial; END",),
    "a trigger that SQLite's schema calls a table": (
        "CREATE TRIGGER run_more AFTER UPDATE ON run BEGIN DELETE FROM trial; END",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET type = 'table' WHERE name = 'run_more'",
    ),
    "a column with an expression": (
        "ALTER TABLE run ADD COLUMN slow INTEGER AS (instr(hex(zeroblob(2000000)), hex(zeroblob(900000)) || '1'))",
    ),
    "a column in the short form": ("ALTER TABLE run ADD COLUMN slow AS(1)",),
    "a default with an expression": ("ALTER TABLE trial ADD COLUMN slow DEFAULT (1)",),
    "a constraint": ("ALTER TABLE trial ADD COLUMN slow CHECK (slow <> 1)",),
    "an index of an expression": ("CREATE INDEX slow ON trial (round, length(reason))",),
    "an index of some rows": ("CREATE INDEX slow ON trial (round) WHERE round > 1",),
}


@pytest.mark.parametrize("statements", PROGRAMS.values(), ids=PROGRAMS)
def test_a_store_with_views_in_place_of_tables_or_with_triggers_is_refused(
    path: Path, statements: tuple[str, ...]
) -> None:
    fill(path, trials=1)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    with pytest.raises(UserError) as caught:
        Store.open(path)
    assert caught.value.message.startswith(f"{path}: ")


def test_a_view_and_an_index_of_a_users_own_in_a_store_are_no_error(path: Path) -> None:
    fill(path, trials=1)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE VIEW fast AS SELECT * FROM trial")
        connection.execute("CREATE UNIQUE INDEX sooner ON trial (run_id, sequence)")
    connection.close()
    with Store.open(path) as store:
        assert len(store.trials("a")) == 1


def without_end(store: bytes, root: int) -> bytes:
    """Return a store in which a table of one page has three more levels, each of which names one page 500 times."""
    size = int.from_bytes(store[16:18], "big")
    pages = [store[place : place + size] for place in range(0, len(store), size)]
    pages.append(pages[root - 1])
    for _ in range(3):
        child, count = len(pages), (size - 12) // 8
        cells = [size - 5 * (number + 1) for number in range(count)]
        header = struct.pack(">BHHHBI", 5, 0, count, cells[-1], 0, child) + struct.pack(f">{count}H", *cells)
        body = (struct.pack(">I", child) + b"\1") * count  # a page of the next level, and a row number
        pages.append(header.ljust(size - len(body), b"\0") + body)
    pages[root - 1] = pages.pop()
    first = pages[0]
    pages[0] = first[:28] + struct.pack(">I", len(pages)) + first[32:92] + first[24:28] + first[96:]
    return b"".join(pages)


@pytest.mark.parametrize("table", ["run", "trial"])
def test_a_store_whose_tables_never_end_is_refused(path: Path, table: str) -> None:
    fill(path, trials=1)
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    path.write_bytes(without_end(path.read_bytes(), root))
    with closing(sqlite3.connect(path)) as connection:
        assert len(connection.execute(f"SELECT * FROM {table} LIMIT 9999").fetchall()) == 9999  # noqa: S608
    with pytest.raises(StoreLost, match="the store is damaged"):
        Store.open(path)


def journal_that_deletes(victim: Path, store: Path) -> bytes:
    """Return a rollback journal without pages that names another file as its super-journal."""
    page_bytes = int.from_bytes(store.read_bytes()[16:18], "big")
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0, 0, store.stat().st_size // page_bytes, 512, page_bytes)
    name = os.fsencode(victim)
    record = struct.pack(">I", 0x40000000 // page_bytes + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    return header.ljust(512, b"\0") + record


@pytest.mark.parametrize("is_link", [False, True], ids=["by its name", "through a link"])
def test_a_journal_next_to_a_store_makes_sqlite_delete_no_file(path: Path, is_link: bool) -> None:
    fill(path, trials=1)
    victim, link = path.with_name("victim"), path.with_name("link")
    victim.write_text("precious")
    link.symlink_to(path)
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(journal_that_deletes(victim, path))
    with pytest.raises(UserError, match="could make SQLite delete other files"):
        Store.open(link if is_link else path)
    assert victim.exists()
    assert journal.exists()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM run").fetchall()  # SQLite itself deletes it
    assert not victim.exists()


def everybody_can_write(folder: Path) -> None:
    folder.chmod(0o1777)


def nobody_owns(folder: Path) -> None:
    os.chown(folder, 65534, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
@pytest.mark.parametrize("spoil", [everybody_can_write, nobody_owns])
@pytest.mark.parametrize("is_link", [False, True], ids=["by its name", "through a link"])
def test_root_opens_no_store_next_to_which_another_user_could_put_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], is_link: bool
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    folder, link = tmp_path / "shared", tmp_path / "link"
    path = folder / "store.sqlite"
    link.symlink_to(path)
    folder.mkdir()
    fill(path, trials=1)
    spoil(folder)
    place = link if is_link else path
    for create in (False, True):
        with pytest.raises(CannotHere, match=r"this is root and .*shared") as caught:
            Store.open(place, create=create)
        assert "copy the store into a folder that only root can write to" in sentence(caught)
    path.unlink()
    with pytest.raises(CannotHere, match=r"this is root and .*shared"):
        Store.open(place)
    assert not path.exists()
    path = folder / "below" / "store.sqlite"
    if spoil is everybody_can_write:  # a folder that the store makes is root's alone
        fill(path, trials=1)
        assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_root_reads_no_log_that_another_user_has_put_next_to_a_store(
    path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    fill(path, trials=1)
    planted = path.with_name(path.name + ending)
    planted.touch()
    os.chown(planted, 65534, 65534)
    with pytest.raises(CannotHere, match="belongs to the user nobody, and this is root"):
        Store.open(path)
    os.chown(path, 65534, 65534)
    Store.open(path).close()  # a store of that user, with its log


def test_an_sqlite_before_3_37_which_cannot_list_tables_opens_a_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up = SqliteDatabase._set_up_connection

    def of_an_older_sqlite(database: SqliteDatabase, connection: sqlite3.Connection, record: object) -> None:
        set_up(database, connection, record)

        def has(action: int, name: str | None, *_: str | None) -> int:
            is_missing = action == sqlite3.SQLITE_PRAGMA and name == "table_list"
            return sqlite3.SQLITE_DENY if is_missing else sqlite3.SQLITE_OK

        connection.set_authorizer(has)

    monkeypatch.setattr(SqliteDatabase, "_set_up_connection", of_an_older_sqlite)
    fill(path, trials=1)
    with Store.open(path) as store:
        assert len(store.trials("a")) == 1
