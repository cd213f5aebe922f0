"""PostgreSQL as the store of a team: all that is particular to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError

from tunnelbench.model.errors import CannotHere, UserError, WrongInput

CONNECT_TIMEOUT_S = 10
"""libpq rounds 1 up to 2 and waits for ever by default (PostgreSQL manual, connect_timeout)."""

UPGRADE_LOCK = 0x74756E6E656C
"""Key of the advisory lock under which tables are made and changed."""


class Server:
    """A store on a database server."""

    patience_s = 60.0
    """How long a write waits for a server that went away: one that restarts is back in seconds."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.name = url.render_as_string(hide_password=True)

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
            return create_engine(self.url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_S})
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

    def lock_out_others(self, connection: Connection) -> None:
        """Until the transaction ends; whoever else wants to make or change tables waits."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})

    @contextmanager
    def keep_copy(self, connection: Connection, number: int) -> Iterator[str]:
        """Copy each table to one called `trial_format_1`, in the same transaction."""
        there = set(inspect(connection).get_table_names())
        suffix = f"_format_{number}"
        for name in sorted(each for each in there if "_format_" not in each):
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
        if isinstance(error, OperationalError):
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
