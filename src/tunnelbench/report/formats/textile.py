"""Textile markup for Redmine: a tunnel's cell spans all its rows, a payload's cell its directions.

Rules of Redmine's wiki_formatting/textile/redcloth3.rb: a cell's attributes stand before `. ` in the order `_`
(header), `/4` (row span), `>` (alignment); a row ends with `|` at the end of its line, any other line break is inside a
cell; `*bold*` begins after white space or `(`; a character reference passes through untouched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.report.markup import MarkupCell, MarkupColumn, MarkupFormat, MarkupRow

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


def escape(text: str) -> str:
    """Return `text` escaped, so that Redmine shows it as it is."""
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", text)


class Format(MarkupFormat):
    """Textile for a wiki page of Redmine."""

    escaped = staticmethod(escape)
    fact = "* *{}:* {}"
    caution = "p. {}"
    paragraph = "p. {}"  # "p. " marks a paragraph, also if the text begins as another block does
    item = "* {}"

    def heading(self, level: int, text: str) -> str:
        return f"h{level + 1}. {escape(text)}"

    def table(self, columns: Sequence[MarkupColumn], rows: Sequence[MarkupRow]) -> list[str]:
        head = "".join(f"|_. {escape(column.title)} " for column in columns)
        return [f"{head}|", *(f"{''.join(_cell(cell) for cell in row if not cell.is_covered)}|" for row in rows)]


def _cell(cell: MarkupCell) -> str:
    text = "\n".join(escape(line) for line in cell.lines)
    marked = f"*{text}*" if cell.is_best else text
    shown = f"{marked} ({escape(cell.spread)})" if cell.spread else marked
    span = f"/{cell.rows}" if cell.rows > 1 else ""
    align = ">" if cell.is_number and shown else ""
    attributes = f"{'_' * cell.is_heading}{span}{align}"
    return f"|{attributes}{'.' * bool(attributes)} {shown}{' ' * bool(shown)}"
