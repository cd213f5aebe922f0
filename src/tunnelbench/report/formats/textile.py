"""Textile as Redmine draws it: a tunnel's cell spans its rows, a payload's its directions.

What matters of Redmine's wiki_formatting/textile/redcloth3.rb: a cell's attributes stand before `. ` in the order `_`
(header), `/4` (row span), `>` (alignment); a row ends with `|` at the end of its line, any other line break is inside a
cell; `*bold*` begins after white space or `(`; a character reference passes through untouched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.report.document import Document, Style
from tunnelbench.report.markup import Cell, Column, Row, draw

_ACTIVE = re.compile(
    r"""
    [^\w\ .,;:()/%'-]        # all but what is harmless in most places, and of that:
    | (?<!\d)\.(?=\w)        # a dot inside a word, as in www.
    | :(?!\s|$|\d)           # a colon that joins, as in http: and user:
    | (?<![^\W_])- | -(?![^\W_])  # a dash that opens or closes a phrase, and what else does so:
    | (?<![^\W_])_ | _(?![^\W_])
    | (?<!\d)%
    | (?<!\ )\(              # a bracket that makes the word before it an acronym
    """,
    re.ASCII | re.VERBOSE,
)


def render(document: Document, style: Style) -> str:
    """Ready to be pasted into a wiki page."""
    del style
    return draw(document, Textile())


def escape(text: str) -> str:
    """`text` so that Redmine shows it as it is."""
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", text)


class Textile:
    """How Textile spells it."""

    def heading(self, level: int, text: str) -> str:
        return f"h{level + 1}. {escape(text)}"

    def fact(self, label: str, value: str) -> str:
        return f"* *{label}:* {escape(value)}"

    def caution(self, text: str) -> str:
        return self.paragraph(text)

    def paragraph(self, text: str) -> str:
        return f"p. {escape(text)}"  # says that it is a paragraph, whatever it begins with

    def item(self, text: str) -> str:
        return f"* {escape(text)}"

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
        head = "".join(f"|_. {escape(column.title)} " for column in columns)
        return [f"{head}|", *(f"{''.join(_cell(cell) for cell in row if not cell.is_covered)}|" for row in rows)]


def _cell(cell: Cell) -> str:
    text = "\n".join(escape(line) for line in cell.lines)
    marked = f"*{text}*" if cell.is_best else text
    shown = f"{marked} ({escape(cell.spread)})" if cell.spread else marked
    span = f"/{cell.rows}" if cell.rows > 1 else ""
    align = ">" if cell.is_number and shown else ""
    attributes = f"{'_' * cell.is_heading}{span}{align}"
    return f"|{attributes}{'.' * bool(attributes)} {shown}{' ' * bool(shown)}"
