"""Reports for a terminal: each tunnel's name and versions are above its rows, comments are below each row.

The best figure has a star, which also shows in a terminal without bold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from textwrap import wrap

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunnelbench.report.console import printed
from tunnelbench.report.document import Document, Style, legends, tables
from tunnelbench.report.figures import Figure, Spread
from tunnelbench.report.figures.figure import PLACE
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.formats import SheetFormat
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import Sheet
from tunnelbench.report.table import ResultTable, TableLine
from tunnelbench.report.text import COLUMN_GAP, INDENT, UNFOLDED_WIDTH, one_line

DEFAULT_WIDTH = 120
FIRST_SCREEN_WIDTH = 100
LEAST_HEADING = 9
"""Width from which a heading is folded [columns]; `CPU s per` fits into it."""


class Format(SheetFormat):
    """A report is at most `style.width` columns wide from 80 on. Only a report in colour has escape sequences."""

    def render(self, document: Document, style: Style) -> str:
        width = style.width or (DEFAULT_WIDTH if style.full else FIRST_SCREEN_WIDTH)
        return printed(
            _report(document, width) if style.full else first_screen(document, width), width, has_colour=style.colour
        )

    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        width = style.width or UNFOLDED_WIDTH
        return printed(_sheet(sheet, width), width, has_colour=style.colour)


def _report(document: Document, width: int) -> Iterator[RenderableType]:
    yield from _head(document)
    yield Text()
    for table in tables(document, thousands=True):
        yield from _table(table, width)
    for paragraph in legends(document, "starred"):
        yield Text(f"{paragraph}\n", style="dim")
    for section in document.sections:
        yield from _section(section, width)
    yield Text("Warnings", style="bold")
    yield Text(document.tally)
    for warning in document.warnings:
        yield Text(f"\n{warning.title}", style="bold")
        yield _items(warning.items)


def _sheet(sheet: Sheet, width: int) -> Iterator[RenderableType]:
    yield from _head(sheet)
    if sheet.rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for position, heading in enumerate(sheet.header):
            table.add_column(heading, justify="right" if position in sheet.numbers else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        yield Text()
        yield table
    for section in sheet.sections:
        yield Text(f"\n{section.title}", style="bold")
        yield from _section_body(section, width)


def _head(found: Document | Sheet) -> Iterator[RenderableType]:
    yield Text(one_line(found.title), style="bold")
    facts = Table.grid(padding=(0, 2))
    for label, value in found.facts:
        facts.add_row(Text(label, style="dim"), Text(one_line(value), overflow="fold"))
    yield facts
    for caution in found.cautions:
        yield Text(f"\n{one_line(caution)}", style="yellow")


def _items(texts: Sequence[str]) -> RenderableType:
    items = Table.grid(padding=(0, 1))
    for text in texts:
        items.add_row("-", Text(one_line(text), overflow="fold"))
    return items


def _section(section: Section, width: int) -> Iterator[RenderableType]:
    yield Text(section.title, style="bold")
    yield from _section_body(section, width)
    yield Text()


def _section_body(section: Section, width: int) -> Iterator[RenderableType]:
    if section.rows:
        titles = [title.split(" ") for title in section.header[1:]]
        widths = [
            max(len(word) for word in (*words, *(row[number] for row in section.rows)))
            for number, words in enumerate(titles, start=1)
        ]
        for number, part in enumerate(_parts(widths, width)):
            own = [widths[place] for place in part]
            if number:
                yield Text()
            yield from _lines([[Text(word) for word in titles[place]] for place in part], own)
            for name, rows in groupby(section.rows, key=lambda row: row[0]):
                yield Text(name, style="bold")
                for row in rows:
                    yield from _lines([[Text(row[1 + place])] for place in part], own)
    if section.items:
        yield _items(section.items)
    for note in section.notes:
        yield Text(note, style="dim")


@dataclass(frozen=True)
class TerminalColumn:
    """A column of a table: the figures that stand below each other in it. The first column also names the row."""

    figures: tuple[Figure, ...]
    names_row: bool
    has_tests: bool

    def cell(self, line: TableLine) -> list[Text]:
        name = " ".join(filter(None, (line.payload, line.direction, line.test)))
        found = [Text(name)] if self.names_row else []
        for place, figure in enumerate(self.figures):
            text = line.figures[figure.key]
            is_first = not place and not self.names_row
            if not text and not is_first:
                continue
            style = "bold" if text.is_best else "" if is_first or not figure.under else "dim"
            found.append(Text(f"{'*' * text.is_best}{text.median}", style=style))
            if text.spread and is_first and figure.spread is Spread.EVERYWHERE:
                found.append(Text(text.spread, style="dim"))
            if text.note:
                found.append(Text(text.note))
        return found

    def heading(self, width: int) -> list[str]:
        """Return the lines of the heading, folded to the width of the cells [columns] or of its longest word."""
        titles = [figure.short or figure.heading for figure in self.figures]
        if self.names_row:
            titles = ["Payload, test" if self.has_tests else "Payload", *titles]
        longest = max((len(word) for title in titles for word in title.split()), default=0)
        return [line for title in titles for line in wrap(title, max(width, longest, LEAST_HEADING))]


def _columns(table: ResultTable, *, is_narrow: bool) -> list[TerminalColumn]:
    """Return the columns; in a narrow table more figures share one."""
    stacks: dict[str, list[Figure]] = {PLACE: []}
    for figure in table.columns:
        top = figure.under or (is_narrow and figure.narrow_under) or figure.key
        stacks.setdefault(top, []).append(figure)
    return [
        TerminalColumn(tuple(sorted(stack, key=lambda each: each.key != top)), top == PLACE, table.has_tests)
        for top, stack in stacks.items()
    ]


def _table(table: ResultTable, width: int) -> Iterator[RenderableType]:
    """Yield the table, with the columns of the narrow one if the wide one does not fit."""
    columns = _columns(table, is_narrow=False)
    widths = _widths(columns, table)
    if len(_parts(widths, width)) > 1:
        columns = _columns(table, is_narrow=True)
        widths = _widths(columns, table)
    for number, part in enumerate(_parts(widths, width)):
        own = [widths[place] for place in part]
        yield from _table_part(table, [columns[place] for place in part], own, width, is_first=not number)


def _table_part(
    table: ResultTable, columns: Sequence[TerminalColumn], widths: Sequence[int], width: int, *, is_first: bool
) -> Iterator[RenderableType]:
    """Yield some columns of the table; versions and comments are in the first part only."""
    headings = [column.heading(own) for column, own in zip(columns, widths, strict=True)]
    height = max(map(len, headings))
    yield Text("tunnel, version: router (server)" if is_first else "tunnel", style="bold")
    yield from _lines([[Text(text) for text in [""] * (height - len(each)) + each] for each in headings], widths)
    yield Text("─" * width)
    for block in table.blocks:
        if block.is_empty_alike and not is_first:
            continue
        yield Text.assemble((block.tunnel, "bold"), COLUMN_GAP, (", ".join(block.versions) if is_first else "", "dim"))
        if block.is_empty_alike:
            yield _comments(block.lines[0], len(INDENT))
        else:
            for line in block.lines:
                yield from _lines([column.cell(line) for column in columns], widths)
                if line.comments and is_first:
                    yield _comments(line, len(INDENT) + widths[0] + len(COLUMN_GAP))
        yield Text()


def _parts(widths: Sequence[int], width: int) -> list[list[int]]:
    """Divide the columns of a table into as many tables as the terminal's width needs.

    Returns the places of the columns in each; the first column, which names the row, is in all of them.
    """
    found = [[*range(len(widths))[:1]]]
    for place in range(1, len(widths)):
        own = [*found[-1], place]
        if sum(len(COLUMN_GAP) + widths[each] for each in own) <= width or len(own) == 2:  # INDENT is as wide as a gap
            found[-1] = own
        else:
            found.append([0, place])
    return found


def _widths(columns: Sequence[TerminalColumn], table: ResultTable) -> list[int]:
    found = []
    for column in columns:
        cells = max((piece.cell_len for line in table.lines for piece in column.cell(line)), default=0)
        found.append(max(cells, *map(len, column.heading(cells))))
    return found


def _lines(cells: Sequence[Sequence[Text]], widths: Sequence[int]) -> Iterator[Text]:
    """Yield cells side by side, the first one on the left of its column, the others on the right."""
    for pieces in zip_longest(*cells, fillvalue=Text()):
        line = Text(INDENT, overflow="fold")
        for number, (piece, width) in enumerate(zip(pieces, widths, strict=True)):
            blank = " " * (width - piece.cell_len)
            line.append(piece.copy().append(blank) if number == 0 else Text(f"{COLUMN_GAP}{blank}").append(piece))
        if line.plain.strip():
            yield line


def _comments(line: TableLine, indent: int) -> RenderableType:
    return Padding(Text("; ".join(line.comments), style="italic"), (0, 0, 0, indent))
