"""The tables of the first screen as a page shows them: six columns where two directions can share a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tunnelbench.analysis.answer.doubts import in_words
from tunnelbench.analysis.answer.tunnels import TunnelAnswer
from tunnelbench.model.text import counted, joined
from tunnelbench.report.document import Document
from tunnelbench.report.screen_tables import ScreenColumn, ScreenRow, ScreenTable, screen_tables
from tunnelbench.report.text import one_line

MOST_COLUMNS = 6
DIRECTIONS = ("down", "up")
BOTH = " / "
"""Stands between the figures of both directions in one cell."""


@dataclass(frozen=True)
class PageRow:
    """A line of a table."""

    name: str
    tunnel: str
    """Name of the tunnel, by which rows are filtered; empty: the line is not about a tunnel alone."""
    cells: tuple[str, ...]
    remarks: str
    is_best: bool


@dataclass(frozen=True)
class PageTable:
    """A table of the most important figures, one line for each tunnel."""

    title: str
    """Heading of the names."""
    header: tuple[str, ...]
    """Headings of the figures."""
    groups: tuple[tuple[str, tuple[PageRow, ...]], ...]
    """Title and rows of each group; the title may be empty."""
    legend: str

    @property
    def has_remarks(self) -> bool:
        return any(row.remarks for _, rows in self.groups for row in rows)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return 1 + len(self.header) + self.has_remarks


def page_tables(document: Document) -> list[PageTable]:
    """Return the tables of the answer; those of soaks, costs and ciphers only where no tunnel has figures."""
    answer = document.answer
    remarks = {one_line(each.name): _remarks(each) for each in answer.tunnels}
    names = {*remarks, *(one_line(each.name) for each in answer.udp)}
    if answer.recommended is not None:
        name = one_line(answer.recommended)
        remarks[name] = "; ".join(filter(None, ("recommended", remarks.get(name, ""))))
    every = screen_tables(document)
    of_tunnels = [table for table in every if not table.title]
    return [_page_table(table, remarks, names) for table in of_tunnels or every]


def _remarks(tunnel: TunnelAnswer) -> str:
    return "; ".join(
        filter(
            None,
            (
                "without a tunnel" if not tunnel.tunnel.has_tunnel else "in the kernel" if tunnel.is_in_kernel else "",
                f"{counted(tunnel.dropped, 'trial')} dropped" if tunnel.dropped and tunnel.has_figures else "",
                f"doubtful: {joined([in_words(name) for name in tunnel.doubts])}" if tunnel.has_doubts else "",
            ),
        )
    )


def _page_table(table: ScreenTable, remarks: Mapping[str, str], names: set[str]) -> PageTable:
    shared = _shared(table.columns)

    def page_row(row: ScreenRow) -> PageRow:
        cells = tuple(BOTH.join(row.cells[place] for place in own) if row.cells else "" for own in shared)
        said = row.note or remarks.get(row.name, "")
        return PageRow(row.name, row.name if row.name in names else "", cells, said, row.is_best)

    groups: dict[str, list[PageRow]] = {}
    for row in table.rows:
        groups.setdefault(row.group.capitalize(), []).append(page_row(row))
    return PageTable(
        title=table.title.capitalize() or "Tunnel",
        header=tuple(_heading(table.columns, own) for own in shared),
        groups=tuple((title, tuple(rows)) for title, rows in groups.items()),
        legend=table.legend,
    )


def _shared(columns: Sequence[ScreenColumn]) -> list[tuple[int, ...]]:
    """Return the positions of the figures in each column of the page.

    If there are too many columns, both directions of a figure share one, beginning with the last figures.
    """
    sections = [[place for place, _ in own] for _, own in groupby(enumerate(columns), key=lambda each: each[1].heading)]
    found: list[tuple[int, ...]] = []
    before = len(columns) + 2  # with the names and the remarks
    for own in reversed(sections):
        is_pair = tuple(columns[place].label for place in own) == DIRECTIONS
        if before > MOST_COLUMNS and is_pair:
            found.insert(0, tuple(own))
            before -= 1
        else:
            found[:0] = [(place,) for place in own]
    return found


def _heading(columns: Sequence[ScreenColumn], places: Sequence[int]) -> str:
    labels = BOTH.join(columns[place].label for place in places)
    return ", ".join(filter(None, (" ".join(columns[places[0]].heading), labels)))
