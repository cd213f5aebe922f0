"""Brings a store to the format of this version, or refuses it."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, insert, inspect, select

from tunnelbench import __version__
from tunnelbench.model.errors import WrongInput
from tunnelbench.store import schema
from tunnelbench.store.sqlite import WRITES


def bring_up_to_date(engine: Engine, name: str) -> None:
    """Make the tables of an empty store, and migrate an older one in one transaction.

    WrongInput, with nothing changed, where the store is of a newer format or is not a store at all.
    """
    with engine.connect() as connection:
        if _number(connection, name) == schema.FORMAT:
            return
    with engine.execution_options(**{WRITES: True}).begin() as connection:
        number = _number(connection, name)  # another process may have been faster
        if number is None:
            schema.metadata.create_all(connection)
            _note(connection, schema.FORMAT)
            return
        for migrate in schema.MIGRATIONS[number - 1 :]:
            migrate(connection)
            number += 1
            _note(connection, number)


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
    if number is None:
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
