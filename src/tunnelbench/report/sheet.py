"""A result that is no run: facts, cautions, one table and what follows from it, in the formats that reports have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tunnelbench.report.document import Style
from tunnelbench.report.formats.csv import harmless
from tunnelbench.report.formats.dokuwiki import DokuWiki
from tunnelbench.report.formats.json import plain
from tunnelbench.report.formats.markdown import Markdown
from tunnelbench.report.formats.textile import Textile
from tunnelbench.report.markup import Column, Markup, joined, plain_rows
from tunnelbench.report.text import one_line

UNFOLDED_WIDTH = 10_000
"""Wide enough for every line, where nobody said how wide."""


@dataclass(frozen=True)
class Section:
    """A heading and its paragraphs."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """What is to be said, ready to be drawn."""

    title: str
    facts: tuple[tuple[str, str], ...]
    cautions: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """One text for each heading."""
    numbers: Collection[int] = ()
    """Columns of numbers, by their position."""
    sections: tuple[Section, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""


def render_sheet(sheet: Sheet, format_name: str, style: Style | None = None) -> str:
    """The sheet in one of the formats of reports, ending with a newline."""
    return _FORMATS[format_name](sheet, style or Style())


def _terminal(sheet: Sheet, style: Style) -> str:
    output = io.StringIO()
    console = Console(
        file=output,
        width=style.width or UNFOLDED_WIDTH,
        force_terminal=style.colour,
        color_system="standard" if style.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # COLUMNS and NO_COLOR are the caller's to heed
    )
    console.print(Text(one_line(sheet.title), style="bold"))
    facts = Table.grid(padding=(0, 2))
    for label, value in sheet.facts:
        facts.add_row(Text(label, style="dim"), Text(one_line(value), overflow="fold"))
    console.print(facts)
    for caution in sheet.cautions:
        console.print(Text(f"\n{one_line(caution)}", style="yellow"))
    if sheet.rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for position, heading in enumerate(sheet.header):
            table.add_column(heading, justify="right" if position in sheet.numbers else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        console.print(Text())
        console.print(table)
    for section in sheet.sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        items = Table.grid(padding=(0, 1))
        for item in section.items:
            items.add_row("-", Text(one_line(item), overflow="fold"))
        console.print(items)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().split("\n")[:-1])


def _marked_up(markup: Markup) -> Callable[[Sheet, Style], str]:
    def render(sheet: Sheet, style: Style) -> str:
        del style
        parts: list[list[str]] = [[markup.heading(1, one_line(sheet.title))]]
        parts.append([markup.fact(label, one_line(value)) for label, value in sheet.facts])
        parts += [[markup.caution(one_line(caution))] for caution in sheet.cautions]
        if sheet.rows:
            columns = [Column(one_line(title), place in sheet.numbers) for place, title in enumerate(sheet.header)]
            rows = plain_rows(columns, [[one_line(cell) for cell in row] for row in sheet.rows])
            parts.append(markup.table(columns, rows))
        for section in sheet.sections:
            title = markup.heading(2, one_line(section.title))
            parts += [[title], [markup.item(one_line(item)) for item in section.items]]
        return joined(parts)

    return render


def _csv(sheet: Sheet, style: Style) -> str:
    """The table alone."""
    del style
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow(sheet.header)
    writer.writerows([harmless(cell) for cell in row] for row in sheet.rows)
    return output.getvalue()


def _json(sheet: Sheet, style: Style) -> str:
    del style
    return json.dumps(plain(sheet.data), indent=2, allow_nan=False) + "\n"


_FORMATS: Mapping[str, Callable[[Sheet, Style], str]] = {
    "csv": _csv,
    "dokuwiki": _marked_up(DokuWiki()),
    "json": _json,
    "markdown": _marked_up(Markdown()),
    "terminal": _terminal,
    "textile": _marked_up(Textile()),
}


SHEET_FORMATS = tuple(_FORMATS)
"""Those of reports that hold one table."""


def texts(rows: Sequence[Sequence[str | None]]) -> tuple[tuple[str, ...], ...]:
    """Rows with an empty text where there is nothing to say."""
    return tuple(tuple(cell or "" for cell in row) for row in rows)
