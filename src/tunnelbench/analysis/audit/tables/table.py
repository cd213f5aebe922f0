"""What the readers make: rows of text cells, each with the line on which it begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tunnelbench.model.errors import WrongInput

MOST_COLUMNS = 500
MOST_ROWS = 10_000
LONGEST_CELL = 10_000
"""Characters. A table of results stays far below each of these; what does not is another thing, or a trap."""


@dataclass(frozen=True)
class TableRow:
    """Cells as text."""

    line: int
    """In the file, from 1."""
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table whose headings are still among its rows."""

    rows: tuple[TableRow, ...]


@dataclass
class Grid:
    """Collects cells; one that spans rows or columns fills all its places."""

    rows: list[TableRow] = field(default_factory=list)
    _reaching_down: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By column: a cell's text, and how many further rows it fills."""

    def add(self, line: int, cells: Iterable[tuple[str, int, int]]) -> None:
        """A row of text, columns spanned, rows spanned; WrongInput where it is too large for a table of results."""
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
        if len(self.rows) > MOST_ROWS:
            raise too_large(line, f"over {MOST_ROWS} rows")

    def _fill(self, placed: list[str]) -> None:
        """Put what reaches down from above into the places that come next."""
        while len(placed) in self._reaching_down:
            column = len(placed)
            text, left = self._reaching_down.pop(column)
            if left > 1:
                self._reaching_down[column] = (text, left - 1)
            placed.append(text)


def table_row(line: int, cells: Sequence[str]) -> TableRow:
    """A row; WrongInput where it is too large for one."""
    checked_size(line, cells)
    if any(len(cell) > LONGEST_CELL for cell in cells):
        raise too_large(line, f"a cell of over {LONGEST_CELL} characters")
    return TableRow(line, tuple(" ".join(cell.split()) for cell in cells))


def checked_size(line: int, cells: Sequence[str]) -> None:
    """WrongInput where there are more columns than a table of results has."""
    if len(cells) > MOST_COLUMNS:
        raise too_large(line, f"over {MOST_COLUMNS} columns")


def too_large(line: int, what: str) -> WrongInput:
    """What to say of a table that is none."""
    return WrongInput(f"line {line}: {what}, which no table of results has", "audit the part that holds the figures")
