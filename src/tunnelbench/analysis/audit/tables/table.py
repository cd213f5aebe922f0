"""Tables of text cells, with the line on which each row begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tunnelbench.model.errors import WrongInput

MOST_TABLE_COLUMNS = 500
MOST_TABLE_ROWS = 10_000
LONGEST_TABLE_CELL = 10_000
"""Limits of columns, rows and characters in a cell. Tables of results are far smaller; they stop hostile input."""


@dataclass(frozen=True)
class TextRow:
    """Cells of a row as text."""

    line: int
    """Line of the file, from 1."""
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PublishedTable:
    """A table whose rows include its headings."""

    rows: tuple[TextRow, ...]


@dataclass
class Grid:
    """A table under construction; a cell that spans rows or columns fills all of them."""

    rows: list[TextRow] = field(default_factory=list)
    _reaching_down: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Text of a cell by column, and the number of further rows that it fills."""

    def add(self, line: int, cells: Iterable[tuple[str, int, int]]) -> None:
        """Add a row, given as text, spanned columns and spanned rows. Raises WrongInput if the table is too large."""
        placed: list[str] = []
        for text, across, down in cells:
            self._fill(placed)
            for _ in range(max(1, across)):
                checked_size(line, placed)
                if down > 1:
                    self._reaching_down[len(placed)] = (text, down - 1)
                placed.append(text)
        self._fill(placed)
        self.rows.append(table_row(line, placed))
        if len(self.rows) > MOST_TABLE_ROWS:
            raise too_large(line, f"over {MOST_TABLE_ROWS} rows")

    def _fill(self, placed: list[str]) -> None:
        """Fill the next places with cells that span down from rows above."""
        while len(placed) in self._reaching_down:
            column = len(placed)
            text, left = self._reaching_down.pop(column)
            if left > 1:
                self._reaching_down[column] = (text, left - 1)
            placed.append(text)


def table_row(line: int, cells: Sequence[str]) -> TextRow:
    """Return a row; raises WrongInput if it is too large."""
    checked_size(line, cells)
    if any(len(cell) > LONGEST_TABLE_CELL for cell in cells):
        raise too_large(line, f"a cell of over {LONGEST_TABLE_CELL} characters")
    return TextRow(line, tuple(" ".join(cell.split()) for cell in cells))


def checked_size(line: int, cells: Sequence[str]) -> None:
    """Raise WrongInput if there are too many columns."""
    if len(cells) > MOST_TABLE_COLUMNS:
        raise too_large(line, f"over {MOST_TABLE_COLUMNS} columns")


def too_large(line: int, what: str) -> WrongInput:
    """Return the error for a table that is too large."""
    return WrongInput(f"line {line}: {what}, too large for a table of results", "audit the part that holds the figures")
