"""Markdown with tables as GitHub draws them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.report.markup import MarkupCell, MarkupColumn, MarkupFormat, MarkupRow

_ACTIVE = re.compile(r"([\\`*_{}\[\]#|~$!@]|:(?=//)|(?<=www)\.|^[-+=])", re.IGNORECASE)
"""Characters that would start a phrase, a link, a mention, a cell or, at the beginning, a list."""
_LIST_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")


def escape(text: str) -> str:
    """Return `text` escaped, so that Markdown shows it as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return _LIST_NUMBER.sub(r"\1\\\2", _ACTIVE.sub(r"\\\1", text))


class Format(MarkupFormat):
    """Markdown. A cell cannot span rows: a tunnel stands in its first one."""

    escaped = staticmethod(escape)
    fact = "- **{}**: {}"
    caution = "> {}"
    item = "- {}"

    def heading(self, level: int, text: str) -> str:
        return f"{'#' * level} {escape(text)}"

    def table(self, columns: Sequence[MarkupColumn], rows: Sequence[MarkupRow]) -> list[str]:
        head = [[escape(column.title) for column in columns], ["--:" if each.is_number else ":--" for each in columns]]
        return [_row(cells) for cells in (*head, *([_cell(cell) for cell in row] for row in rows))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: MarkupCell) -> str:
    text = "<br>".join(escape(line) for line in cell.lines)
    marked = f"**{text}**" if cell.is_best else text
    return f"{marked} ({escape(cell.spread)})" if cell.spread else marked
