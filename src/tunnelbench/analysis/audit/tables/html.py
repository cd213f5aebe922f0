"""Tables of a web page, with cells that span; a table inside a cell is a table of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from tunnelbench.analysis.audit.tables.table import LONGEST_CELL, MOST_COLUMNS, MOST_ROWS, Grid, Table, too_large

DEEPEST = 20
"""Tables inside tables; a page that lays itself out with tables has five or so."""


def read(text: str) -> list[Table]:
    """Every table of the page, in the order in which they begin."""
    reader = _Reader(convert_charrefs=True)
    reader.feed(text)
    reader.close()
    for table in list(reader.open):
        table.end_row()
    return [Table(tuple(table.grid.rows)) for table in reader.tables]


@dataclass
class _Open:
    """A table that is being read."""

    grid: Grid = field(default_factory=Grid)
    line: int = 0
    cells: list[tuple[str, int, int]] = field(default_factory=list)
    text: list[str] | None = None
    """Pieces of the cell that is being read; None: between cells."""
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
        if self.length > LONGEST_CELL:
            raise too_large(line, f"a cell of over {LONGEST_CELL} characters")
        self.text.append(text)

    def end_cell(self) -> None:
        if self.text is not None:
            self.cells.append(("".join(self.text), self.across, self.down))
            self.text = None
            if len(self.cells) > MOST_COLUMNS:
                raise too_large(self.line, f"over {MOST_COLUMNS} columns")

    def end_row(self) -> None:
        self.end_cell()
        if self.cells:
            self.grid.add(self.line, self.cells)
            self.cells = []


class _Reader(HTMLParser):
    def __init__(self, *, convert_charrefs: bool) -> None:
        super().__init__(convert_charrefs=convert_charrefs)
        self.tables: list[_Open] = []
        self.open: list[_Open] = []
        self._unseen = 0
        """Depth inside elements whose text nobody sees."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line = self.getpos()[0]
        if tag in {"script", "style"}:
            self._unseen += 1
        elif tag == "table":
            if len(self.open) >= DEEPEST:
                raise too_large(line, f"over {DEEPEST} tables inside each other")
            table = _Open()
            self.tables.append(table)
            self.open.append(table)
        elif self.open and tag == "tr":
            self.open[-1].end_row()
        elif self.open and tag in {"td", "th"}:
            given = dict(attrs)
            self.open[-1].begin_cell(
                line, _span(given.get("colspan"), MOST_COLUMNS + 1), _span(given.get("rowspan"), MOST_ROWS)
            )
        elif self.open and tag in {"br", "p", "div", "li"}:
            self.open[-1].add_text(line, " ")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._unseen = max(0, self._unseen - 1)
        elif self.open and tag == "table":
            self.open.pop().end_row()
        elif self.open and tag == "tr":
            self.open[-1].end_row()
        elif self.open and tag in {"td", "th"}:
            self.open[-1].end_cell()

    def handle_data(self, data: str) -> None:
        if self.open and not self._unseen:
            self.open[-1].add_text(self.getpos()[0], data)


def _span(text: str | None, most: int) -> int:
    """How far a cell reaches; what is no number counts as 1, as browsers have it."""
    stripped = (text or "").strip()
    return max(1, min(int(stripped), most)) if stripped.isascii() and stripped.isdigit() and len(stripped) < 10 else 1
