"""Checksums of rows. They detect a changed digit; a database itself detects only a broken page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

CHECKSUM_COLUMN = "checksum"
"""Name of the column."""


HELD = frozenset({str, int, float, type(None)})
"""Types of the values in a store."""

_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Returns the JSON of a row. One encoder serves all rows, because a long run has many."""


def checksum(row: Mapping[Any, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of the columns of a row that are not null, sorted by name.

    A later format can add a column that is null in older rows: their checksums stay valid.
    """
    held = sorted([(name, value) for name, value in row.items() if value is not None and name != CHECKSUM_COLUMN])
    return sha256(_written(held).encode()).hexdigest()


def is_intact(row: Mapping[Any, Any]) -> bool:
    """Return True if a row matches its checksum."""
    if not HELD.issuperset(map(type, row.values())):
        return False  # damage has changed the type of a text, or a server has columns of other types
    return bool(row[CHECKSUM_COLUMN] == checksum(row))


def change_row(
    connection: Connection,
    table: Table,
    is_it: ColumnElement[bool],
    change: Callable[[Mapping[Any, Any]], Mapping[str, Any]],
) -> bool:
    """Change columns of one row and update its checksum; return False if there is no such row.

    `change` takes the row and returns the new values of the columns that change.
    """
    before = connection.execute(select(table).where(is_it).with_for_update()).mappings().one_or_none()
    if before is None:
        return False
    after = {**before, **change(before)}
    connection.execute(update(table).where(is_it).values({**after, CHECKSUM_COLUMN: checksum(after)}))
    return True
