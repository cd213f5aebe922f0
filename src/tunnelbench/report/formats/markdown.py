"""Markdown with tables as GitHub draws them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.report.document import Document, Style
from tunnelbench.report.markup import Cell, Column, Row, draw

_ACTIVE = re.compile(r"([\\`*_{}\[\]#|~$!@]|:(?=//)|(?<=www)\.|^[-+=])", re.IGNORECASE)
"""What would start a phrase, a link, a mention, a cell or, at the beginning, a list."""
_LIST_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")


def render(document: Document, style: Style) -> str:
    """A tunnel's name and versions stand in its first row."""
    del style
    return draw(document, Markdown())


def escape(text: str) -> str:
    """`text` so that Markdown shows it as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return _LIST_NUMBER.sub(r"\1\\\2", _ACTIVE.sub(r"\\\1", text))


class Markdown:
    """How Markdown spells it; a cell cannot span rows."""

    def heading(self, level: int, text: str) -> str:
        return f"{'#' * level} {escape(text)}"

    def fact(self, label: str, value: str) -> str:
        return f"- **{label}**: {escape(value)}"

    def caution(self, text: str) -> str:
        return f"> {escape(text)}"

    def paragraph(self, text: str) -> str:
        return escape(text)

    def item(self, text: str) -> str:
        return f"- {escape(text)}"

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
        head = [[escape(column.title) for column in columns], ["--:" if each.is_number else ":--" for each in columns]]
        return [_row(cells) for cells in (*head, *([_cell(cell) for cell in row] for row in rows))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = "<br>".join(escape(line) for line in cell.lines)
    marked = f"**{text}**" if cell.is_best else text
    return f"{marked} ({escape(cell.spread)})" if cell.spread else marked
