"""Brings a store to the format of this version, or refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, func, insert, inspect, select

from tunnelbench import __version__
from tunnelbench.model.errors import WrongInput
from tunnelbench.store import migrations, schema
from tunnelbench.store.sqlite import WRITES


class Database(Protocol):
    """What differs between SQLite and a server when a store is brought up."""

    name: str
    writing_options: Mapping[str, Any]
    """On a server, of an isolation in which one who waited for the lock sees what the other made."""

    def lock_out_others(self, connection: Connection) -> None:
        """Let nobody else change the tables until the transaction ends."""

    def keep_copy(self, connection: Connection, number: int) -> AbstractContextManager[str]:
        """Copy what is there, of an older format, and say where; it goes again where the block fails."""


def bring_up_to_date(engine: Engine, database: Database) -> str:
    """Make the tables of an empty store, and migrate an older one in one transaction, a copy of it kept.

    Returns a sentence on what was changed and where the copy is; empty where nothing was migrated. WrongInput, with
    nothing changed, where the store is of a newer format or is not a store at all.
    """
    with engine.connect() as connection:
        if _number(connection, database.name) == schema.FORMAT:
            return ""
    with engine.execution_options(**{WRITES: True, **database.writing_options}).begin() as connection:
        database.lock_out_others(connection)
        number = _number(connection, database.name)  # another process may have been faster
        if number is None:
            schema.metadata.create_all(connection)
            _note(connection, schema.FORMAT)
            return ""
        if number == schema.FORMAT:
            return ""
        with database.keep_copy(connection, number) as copy:
            for reached, migrate in enumerate(migrations.MIGRATIONS[number - 1 :], start=number + 1):
                migrate(connection)
                _note(connection, reached)
            connection.commit()
    return f"{database.name}: brought from format {number} to {schema.FORMAT}; the store as it was is kept as {copy}"


def _number(connection: Connection, name: str) -> int | None:
    """The store's format; None where there are no tables at all."""
    inspector = inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return None
    history = schema.format_history
    is_ours = history.name in tables and {column["name"] for column in inspector.get_columns(history.name)} >= {
        column.name for column in history.columns
    }
    number = connection.scalar(select(func.max(history.c.number))) if is_ours else None
    if number is None or number < 1:
        raise WrongInput(
            f"{name}: not a store of TunnelBench: it holds tables of another program",
            hint="name another file, or move this one away",
        )
    if number > schema.FORMAT:
        raise WrongInput(
            f"{name}: the store has format {number}, and this TunnelBench {__version__} knows formats up to "
            f"{schema.FORMAT}",
            hint="use the version of TunnelBench that wrote it, or a newer one; the store was not changed",
        )
    return int(number)


def _note(connection: Connection, number: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(
        insert(schema.format_history).values(number=number, tunnelbench_version=__version__, since=since)
    )
