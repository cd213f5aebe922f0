"""Formats tables and paragraphs for people to the terminal's width; in a pipe, lines are not folded.

This module escapes control characters, so that verbs can pass text from files and programs unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tunnelbench.cli.common_options import has_colour, terminal_width
from tunnelbench.model.text import printable
from tunnelbench.report.console import printed
from tunnelbench.report.text import COLUMN_GAP, INDENT, UNFOLDED_WIDTH, one_line

WORD_STYLES = {
    "ok": "green",
    "yes": "green",
    "done": "green",
    "note": "cyan",
    "warning": "yellow",
    "doubtful": "yellow",
    "interrupted": "yellow",
    "missing": "red",
    "no": "red",
    "void": "red",
    "refused": "red",
    "failed": "red",
    "killed": "red",
    "given-up": "dim",
    "absent": "dim",
    "unknown": "dim",
    "unavailable": "dim",
    "no adapter yet": "dim",
}
"""Colours of status words; other words have no colour."""


def drawn(*parts: RenderableType) -> str:
    """Format parts below each other as text, in colour if the terminal allows it."""
    return printed(parts, terminal_width() or UNFOLDED_WIDTH, has_colour=has_colour())


def heading(text: str) -> Text:
    """Return the title of a section, after an empty line."""
    return Text(f"\n{one_line(text)}", style="bold")


def title(text: str) -> Text:
    return Text(one_line(text), style="bold")


def name_and_title(name: str, text: str) -> Text:
    """Return the title of a plan or testbed, of which only the name is required."""
    return title(f"{name}: {text}" if text else name)


def word(text: str) -> Text:
    """Return a status word, such as `ok` or `missing`, in its colour."""
    return Text(one_line(text), style=WORD_STYLES.get(text, ""))


def cell(text: str | int | Text) -> Text:
    return text if isinstance(text, Text) else Text(one_line(str(text)), overflow="fold")


def columns(
    rows: Iterable[Sequence[str | int | Text]],
    header: Sequence[str] = (),
    *,
    numbers: Collection[int] = (),
    least: Mapping[int, int] = MappingProxyType({}),
) -> RenderableType:
    """Arrange rows in columns, indented if there is no header; the widest columns fold.

    `numbers` and `least` name columns by position: those in `numbers` are aligned right, those in `least` have at least
    that width.
    """
    body = [[cell(each) for each in row] for row in rows]
    table = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for position in range(len(header) or max(map(len, body), default=0)):
        title_here = header[position] if header else ""
        justify: Literal["left", "right"] = "right" if position in numbers else "left"
        table.add_column(title_here, justify=justify, overflow="fold", min_width=least.get(position))
    for row in body:
        table.add_row(*row)
    return FastTable(table, header, body, numbers, least) if header else Padding(table, (0, 0, 0, len(INDENT)))


@dataclass(frozen=True)
class FastTable:
    """A table that is drawn without rich if each row fits into a line: rich takes a millisecond for each cell."""

    table: Table
    header: Sequence[str]
    body: Sequence[Sequence[Text]]
    numbers: Collection[int]
    least: Mapping[int, int]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [Text(one_line(title), style="dim") for title in self.header]
        every = [heads, *self.body]
        widths = [
            max(self.least.get(place, 0), *(cell.cell_len for cell in cells))
            for place, cells in enumerate(zip(*every, strict=True))
        ]
        is_plain = all(not cell.spans and "\n" not in cell.plain for row in self.body for cell in row)
        if not is_plain or sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) > options.max_width:
            yield self.table
            return
        for row in every:
            for place, (text, width) in enumerate(zip(row, widths, strict=True)):
                blank = " " * (width - text.cell_len)
                before, after = (blank, "") if place in self.numbers else ("", blank)
                yield Segment(before)
                yield Segment(text.plain, console.get_style(text.style))
                yield Segment(after + COLUMN_GAP * (place < len(widths) - 1))
            yield Segment.line()


def unfolded(text: str, indent: int = 0) -> Text:
    """Return a line that is never folded: the second half of a folded command would run as a command of its own."""
    return Text(f"{' ' * indent}{one_line(text)}", style="bold", no_wrap=True, overflow="ignore")


def findings(
    rows: Sequence[tuple[Text, str, str, str]], least: Mapping[int, int] = MappingProxyType({})
) -> Iterator[RenderableType]:
    """Arrange status words, names and texts in columns; the fix of a row stands below it and is not folded.

    `least` has the smallest widths of the first two columns, by position.
    """
    widths = {
        0: max(least.get(0, 0), *(status.cell_len for status, *_ in rows)),
        1: max(least.get(1, 0), *(len(one_line(name)) for _, name, *_ in rows)),
    }
    for status, name, text, fix in rows:
        yield columns([(status, name, text)], least=widths)
        if fix:
            yield unfolded(fix, len(INDENT) + widths[0] + len(COLUMN_GAP))


def reasoned(text: str, reason: str) -> Text:
    """Return a text with a reason below it, if there is one."""
    return cell(text).append(f"\n{one_line(reason)}", style="bold") if reason else cell(text)


def facts(pairs: Iterable[tuple[str, str | Text]]) -> RenderableType:
    """Arrange labels and their values."""
    return columns([(Text(one_line(label), style="dim"), value) for label, value in pairs])


def verbatim(text: str, indent: str = INDENT) -> str:
    """Indent the lines of a program or file without folding them; control characters are escaped."""
    lines = (f"{indent}{printable(line.expandtabs())}" for line in text.splitlines())
    return "".join(f"{line.rstrip()}\n" for line in lines)
