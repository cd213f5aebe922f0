"""A store in an SQLite file: how it is made and opened, and what SQLite's errors mean for a user."""

from __future__ import annotations

import errno
import os
import re
import resource
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from tunnelbench.host.trust import require_own_companion, require_own_links, require_trusted_store
from tunnelbench.model.errors import CannotHere, StoreLost, UserError, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.store.file_lock import is_locked, lock_run
from tunnelbench.store.location import make_private_folders
from tunnelbench.store.schema import metadata

WRITES = "store_writes"
"""Execution option of a connection that is going to write."""

FILE_HEADER_BYTES = 100
"""Length of the header of every SQLite file (sqlite.org/fileformat.html, section 1.3)."""


class SqliteDatabase:
    """A store in a file."""

    patience_s = 60.0
    reading_options: Mapping[str, Any] = {}
    writing_options: Mapping[str, Any] = {WRITES: True}
    careless: Sequence[str] = ("PRAGMA synchronous = NORMAL", "PRAGMA busy_timeout = 0")
    """NORMAL: in WAL mode, a commit does not wait for the disk (sqlite.org/pragma.html#pragma_synchronous)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._identity: tuple[int, int] | None = None
        """Device and inode of the file after the first write; None: nothing was written."""
        self._has_log = False
        """True if SQLite writes to a log (-wal) next to the file first."""

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        """Return an engine for the file. With `create`, make a missing file (mode 0600) and its folders (0700).

        Raises WrongInput or CannotHere.
        """
        with self.explained():
            require_trusted_store(self.path)
            if create:
                require_own_links(self.path)  # SQLite follows links by itself, without the kernel's protection
            if self.path.exists() and not self.path.is_file():  # reading a pipe, or a device, may never end
                raise _NO_STORE.error(self.path, "it is a folder" if self.path.is_dir() else "it is no regular file")
            if not create or Path(f"{self.path}-wal").exists():
                _require_content(self.path)
            if create:
                make_private_folders(self.path.parent)
                require_trusted_store(self.path)  # again: another user may have made one of them
                _make_file(self.path)
                require_own_links(self.path)  # again: it is what was made, or was there before
            if self.path.is_file() and 0 < self.path.stat().st_size < FILE_HEADER_BYTES:
                raise _NO_STORE.error(self.path, "it is too short")  # SQLite takes one byte for a new database
            if not create and not self.path.exists():
                raise WrongInput(f"there are no results yet at {self.path}", hint="measure some: tunnelbench run")
        engine = create_engine(URL.create("sqlite", database=self.name), connect_args={"timeout": lock_wait_s})
        event.listen(engine, "connect", self._set_up_connection)
        event.listen(engine, "connect", lambda connection, _record: _refuse_programs(connection, self.path))
        event.listen(engine, "begin", _begin)
        return engine

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of the file inside the block into WrongInput or CannotHere; a bug stays as it is."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            original = error.orig if isinstance(error, DBAPIError) else error
            if isinstance(original, sqlite3.Error) and (found := _explanation(original)):
                if found is _NO_ACCESS and _is_read_only(self.path.parent):
                    found = _READ_ONLY
                elif getattr(original, "sqlite_errorname", None) in _ERRORS_OF_SIZE and _has_size_limit():
                    found = _TOO_LARGE
                raise found.error(self.path, str(original)) from error
            raise
        except UnicodeDecodeError as error:  # in a name of SQLite's schema table
            raise _DAMAGED.error(self.path, "it holds text that is not UTF-8") from error
        except OSError as error:
            found = {errno.EROFS: _READ_ONLY, errno.EFBIG: _TOO_LARGE}.get(error.errno or 0, _NO_ACCESS)
            raise found.error(self.path, error.strerror or str(error)) from error

    def is_away(self, error: DBAPIError) -> bool:
        """Return True while another process locks the file: it may take longer than one wait for the lock."""
        return isinstance(error.orig, sqlite3.Error) and _explanation(error.orig) is _LOCKED

    def require_there(self) -> None:
        """Raise StoreLost if the file, or the log in front of it, was deleted, moved, replaced or emptied meanwhile.

        SQLite does not notice: it writes into the file that it has opened, even if the file has no name any more. The
        file must not be opened here: closing it would release all locks that SQLite holds on it in this process
        (sqlite.org/howtocorrupt.html, section 2.2), and the next process that closes the store would delete the log.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            is_gone = True
        else:
            self._identity = self._identity or (found.st_dev, found.st_ino)
            is_gone = self._identity != (found.st_dev, found.st_ino)
            is_gone = is_gone or (self._has_log and not Path(f"{self.path}-wal").exists())
        if is_gone:
            raise StoreLost(
                f"{self.path}: the store was deleted, moved or replaced while it was open",
                hint="put it back, together with the file whose name ends in -wal, if you have both",
            )
        _require_content(self.path)

    def _set_up_connection(self, connection: sqlite3.Connection, _record: object) -> None:
        _require_own_companions(self.path)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # in WAL mode, NORMAL may lose the last commits at a power cut
        with suppress(sqlite3.DatabaseError):  # the first statement reports a damaged file
            self._has_log = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """Lock a file next to the store. The kernel frees the lock when the process ends, also after a kill."""
        return lock_run(self.path, run_id)

    def is_abandoned(self, connection: Connection, run_id: str, started_at: str) -> bool:
        """Return True if no process of this machine, which alone uses the file, holds the lock of the run."""
        return not is_locked(self.path, run_id)

    def lock_out_others(self, connection: Connection) -> None:
        """Do nothing: the transaction holds SQLite's only write lock since it began."""


class Explanation(NamedTuple):
    """The message and the hint for one kind of failure of the file."""

    kind: type[UserError]
    message: str
    """Format with `{path}` and `{why}`."""
    hint: str
    """Format with `{path}`."""

    def error(self, path: Path, why: str) -> UserError:
        return self.kind(self.message.format(path=path, why=why), hint=self.hint.format(path=path))


_NO_ACCESS = Explanation(
    CannotHere,
    "{path}: the store cannot be opened or written: {why}",
    "make the file and its directory writable for you, or set XDG_DATA_HOME to a directory that is",
)
_READ_ONLY = Explanation(
    CannotHere,
    "{path}: the store cannot be opened or written: its file system is read-only",
    "copy it, and the files next to it (-wal, -shm), to a folder that can be written, and name the copy with --store",
)
_FULL = Explanation(CannotHere, "{path}: {why}", "make room on that file system; the trials stored so far are safe")
_TOO_LARGE = Explanation(
    CannotHere,
    "{path}: the store cannot be written: {why}",
    "raise the limit of the size of files (ulimit -f); the trials stored so far are safe",
)
_LOCKED = Explanation(
    CannotHere,
    "{path}: {why}: another process has been writing for too long",
    "find the process with fuser {path}, and try again when it has ended",
)
_DAMAGED = Explanation(
    StoreLost,
    "{path}: the store is damaged: {why}",
    "move it away, and save what can be read: sqlite3 {path} .recover | sqlite3 saved.sqlite",
)
_NO_STORE = Explanation(
    WrongInput, "{path}: not a store of TunnelBench: {why}", "name another file, or move this one away"
)

_EXPLANATIONS = {
    "SQLITE_NOTADB": _NO_STORE,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_FULL": _FULL,
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_READONLY": _NO_ACCESS,
    "SQLITE_CANTOPEN": _NO_ACCESS,
    "SQLITE_PERM": _NO_ACCESS,
    "SQLITE_IOERR": _NO_ACCESS,
    "SQLITE_TOOBIG": _DAMAGED,
}
"""Explanations; the key is the beginning of the name of SQLite's extended result code."""

_ERRORS_OF_SIZE = tuple(f"SQLITE_IOERR_{name}" for name in ("WRITE", "SHMSIZE", "SHMMAP", "SHMOPEN"))
"""SQLite's names of the errors that a limit of the size of files causes."""

_SIGNS_OF_DAMAGE = (
    "no such table",
    "no such column",
    "has no column",
    "malformed",
    "Could not decode to UTF-8",
    "duplicate column",
)
"""Parts of SQLite's messages, without a result code of their own, after damage to names of tables or to a text."""


_PLAIN = re.compile(r"create\s+(?:table\b.*|(?:unique\s+)?index\b[^()]*\([^()]*\)\s*)", re.IGNORECASE | re.DOTALL)
"""Statements that make a table, or an index of columns alone."""
_EXPRESSION = re.compile(r"\b(?:as|check|default)\b", re.IGNORECASE)
"""Words before an expression of a table (sqlite.org/lang_createtable.html): a generated column, a constraint and a
default."""
_TRIGGER = re.compile(r"create\b.*?\btrigger\b", re.IGNORECASE | re.DOTALL)


def _explanation(error: sqlite3.Error) -> Explanation | None:
    name: Any = getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"
    if name == "SQLITE_ERROR":
        return _DAMAGED if any(sign in str(error) for sign in _SIGNS_OF_DAMAGE) else None
    return next((found for beginning, found in _EXPLANATIONS.items() if name.startswith(beginning)), None)


def _require_content(path: Path) -> None:
    """Raise StoreLost if a file is empty: a store that was made is not, so the file was cut off.

    SQLite would take it for a new database, and delete the log next to it, which may hold the last trials.
    """
    if path.is_file() and path.stat().st_size == 0:
        raise StoreLost(
            f"{path}: the store is damaged: the file has 0 bytes",
            hint="restore it from a copy, or move it away together with the files next to it (-wal, -shm)",
        )


def _require_own_companions(path: Path) -> None:
    """Raise WrongInput or PermissionError if a file next to the store could do what the store's owner has not done.

    A store of TunnelBench is in WAL mode and has no rollback journal. A journal that came with the store of another
    person could name any file of the machine, which SQLite would then delete (sqlite.org/atomiccommit.html, section
    5.5). Root uses no log that another user has put next to a store: SQLite takes its pages for the store's.
    """
    store = Path(os.path.realpath(path))  # SQLite looks next to the file to which links lead
    journal = store.with_name(f"{store.name}-journal")
    if os.path.lexists(journal):
        raise _NO_STORE.error(path, f"{printable(journal.name)} next to it could make SQLite delete other files")
    for ending in ("-wal", "-shm"):
        require_own_companion(store.with_name(store.name + ending), store)


def _is_read_only(folder: Path) -> bool:
    """Return True if a folder is on a file system that is mounted read-only."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _has_size_limit() -> bool:
    """Return True if the size of the files that this process writes is limited; SQLite does not give the reason."""
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def _make_file(path: Path) -> None:
    """Make an empty file in WAL mode, in which readers and the writer do not wait for each other.

    SQLite keeps the mode in the file, so that opening a store of another format later changes no byte.
    """
    is_new = True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.stat().st_size > 0:
            return
        is_new = False
    _require_own_companions(path)
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")  # a rollback journal would be taken for another person's
            connection.execute("PRAGMA journal_mode = WAL").fetchall()  # an error of the disk comes after the first row
    except sqlite3.Error:
        if is_new and path.stat().st_size == 0:  # on a full disk: an empty file would be taken for a damaged store
            path.unlink()
        raise


def _refuse_programs(connection: sqlite3.Connection, path: Path) -> None:
    """Raise WrongInput if a table of the file is a view, is virtual or has expressions, or if there is a trigger.

    The file may come from another person. A query of such a table may never end, and SQLite handles no signal during
    it. The type in SQLite's schema table may differ from the SQL next to it. `pragma_table_list` would give the real
    type, but SQLite before 3.37 does not have it.
    """
    for name, table, sql in connection.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        is_ours = str(name).lower() in metadata.tables or str(table).lower() in metadata.tables
        is_plain = _PLAIN.fullmatch(str(sql)) and not _EXPRESSION.search(str(sql))
        if _TRIGGER.match(str(sql)) or (is_ours and not is_plain):
            what = "is a view, a virtual table or a trigger, or has an expression"
            raise _NO_STORE.error(path, f"{printable(str(name)[:60])} {what}")
    # Pages that name each other, or one page many times, are a table without an end.
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if found.startswith("***"):
        raise _DAMAGED.error(path, printable(found.partition("\n")[2]))


def _begin(connection: Connection) -> None:
    """Begin a transaction: the BEGIN of Python's sqlite3 module comes too late for reads and for CREATE TABLE.

    A writer takes its lock immediately: a reader that becomes a writer fails at once if another process has the lock.
    """
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
