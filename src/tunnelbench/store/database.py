"""The interface to one kind of database, and the choice of the kind by a path or a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from tunnelbench.model.errors import WrongInput
from tunnelbench.store.postgresql import Server
from tunnelbench.store.sqlite import SqliteDatabase

IN_MEMORY = ":memory:"
"""Name of a file that SQLite does not make (sqlite.org/inmemorydb.html)."""


class Database(Protocol):
    """The interface that hides the differences between SQLite and a database server."""

    name: str
    """Path or URL."""
    patience_s: float
    """Time for which a write is repeated while the server is away, or while another process locks the file [s]."""
    reading_options: Mapping[str, Any]
    """Execution options of connections that read: each connection reads the database as it was at one moment."""
    writing_options: Mapping[str, Any]
    """Execution options of connections that write."""

    careless: Sequence[str]
    """Statements that let a session wait neither for the disk nor for other writers, for rows that may be lost."""

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        """Return an engine for the database. Raises WrongInput or CannotHere."""

    def explained(self) -> AbstractContextManager[None]:
        """Turn errors of the database inside the block into WrongInput or CannotHere with a hint."""

    def is_away(self, error: DBAPIError) -> bool:
        """Return True if an error means that the server is not reachable, or the file locked, only for now."""

    def require_there(self) -> None:
        """Raise StoreLost if what was written is not where the store was opened. Called after each write.

        On a server, it keeps the lock that `hold` took.
        """

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """Lock a run, so that no other process measures it; returns the function that unlocks it.

        Raises CannotHere if another process holds the lock.
        """

    def is_abandoned(self, connection: Connection, run_id: str, started_at: str) -> bool:
        """Return True if the process that measured a run has surely ended, although the run is listed as running."""

    def lock_out_others(self, connection: Connection) -> None:
        """Keep other processes from changing the tables until the transaction ends."""


def database_of(path_or_url: Path | str) -> Database:
    """Return the database at a path or URL, not yet opened. Raises WrongInput."""
    path = path_or_url
    if isinstance(path_or_url, str) and "://" in path_or_url:
        try:
            url = make_url(path_or_url)
        except (ArgumentError, ValueError) as error:  # the text may hold a password: the message does not repeat it
            raise WrongInput("--store: not a database URL", hint="write postgresql://USER@HOST/NAME") from error
        if path_or_url.partition("://")[2].partition("/")[0].count("@") > 1:
            # SQLAlchemy ends the password at the first @; messages would show the rest of it as the host.
            raise WrongInput("--store: the user or the password has an @", hint="write %40 in place of the first @")
        if url.get_backend_name() != "sqlite":
            return Server(url)
        path = url.database or ""
    if str(path) == IN_MEMORY:
        raise WrongInput(f"--store: SQLite would keep {IN_MEMORY} in memory, and lose it", hint="name another file")
    try:
        return SqliteDatabase(Path(path).expanduser())
    except RuntimeError as error:
        raise WrongInput(f"{path}: {error}", hint="write the path out") from error
