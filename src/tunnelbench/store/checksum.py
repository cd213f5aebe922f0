"""Checksums of rows: a database notices a broken page, not a digit that has become another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

CHECKSUM = "checksum"
"""The column's name."""


def checksum(row: Mapping[Any, Any]) -> str:
    """SHA-256, in hexadecimal, of the columns of a row that hold something, by name.

    A column that a later format adds, and leaves null in older rows, changes nothing.
    """
    held = sorted((name, value) for name, value in row.items() if value is not None and name != CHECKSUM)
    return sha256(json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def is_intact(row: Mapping[Any, Any]) -> bool:
    """Whether a row is what was stored."""
    if any(isinstance(value, bytes) for value in row.values()):
        return False  # a text whose type became another in a damaged file: no column of ours holds bytes
    return bool(row[CHECKSUM] == checksum(row))
