"""Reads the texts of plan and testbed that are stored with a run, which may come from another person's file."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MOST_DOTS_IN_LINE = 100
"""Largest number of dots in a line that is no comment: `tomllib` takes quadratic time for a long dotted key."""

DEEPEST_TOML = 24
"""Deepest nesting of tables and lists; a plan has 3 levels."""


def line_with_many_dots(text: str) -> int | None:
    """Return the number of the first line that has more than MOST_DOTS_IN_LINE dots; None if there is none."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS_IN_LINE and not line.lstrip().startswith("#"):
            return number
    return None


def toml_values(text: str) -> Mapping[str, Any]:
    """Return the content of a TOML text. Raises ValueError if the text is not TOML, or contains what no plan or testbed
    can contain.

    `tomllib` itself may exceed Python's recursion limit, take very long, and return numbers that Python refuses to
    print.
    """
    found, why_refused = _parsed(text)
    if why_refused:
        raise ValueError(why_refused)
    return found


def known_values(text: str) -> Mapping[str, Any]:
    """Return the content of a stored plan or testbed; empty if `toml_values` refuses it."""
    try:
        return toml_values(text)
    except ValueError:
        return {}


def known_table(text: str, name: str) -> Mapping[str, Any]:
    """Return a table of a stored plan or testbed; empty if it has none."""
    table = known_values(text).get(name)
    return table if isinstance(table, dict) else {}


@lru_cache(maxsize=8)
def _parsed(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the content of a TOML text, or why it is refused; results are cached, because a report reads a text
    several times."""
    if line_with_many_dots(text) is not None:
        return {}, f"a line has more than {MOST_DOTS_IN_LINE} dots"
    try:
        found = tomllib.loads(text)
        _require_plain(found)
    except RecursionError:
        return {}, "lists or tables are nested too deeply"
    except ValueError as error:
        return {}, str(error)
    return found, ""


def _require_plain(found: Mapping[str, Any]) -> None:
    """Raise ValueError for deep nesting, and for an integer of more than 64 bits, which TOML does not ask for."""
    level: list[Any] = [found]
    for _ in range(DEEPEST_TOML):
        below: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and not -sys.maxsize - 1 <= value <= sys.maxsize:
                raise ValueError("a number is too large")
        level = below
    if level:
        raise ValueError("lists or tables are nested too deeply")
