"""The format of a store: makes the tables of a new one, upgrades an older one, refuses a newer one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, insert, inspect, select, text

from tunnelbench import __version__
from tunnelbench.model.errors import WrongInput
from tunnelbench.store import schema
from tunnelbench.store.database import Database


def add_progress(connection: Connection) -> None:
    """Make the table of the progress of running runs."""
    connection.execute(
        text(
            "CREATE TABLE progress (run_id TEXT NOT NULL, progress TEXT NOT NULL, checksum TEXT NOT NULL, "
            "PRIMARY KEY (run_id), FOREIGN KEY(run_id) REFERENCES run (run_id))"
        )
    )


UPGRADES: tuple[Callable[[Connection], None], ...] = (add_progress,)
"""Upgrade functions in order: the first one turns format 1 into format 2, the second one format 2 into format 3.

An upgrade states its tables and columns in SQL of its own, because `schema.py` holds those of the newest format. A
released upgrade never changes. docs/data-format.md lists the steps to add one.
"""


def bring_up_to_date(engine: Engine, database: Database) -> str:
    """Make the tables of an empty store, or upgrade an older store in one transaction.

    Returns a sentence about the upgrade, and an empty text if there was none. Raises WrongInput, and changes nothing,
    if the store has a newer format or belongs to another program.
    """
    with engine.connect() as connection:
        if _number(connection, database.name) == schema.STORE_FORMAT:
            return ""
    with engine.execution_options(**database.writing_options).begin() as connection:
        database.lock_out_others(connection)
        number = _number(connection, database.name)  # another process may have been faster
        if number is None:
            schema.metadata.create_all(connection)
            _note(connection, schema.STORE_FORMAT)
        if number in (None, schema.STORE_FORMAT):
            return ""
        for reached, upgrade in enumerate(UPGRADES[number - 1 :], start=number + 1):
            upgrade(connection)
            _note(connection, reached)
    return f"{database.name}: upgraded from format {number} to {schema.STORE_FORMAT}"


def require_up_to_date(engine: Engine, database: Database) -> None:
    """Raise WrongInput, and change nothing, unless the store has the format of this version."""
    with engine.connect() as connection:
        number = _number(connection, database.name)
    if number != schema.STORE_FORMAT:
        raise WrongInput(
            f"{database.name}: the store has format {number or 0}, and this version reads format {schema.STORE_FORMAT}",
            hint="upgrade it: tunnelbench list runs",
        )


def _number(connection: Connection, name: str) -> int | None:
    """Return the format of the store, or None if the database has no tables."""
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
    if number > schema.STORE_FORMAT:
        raise WrongInput(
            f"{name}: the store has format {number}, but TunnelBench {__version__} reads formats up to "
            f"{schema.STORE_FORMAT}",
            hint="open it with the version of TunnelBench that wrote it; this version did not change it",
        )
    return int(number)


def _note(connection: Connection, number: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(
        insert(schema.format_history).values(number=number, tunnelbench_version=__version__, since=since)
    )
