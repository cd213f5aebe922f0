"""Tables of GitHub's Markdown: a line of headings, a line of dashes, and a line for each row."""

from __future__ import annotations

import re

from tunnelbench.analysis.audit.tables.table import (
    MOST_TABLE_COLUMNS,
    MOST_TABLE_ROWS,
    PublishedTable,
    TextRow,
    table_row,
    too_large,
)

_BAR = re.compile(r"(?<!\\)\|")
_MARKUP = re.compile(r"<br\s*/?>|</?[a-z][^<>]*>|\*\*|`", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([^\w\s])")
_DASHES = re.compile(r":?-+:?")


def is_rule(line: str) -> bool:
    """Return True if a line is the line of dashes below the headings.

    A cell with a single dash is valid there; a line of single dashes alone may be a row without figures.
    """
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return "|" in line and "--" in line and all(_DASHES.fullmatch(cell.strip()) for cell in cells)


def read(text: str) -> list[PublishedTable]:
    """Return every table of the page."""
    lines = text.splitlines()
    tables = []
    number = 1
    while number < len(lines):
        if is_rule(lines[number]) and "|" in lines[number - 1]:
            rows = [_row(number, lines[number - 1])]
            number += 1
            while number < len(lines) and "|" in lines[number]:
                rows.append(_row(number + 1, lines[number]))
                number += 1
                if len(rows) > MOST_TABLE_ROWS:
                    raise too_large(number, f"over {MOST_TABLE_ROWS} rows")
            tables.append(PublishedTable(tuple(rows)))
        number += 1
    return tables


def _row(line: int, text: str) -> TextRow:
    if text.count("|") > 2 * MOST_TABLE_COLUMNS:  # before the expression, which takes a second for a million bars
        raise too_large(line, f"over {MOST_TABLE_COLUMNS} columns")
    inner = text.strip().removeprefix("|")
    cells = _BAR.split(inner)
    if inner.endswith("|"):
        cells.pop()
    return table_row(line, [_ESCAPED.sub(r"\1", _MARKUP.sub(" ", cell)) for cell in cells])
