"""All that is particular to SQLite: the file, its settings, and what its errors mean for a user."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from tunnelbench.model.errors import CannotHere, UserError, WrongInput

WRITES = "store_writes"
"""Execution option of a connection that is going to write."""


class File:
    """A store in a file."""

    patience_s = 0.0
    """A file does not come back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        return open_file(self.path, create=create, lock_wait_s=lock_wait_s)

    def explained(self) -> AbstractContextManager[None]:
        return explained(self.path)

    reading_options: Mapping[str, Any] = {}
    writing_options: Mapping[str, Any] = {}

    def is_away(self, error: DBAPIError) -> bool:
        return False

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """One machine's file: the machine's lock keeps other runs off."""
        return lambda: None

    def lock_out_others(self, connection: Connection) -> None:
        """The transaction has the one writer's lock since it began."""

    @contextmanager
    def keep_copy(self, connection: Connection, number: int) -> Iterator[str]:
        """Copy the file as committed, to `results.format-1.sqlite` beside it; a copy that is there is not touched."""
        copy = self.path.with_suffix(f".format-{number}{self.path.suffix}")
        for attempt in itertools.count(2):
            if not copy.exists():
                break
            copy = self.path.with_suffix(f".format-{number}-{attempt}{self.path.suffix}")
        partial = copy.with_name(f"{copy.name}.partial")
        try:
            partial.unlink(missing_ok=True)
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(partial)) as target:
                source.backup(target)
            partial.replace(copy)  # sqlite has flushed it to the disk
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        try:
            yield str(copy)
        except BaseException:
            copy.unlink()
            raise


HEADER_BYTES = 100
"""Of every SQLite file (sqlite.org/fileformat.html, 1.3)."""


def open_file(path: Path, *, create: bool, lock_wait_s: float) -> Engine:
    """An engine for a store's file, which is made where it is missing: mode 0600, missing parents 0700."""
    with explained(path):
        if create:
            _make_parents(path.parent)
            _make_file(path)
        if path.is_file() and 0 < path.stat().st_size < HEADER_BYTES:
            raise _no_store(path, "it is too short")  # of one byte SQLite would make a new database
        if not create and not path.exists():
            raise WrongInput(f"there are no results yet at {path}", hint="measure some: tunnelbench run")
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": lock_wait_s})
    event.listen(engine, "connect", _set_up_connection)
    event.listen(engine, "begin", _begin)
    return engine


def _make_parents(directory: Path) -> None:
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _make_file(path: Path) -> None:
    """An empty file in WAL mode, in which readers and the writer do not wait for each other; the mode is kept in the
    file, so that one of another format is opened without a byte changed."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.is_dir() or path.stat().st_size > 0:
            return
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _set_up_connection(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # in WAL mode, NORMAL may lose the last commits with the power


def _begin(connection: Connection) -> None:
    """The module's own BEGIN comes too late for reads and for tables.

    A writer takes its lock at once: a reader that turns writer cannot wait, it would have to start again.
    """
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns what can go wrong with the file into a sentence and a remedy; a bug stays what it is."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error) and (known := _explanation(path, error.orig)):
            raise known from error
        raise
    except sqlite3.Error as error:
        if known := _explanation(path, error):
            raise known from error
        raise
    except UnicodeDecodeError as error:  # of a name in the tables of tables
        raise _damaged(path, "it holds text that is none") from error
    except OSError as error:
        raise _elsewhere(path, error.strerror or str(error)) from error


def _explanation(path: Path, error: sqlite3.Error) -> UserError | None:
    name: Any = getattr(error, "sqlite_errorname", None) or ""
    if name == "SQLITE_ERROR" or not name:
        return _damaged(path, str(error)) if any(sign in str(error) for sign in _SIGNS_OF_DAMAGE) else None
    for beginning, explain in _EXPLANATIONS.items():
        if name.startswith(beginning):
            return explain(path, str(error))
    return None


def _elsewhere(path: Path, why: str) -> UserError:
    return CannotHere(
        f"{path}: the store cannot be opened or written: {why}",
        hint="make the file and its directory writable for you, or set XDG_DATA_HOME to a directory that is",
    )


def _full(path: Path, why: str) -> UserError:
    return CannotHere(f"{path}: {why}", hint="make room on that file system; the trials stored so far are safe")


def _locked(path: Path, why: str) -> UserError:
    return CannotHere(
        f"{path}: {why}: another process has been writing for too long",
        hint=f"see which: fuser {path}; try again when it has ended",
    )


def _damaged(path: Path, why: str) -> UserError:
    return CannotHere(
        f"{path}: the store is damaged: {why}",
        hint=f"move it away, and save what can be read: sqlite3 {path} .recover | sqlite3 saved.sqlite",
    )


def _no_store(path: Path, why: str) -> UserError:
    return WrongInput(f"{path}: not a store of TunnelBench: {why}", hint="name another file, or move this one away")


_SIGNS_OF_DAMAGE = (
    "no such table",
    "no such column",
    "has no column",
    "malformed",
    "Could not decode to UTF-8",
    "duplicate column",
)
"""What SQLite says in words alone where a damaged page holds the tables' names, or a text."""

_EXPLANATIONS = {
    "SQLITE_NOTADB": _no_store,
    "SQLITE_CORRUPT": _damaged,
    "SQLITE_FULL": _full,
    "SQLITE_BUSY": _locked,
    "SQLITE_LOCKED": _locked,
    "SQLITE_READONLY": _elsewhere,
    "SQLITE_CANTOPEN": _elsewhere,
    "SQLITE_PERM": _elsewhere,
    "SQLITE_IOERR": _elsewhere,
}
"""By the beginning of the name of SQLite's extended result code."""
