"""A store on a PostgreSQL server, for a team."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError, OperationalError

from tunnelbench.host.python_packages import POSTGRESQL, install_hint
from tunnelbench.model.errors import CannotHere, MeasuredElsewhere, StoreAway, StoreLost, UserError, WrongInput
from tunnelbench.model.text import LONGEST_REASON, first_line, printable

CONNECT_TIMEOUT_S = 10
"""Longest time for a connection [s]; libpq waits without limit by default (PostgreSQL manual, connect_timeout)."""

NETWORK_LIMITS = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Options of libpq that detect a broken network within half a minute [s]; the last one is in milliseconds."""

TABLE_LOCK_WAIT_S = 10.0
"""Longest wait for a table or a row that another session has locked [s]; PostgreSQL waits without limit by default."""

STATEMENT_LIMIT_S = 300.0
"""Longest time of one statement with all of its rows [s]: longer than each wait for a lock."""


_NO_STORE_THERE = "the tables are not those that TunnelBench made, or the server is no PostgreSQL: name another store"

UPGRADE_WAIT_S = 120.0
"""Longest wait for another process that makes or changes tables [s]."""

NO_VERSION = "Could not determine version"
"""Beginning of SQLAlchemy's message if a server answers `SELECT version()` with something else."""

SECRET_PARAMETERS = {"password", "sslpassword"}
"""Parameters of libpq that hold a password."""

UPGRADE_LOCK = 0x74756E6E656C
"""Key of the advisory lock that a process holds while it makes or changes tables."""

RUN_LOCK_KEY = "hashtextextended(:run_id, 0)"
"""Key of the advisory lock on a run, in SQL."""

RUN_LOCK_WAIT_S = 1.0
"""Longest wait for the lock on a run [s]: a process that looks for killed runs holds it for a moment."""

SESSION_END_WAIT_S = 5.0
"""Longest wait for the lock after the process has ended its own earlier session [s]; a busy server needs time."""

OWN_SESSION = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
END_SESSION = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :begun_at"
"""SQL that ends one session. The start time is compared too, because a server reuses the numbers of ended sessions."""

RETAKE_LIMIT_S = 3600
"""Time after a server's start in which a run may lack its lock [s]: the run's next write takes it again."""


class Server:
    """A store on a database server."""

    patience_s = 60.0
    """Time for which a write waits for a server that is away [s]; a restart takes seconds."""

    reading_options: Mapping[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    writing_options: Mapping[str, Any] = {"isolation_level": "READ COMMITTED"}
    """Isolation of writers, independent of the server's default: a stricter one would make writers fail."""

    careless: Sequence[str] = ("SET synchronous_commit TO off", "SET lock_timeout TO 100")
    """The lock timeout is in milliseconds."""

    def __init__(self, url: URL) -> None:
        """Raises WrongInput if the URL has a password."""
        if url.password or SECRET_PARAMETERS & {name.lower() for name in url.query}:
            raise WrongInput(
                "--store: the URL has a password, which `ps` shows to every user of the machine",
                "put it into a service file of libpq (~/.pg_service.conf), and write postgresql:///?service=NAME",
            )
        self.url = url
        self._run_lock: RunLock | None = None
        self.name = url.render_as_string()

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        """Return an engine. Raises WrongInput or CannotHere if this installation has no driver for the database."""
        unknown = WrongInput(
            f"{self.name}: no database of the kind {self.url.drivername} is supported",
            hint="name a file, or write postgresql://USER@HOST/NAME",
        )
        if self.url.get_backend_name() != "postgresql":
            raise unknown
        try:
            # pool_pre_ping replaces connections that a restart of the server broke between two trials
            engine = create_engine(self.url, pool_pre_ping=True, connect_args=NETWORK_LIMITS)
        except NoSuchModuleError as error:
            raise unknown from error
        except ModuleNotFoundError as error:
            hint = "write postgresql:// at its beginning, which uses the driver psycopg"
            raise CannotHere(
                f"{self.name}: the Python package {error.name} is missing",
                install_hint(POSTGRESQL) if error.name == "psycopg" else hint,
            ) from error
        event.listen(engine, "do_connect", _connected)
        event.listen(engine, "connect", _limit_waits)
        try:
            with self.explained(), engine.connect():
                pass
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = printable(f"{type(error).__name__}: {error}")[:LONGEST_REASON]
            raise CannotHere(f"{self.name}: the server's answers make no sense ({why})", _NO_STORE_THERE) from error
        return engine

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of the server inside the block into CannotHere."""
        try:
            yield
        except DBAPIError as error:
            if known := self._explanation(error):
                raise known from error
            raise
        except AssertionError as error:
            if NO_VERSION not in str(error):
                raise
            raise CannotHere(
                f"{self.name}: the server is no PostgreSQL, because it has no version of it", hint="name another server"
            ) from error

    def is_away(self, error: DBAPIError) -> bool:
        """Return True if the server stops, starts or cannot be reached: it may answer in a moment."""
        if error.connection_invalidated:
            return True
        # libpq reports a refused connection without an SQLSTATE
        state = _state(error)
        return state.startswith(("08", "57P")) or (isinstance(error, OperationalError) and not state)

    def require_there(self) -> None:
        """Take the lock of the run again if its connection is broken. Raises CannotHere as `hold`.

        A server itself reports a table that is missing.
        """
        if self._run_lock:
            self._run_lock.keep()

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """Take an advisory lock on the run. The server frees it when the connection ends, also after a crash."""
        lock = RunLock(engine, run_id)
        lock.take()
        self._run_lock = lock

        def unlock() -> None:
            self._run_lock = None
            lock.free()

        return unlock

    def is_abandoned(self, connection: Connection, run_id: str, started_at: str) -> bool:
        """Return True if no controller holds the lock of a run that is listed as running.

        Soon after a start of the server, a run that began earlier may have a controller that has lost the lock.
        """
        is_known = f"""
            SELECT pg_try_advisory_xact_lock({RUN_LOCK_KEY})
            AND (pg_postmaster_start_time() < CAST(:started_at AS timestamptz)
                 OR pg_postmaster_start_time() < now() - make_interval(secs => {RETAKE_LIMIT_S}))
        """
        return bool(connection.scalar(text(is_known), {"run_id": run_id, "started_at": started_at}))

    def lock_out_others(self, connection: Connection) -> None:
        """Make other processes that want to make or change tables wait until the transaction ends."""
        connection.execute(text(f"SET LOCAL lock_timeout = {UPGRADE_WAIT_S * 1000:.0f}"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        connection.execute(text(f"SET LOCAL lock_timeout = {TABLE_LOCK_WAIT_S * 1000:.0f}"))

    def _explanation(self, error: DBAPIError) -> UserError | None:
        why = first_line(str(error.orig))
        state = _state(error)
        for beginning, hint in _HINTS.items():
            if state.startswith(beginning):
                kind = StoreLost if beginning in _SIGNS_OF_LOSS else CannotHere
                return kind(f"{self.name}: {why}", hint=hint)
        if self.is_away(error):
            return StoreAway(f"{self.name}: {why}", hint=_HINT_IF_AWAY)
        if isinstance(error, OperationalError) or not state:  # an error without an SQLSTATE comes from libpq
            return CannotHere(f"{self.name}: {why}", hint=_HINT_IF_AWAY)
        if isinstance(error, IntegrityError):
            return None  # callers know what it means
        return CannotHere(f"{self.name}: {why}", _NO_STORE_THERE)


_HINT_IF_AWAY = "check that the server is up, and that user and password are right"
_HINTS = {
    "42501": "give this user the role tunnelbench_submit or, for a rack, tunnelbench_work; on a database without these "
    "roles: GRANT ALL ON SCHEMA public, and on its tables",
    "25006": "the database is read-only: name the server that takes writes",
    "55P03": "another session has locked a table (pg_stat_activity lists the sessions): try again when it has ended",
    "53": "the server is out of disk, memory or connections; the trials stored so far are safe",
    "42P01": "a table is missing: restore the store from a copy, or name another one",
    "42703": "a column is missing: restore the store from a copy, or name another one",
}
"""Hints for errors; the key is the beginning of the SQLSTATE (PostgreSQL manual, appendix A)."""
_SIGNS_OF_LOSS = ("42P01", "42703")
"""Keys of `_HINTS` that mean that stored results are gone."""


def _state(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


class RunLock:
    """The advisory lock on a run, held by the process that measures the run, on a separate connection."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._connection: Connection | None = None
        self._session: dict[str, Any] | None = None
        """Number and start of the server's session that took the lock last; None before the first."""

    def take(self) -> None:
        """Take the lock. Raises MeasuredElsewhere if another process has it.

        After a broken network, the server may keep the earlier session of this process, and its lock: `take` ends that
        session.
        """
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            has_ended = self._session and connection.scalar(text(END_SESSION), self._session)
            self._wait_for(connection, SESSION_END_WAIT_S if has_ended else RUN_LOCK_WAIT_S)
            pid, begun_at = connection.execute(text(OWN_SESSION)).one()
        except BaseException:
            _disconnect(connection)
            raise
        self._session = {"pid": pid, "begun_at": begun_at}
        self._connection = connection

    def _wait_for(self, connection: Connection, limit_s: float) -> None:
        asked = text(f"SELECT pg_try_advisory_lock({RUN_LOCK_KEY})")
        give_up_s = time.monotonic() + limit_s
        while not connection.scalar(asked, {"run_id": self._run_id}):
            if time.monotonic() > give_up_s:
                raise MeasuredElsewhere(
                    f"run {self._run_id} is being measured by another machine, or by another process of this one",
                    hint="wait until it ends; tunnelbench list runs shows its progress",
                )
            time.sleep(0.05)

    def keep(self) -> None:
        """Take the lock again if its connection is broken; if the server is away, the next call tries again."""
        try:
            if self._connection is not None:
                self._connection.scalar(text("SELECT 1"))
        except DBAPIError:
            self.free()
        if self._connection is None:
            with suppress(DBAPIError):
                self.take()

    def free(self) -> None:
        """Free the lock. A second call has no effect."""
        if self._connection is not None:
            _disconnect(self._connection)
            self._connection = None


def _connected(dialect: Dialect, _record: object, words: Sequence[Any], settings: Mapping[str, Any]) -> Any:
    """Return a new connection with time limits, so that no call on it waits for the server for ever.

    A server that hangs answers the keepalives of TCP all the same, and one of another person may answer without end.
    """
    connection = dialect.loaded_dbapi.connect(*words, **settings)
    wait = connection.wait

    def bounded(*arguments: Any, **options: Any) -> Any:
        socket_copy = socket.socket(fileno=os.dup(connection.fileno()))
        watchdog = Timer(STATEMENT_LIMIT_S, _shut_down, [socket_copy])
        watchdog.daemon = True
        with socket_copy:
            watchdog.start()
            try:
                return wait(*arguments, **options)
            finally:
                watchdog.cancel()
                watchdog.join()

    connection.wait = bounded
    return connection


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        connection.shutdown(socket.SHUT_RDWR)


def _limit_waits(connection: Any, _record: object) -> None:
    """Set the limits of waits in a new session: for locks, and of the server for a client that is gone.

    By default a server keeps the session of a machine without power, and the lock on its run, for two hours. As options
    of libpq, a pooler could refuse these settings.
    """
    names = [name for name in NETWORK_LIMITS if name != "connect_timeout"]  # the server's names begin with tcp_
    limits = {f"tcp_{name.removeprefix('tcp_')}": NETWORK_LIMITS[name] for name in names}
    limits["lock_timeout"] = round(TABLE_LOCK_WAIT_S * 1000)
    cursor = connection.cursor()
    cursor.execute("; ".join(f"SET {name} = {value}" for name, value in limits.items()))  # in one round trip
    cursor.close()
    connection.commit()  # a rollback would undo the setting


def _disconnect(connection: Connection) -> None:
    """Close a connection, and do not give it back to the pool: its session may hold a lock."""
    with suppress(DBAPIError):  # the server may have restarted
        connection.invalidate()
        connection.close()
