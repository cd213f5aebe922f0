"""Tables of a web page, with cells that span rows or columns; a table inside a cell is a separate table."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tunnelbench.analysis.audit.tables.table import (
    LONGEST_TABLE_CELL,
    MOST_TABLE_COLUMNS,
    MOST_TABLE_ROWS,
    Grid,
    PublishedTable,
    too_large,
)

MOST_NESTED_TABLES = 20
"""Largest depth of tables inside tables; a page with a layout of tables has about five."""

# The standard library's parser takes quadratic time for some broken pages (CVE-2025-6069). These expressions do not
# backtrack, and a broken page is read to its end.
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|template)\b[^<>]*>.*?(?:</\1[^<>]*>|\Z)|<[!?][^<>]*>?", re.DOTALL | re.IGNORECASE
)
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*+)([^<>]*+)>")
_SPANS = re.compile(r"\b(row|col)span\s*+=\s*+(?:[\"']\s*+)?(\d{1,9})\b", re.IGNORECASE)


def read(text: str) -> list[PublishedTable]:
    """Return every table of the page, in the order in which the tables begin."""
    reader = _Reader()
    reader.feed(_UNSEEN.sub(lambda found: "\n" * found[0].count("\n") or " ", text))
    return [PublishedTable(tuple(table.grid.rows)) for table in reader.tables]


@dataclass
class _Open:
    """A table that is being read."""

    grid: Grid = field(default_factory=Grid)
    line: int = 0
    cells: list[tuple[str, int, int]] = field(default_factory=list)
    text: list[str] | None = None
    """Text of the current cell; None: between cells."""
    length: int = 0
    across: int = 1
    down: int = 1

    def begin_cell(self, line: int, across: int, down: int) -> None:
        self.end_cell()
        if not self.cells:
            self.line = line
        self.text, self.length, self.across, self.down = [], 0, across, down

    def add_text(self, line: int, text: str) -> None:
        if self.text is None:
            return
        self.length += len(text)
        if self.length > LONGEST_TABLE_CELL:
            raise too_large(line, f"a cell of over {LONGEST_TABLE_CELL} characters")
        self.text.append(text)

    def end_cell(self) -> None:
        if self.text is not None:
            self.cells.append(("".join(self.text), self.across, self.down))
            self.text = None
            if len(self.cells) > MOST_TABLE_COLUMNS:
                raise too_large(self.line, f"over {MOST_TABLE_COLUMNS} columns")

    def end_row(self) -> None:
        self.end_cell()
        if self.cells:
            self.grid.add(self.line, self.cells)
            self.cells = []


class _Reader:
    def __init__(self) -> None:
        self.tables: list[_Open] = []
        self.open: list[_Open] = []

    def feed(self, text: str) -> None:
        """Read a page without its invisible parts."""
        for line, before, closing, name, attributes in _pieces(text):
            if self.open:
                self.open[-1].add_text(line, html.unescape(before))
            if closing:
                self._end(name)
            else:
                self._begin(line, name, attributes)
        for table in self.open:
            table.end_row()

    def _begin(self, line: int, name: str, attributes: str) -> None:
        if name == "table":
            if len(self.open) >= MOST_NESTED_TABLES:
                raise too_large(line, f"over {MOST_NESTED_TABLES} tables inside each other")
            table = _Open()
            self.tables.append(table)
            self.open.append(table)
        elif self.open and name == "tr":
            self.open[-1].end_row()
        elif self.open and name in {"td", "th"}:
            spans = {kind.lower(): int(count) for kind, count in _SPANS.findall(attributes)}
            across, down = min(spans.get("col", 1), MOST_TABLE_COLUMNS + 1), min(spans.get("row", 1), MOST_TABLE_ROWS)
            self.open[-1].begin_cell(line, across, down)
        elif self.open and name in {"br", "p", "div", "li"}:
            self.open[-1].add_text(line, " ")

    def _end(self, name: str) -> None:
        if self.open and name == "table":
            self.open.pop().end_row()
        elif self.open and name == "tr":
            self.open[-1].end_row()
        elif self.open and name in {"td", "th"}:
            self.open[-1].end_cell()


def _pieces(text: str) -> Iterator[tuple[int, str, bool, str, str]]:
    """Yield for every tag: line, text before it, True if it closes, name, attributes; last, the remaining text."""
    line, end = 1, 0
    for tag in _TAG.finditer(text):
        before = text[end : tag.start()]
        line += before.count("\n")
        yield line, before, bool(tag[1]), tag[2].lower(), tag[3]
        line += tag[0].count("\n")
        end = tag.end()
    yield line, text[end:], True, "", ""
