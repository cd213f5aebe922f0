"""PostgreSQL as the store of a team: all that is particular to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError

from tunnelbench.model.errors import CannotHere, UserError, WrongInput
from tunnelbench.store.schema import metadata

CONNECT_TIMEOUT_S = 10
"""libpq rounds 1 up to 2 and waits for ever by default (PostgreSQL manual, connect_timeout)."""

NETWORK_LIMITS = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A network that was cut is noticed within half a minute (libpq; the last in milliseconds)."""

SECRETS = ("password", "passfile", "sslpassword")
"""What libpq takes from a URL's query and nobody is to see."""

UPGRADE_LOCK = 0x74756E6E656C
"""Key of the advisory lock under which tables are made and changed."""


class Server:
    """A store on a database server."""

    patience_s = 60.0
    """How long a write waits for a server that went away: one that restarts is back in seconds."""

    reading_options: Mapping[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    """All that one look reads is of one moment, whatever others write meanwhile."""
    writing_options: Mapping[str, Any] = {"isolation_level": "READ COMMITTED"}
    """Whatever the server's default: nothing here needs more, and a stricter one would make writers fail."""

    def __init__(self, url: URL) -> None:
        self.url = url
        hidden = {name: "***" for name in url.query if name in SECRETS}
        self.name = url.update_query_dict(hidden).render_as_string(hide_password=True).replace("%2A", "*")

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        """An engine; WrongInput or CannotHere where this installation cannot speak to a database of that kind."""
        unknown = WrongInput(
            f"{self.name}: there is no database of the kind {self.url.drivername} here",
            hint="a file, or postgresql://USER@HOST/NAME",
        )
        if self.url.get_backend_name() != "postgresql":
            raise unknown
        try:
            # Whoever asks for a connection gets one that lives: a server restarts between two trials, too.
            return create_engine(self.url, pool_pre_ping=True, connect_args=NETWORK_LIMITS)
        except NoSuchModuleError as error:
            raise unknown from error
        except ModuleNotFoundError as error:
            package = "'tunnelbench[postgresql]'" if error.name == "psycopg" else error.name
            raise CannotHere(
                f"{self.name}: the Python package {error.name} is missing", hint=f"pip install {package}"
            ) from error

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns a server that is not there, or refuses, into a sentence; the URL is shown without its password."""
        try:
            yield
        except DBAPIError as error:
            if known := self._explanation(error):
                raise known from error
            raise

    def is_away(self, error: DBAPIError) -> bool:
        """Whether the server went away, or is coming up: it may answer in a moment."""
        if error.connection_invalidated:
            return True
        # libpq tells of a connection that was refused in words alone, without a state.
        state = _state(error)
        return state.startswith(("08", "57P")) or (isinstance(error, OperationalError) and not state)

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """An advisory lock for as long as the connection lives: who is gone holds none."""
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        asked = text("SELECT pg_try_advisory_lock(hashtextextended(:run_id, 0))")
        if not connection.scalar(asked, {"run_id": run_id}):
            connection.close()
            raise CannotHere(
                f"run {run_id} is being measured by another machine, or by another process of this one",
                hint="wait until it ends; tunnelbench list runs says how far it is",
            )

        def let_go() -> None:
            with suppress(DBAPIError):  # the server may have restarted
                connection.invalidate()
                connection.close()

        return let_go

    def lock_out_others(self, connection: Connection) -> None:
        """Until the transaction ends; whoever else wants to make or change tables waits."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})

    @contextmanager
    def keep_copy(self, connection: Connection, number: int) -> Iterator[str]:
        """Copy each table to one called `trial_format_1`, in the same transaction."""
        there = set(inspect(connection).get_table_names())
        suffix = f"_format_{number}"
        for name in sorted(there & set(metadata.tables)):  # a database may hold other people's tables, too
            if f"{name}{suffix}" not in there:
                quote = connection.dialect.identifier_preparer.quote
                connection.execute(text(f"CREATE TABLE {quote(name + suffix)} AS TABLE {quote(name)}"))
        yield f"tables *{suffix}"

    def _explanation(self, error: DBAPIError) -> UserError | None:
        why = str(error.orig).strip().partition("\n")[0]
        state = _state(error)
        for beginning, hint in _HINTS.items():
            if state.startswith(beginning):
                return CannotHere(f"{self.name}: {why}", hint=hint)
        if isinstance(error, OperationalError) or not state:  # without a state it is libpq that complains
            return CannotHere(f"{self.name}: {why}", hint="is the server up, and are user and password right?")
        return None


_HINTS = {
    "42501": "give this user the right: GRANT ALL ON SCHEMA public, and on its tables",
    "25006": "the database may only be read: name the server that takes writes",
    "53": "the server is out of disk, memory or connections; the trials stored so far are safe",
    "42P01": "a table is missing: was the store changed by hand?",
    "42703": "a column is missing: was the store changed by hand?",
}
"""By the beginning of the SQLSTATE (PostgreSQL manual, appendix A)."""


def _state(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")
