"""Rows that change after they were stored keep a true checksum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

from tunnelbench.store.checksum import CHECKSUM, checksum


def change_row(
    connection: Connection,
    table: Table,
    is_it: ColumnElement[bool],
    change: Callable[[Mapping[Any, Any]], Mapping[str, Any]],
) -> bool:
    """Change columns of one row, and its checksum with them; whether there is such a row."""
    before = connection.execute(select(table).where(is_it).with_for_update()).mappings().one_or_none()
    if before is None:
        return False
    after = {**before, **change(before)}
    connection.execute(update(table).where(is_it).values({**after, CHECKSUM: checksum(after)}))
    return True
