"""Base of the markup formats (Markdown, Textile, DokuWiki): the parts of a report and their order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tunnelbench.report.bounds import bounded
from tunnelbench.report.document import Document, Style, legends, tables
from tunnelbench.report.figures import Figure, FigureText
from tunnelbench.report.formats import SheetFormat
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import Sheet
from tunnelbench.report.table import ResultTable, TunnelRows
from tunnelbench.report.text import one_line


@dataclass(frozen=True)
class MarkupCell:
    """A cell of a table. Its text is without line breaks and markup; the markup escapes it."""

    lines: tuple[str, ...] = ()
    is_number: bool = False
    is_best: bool = False
    """True if the text is marked; `spread` is not."""
    spread: str = ""
    is_heading: bool = False
    rows: int = 1
    """Number of rows that it spans; those below it hold cells that are covered."""
    is_covered: bool = False


@dataclass(frozen=True)
class MarkupColumn:
    """A column of a table."""

    title: str
    is_number: bool = False


MarkupRow = tuple[MarkupCell, ...]


class MarkupFormat(SheetFormat):
    """A report in a markup. Texts are escaped before they are put into its patterns."""

    escaped: Callable[[str], str]
    """Returns a text so that the markup shows it as it is."""
    fact: ClassVar[str]
    """Pattern of a line in the list of facts: the label, which needs no escape, and the value."""
    caution: ClassVar[str]
    """Pattern of a paragraph that must not be overlooked."""
    paragraph: ClassVar[str] = "{}"
    item: ClassVar[str]
    """Pattern of a line in a list."""

    @abstractmethod
    def heading(self, level: int, text: str) -> str:
        """Return a heading; level 1 is the title."""

    @abstractmethod
    def table(self, columns: Sequence[MarkupColumn], rows: Sequence[MarkupRow]) -> list[str]: ...

    def render(self, document: Document, style: Style) -> str:
        document = document if style.full else bounded(document)
        parts = [*self._head(document), *(self._results(table) for table in tables(document))]
        parts += [[self.paragraph.format(self.escaped(text))] for text in legends(document, "bold")]
        for section in document.sections:
            parts += self._section(2, section)
        parts += [[self.heading(2, "Warnings")], [self.paragraph.format(self.escaped(document.tally))]]
        for section in document.warnings:
            parts += self._section(3, section)
        return _joined(parts)

    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        del style
        parts = self._head(sheet)
        if sheet.rows:
            parts.append(
                self._texts([(title, place in sheet.numbers) for place, title in enumerate(sheet.header)], sheet.rows)
            )
        for section in sheet.sections:
            parts += self._section(2, section)
        return _joined(parts)

    def _head(self, found: Document | Sheet) -> list[list[str]]:
        facts = [self.fact.format(label, self.escaped(one_line(value))) for label, value in found.facts]
        cautions = [[self.caution.format(self.escaped(one_line(caution)))] for caution in found.cautions]
        return [[self.heading(1, one_line(found.title))], facts, *cautions]

    def _section(self, level: int, section: Section) -> Iterator[list[str]]:
        yield [self.heading(level, one_line(section.title))]
        if section.rows:
            yield self._texts([(title, place > 0) for place, title in enumerate(section.header)], section.rows)
        yield [self.item.format(self.escaped(one_line(item))) for item in section.items]
        for note in section.notes:
            yield [self.paragraph.format(self.escaped(note))]

    def _texts(self, header: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> list[str]:
        """Return a table of texts; `header` has each column's title, and True if the column holds numbers."""
        columns = [MarkupColumn(one_line(title), is_number) for title, is_number in header]
        return self.table(columns, [
            tuple(_text(one_line(cell), column.is_number) for column, cell in zip(columns, row, strict=True))
            for row in rows
        ])  # fmt: skip

    def _results(self, table: ResultTable) -> list[str]:
        rows = [row for block in table.blocks for row in _rows(table.has_tests, table.columns, block)]
        return self.table(result_columns(table.columns, has_tests=table.has_tests), rows)


def result_columns(figures: Sequence[Figure], *, has_tests: bool) -> list[MarkupColumn]:
    """Return the columns of a table of results. If `has_tests` is true, one of them names each row's test."""
    return [
        MarkupColumn("Tunnel"),
        MarkupColumn("Version router (server)"),
        MarkupColumn("Payload [bytes]", is_number=True),
        MarkupColumn("Direction"),
        *([MarkupColumn("Test")] if has_tests else []),
        *(MarkupColumn(figure.heading, is_number=True) for figure in figures),
        MarkupColumn("Comment"),
    ]


def _joined(parts: Sequence[Sequence[str]]) -> str:
    """Return blocks with an empty line between them; empty blocks are left out."""
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _rows(has_tests: bool, figures: Sequence[Figure], block: TunnelRows) -> Iterator[MarkupRow]:
    tunnel = MarkupCell((block.tunnel,), is_heading=True, rows=len(block.lines))
    versions = MarkupCell(block.versions, rows=len(block.lines))
    covered = MarkupCell(is_covered=True)
    for lines in block.by_payload():
        payload = MarkupCell((lines[0].payload,), rows=len(lines))
        for place, line in enumerate(lines):
            yield (
                tunnel,
                versions,
                replace(payload, rows=1, is_covered=True) if place else payload,
                *(_text(text) for text in (line.direction, *([line.test] if has_tests else []))),
                *(_figure(line.figures[figure.key]) for figure in figures),
                MarkupCell(line.comments),
            )
            tunnel = versions = covered


def _text(text: str, is_number: bool = False) -> MarkupCell:
    return MarkupCell((text,) if text else (), is_number)


def _figure(figure: FigureText) -> MarkupCell:
    text = _text(f"{figure.median}, {figure.note}" if figure.note else figure.median, is_number=True)
    return replace(text, is_best=figure.is_best, spread=figure.spread)
