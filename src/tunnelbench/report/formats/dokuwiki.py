"""Markup of DokuWiki, which OpenWrt's wiki uses: a tunnel's cell spans all its rows, a payload's cell its directions.

Rules of DokuWiki's inc/Parsing/ParserMode: `%%` and `<nowiki>` show what they enclose as it is, in tables too; a
heading's text is not parsed; `||` would make a cell span columns, `:::` continues the cell above; two blanks on the
left of a cell align it to the right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.report.markup import MarkupCell, MarkupColumn, MarkupFormat, MarkupRow

_ACTIVE = re.compile(
    r"""(?:
    [^\w\s.,;:()/%'+=\[\]-]       # all but what is harmless in most places, and of that:
    | '                           # made typographic
    | //+ | --+ | __+ | ==+ | \.\.\.+ | :::+   # italic, dashes, underlined, a heading, an ellipsis, the cell above
    | %(?!(?:[\s.,;:)]|$)) | (?<![\d\s])%      # %% shows as it is; a lone one may stand after a figure
    | \(\(+ | \)\)+ | \[\[+ | \]\]+   # a foot note, a link
    | [:;](?=-) | 8(?=-[)o]) | =(?=\)) | :(?=[?!]) | m(?=\()    # faces
    | FIXME | DELETEME | LOL       # pictures
    | (?<=\()(?:c|r|tm)(?=\))         # signs
    | (?<=\d)x(?=\d)           # becomes a multiplication
    | (?<=ww)\. | (?<=ft)\. | (?<=ftp)\.      # what begins an address
    )+""",
    re.VERBOSE | re.IGNORECASE,
)


def escape(text: str) -> str:
    """Return one line of text escaped, so that DokuWiki shows it as it is."""
    return _ACTIVE.sub(lambda found: _as_it_is(found[0]), text)


def _as_it_is(text: str) -> str:
    """Return text between marks; a `%` in it would end the marks `%%`."""
    return f"<nowiki>{text}</nowiki>" if "%" in text else f"%%{text}%%"


class Format(MarkupFormat):
    """A report as a page in the markup of DokuWiki."""

    escaped = staticmethod(escape)
    fact = "  * **{}:** {}"
    caution = "**{}**"
    item = "  * {}"

    def heading(self, level: int, text: str) -> str:
        marks = "=" * (7 - level)
        return f"{marks} {text} {marks}"

    def table(self, columns: Sequence[MarkupColumn], rows: Sequence[MarkupRow]) -> list[str]:
        head = "".join(f"^ {escape(column.title)} " for column in columns)
        return [f"{head}^", *(f"{''.join(_cell(cell) for cell in row)}|" for row in rows)]


def _cell(cell: MarkupCell) -> str:
    if cell.is_covered:
        return "| ::: "
    text = r"\\ ".join(escape(line) for line in cell.lines)
    marked = f"**{text}**" if cell.is_best else text
    shown = f"{marked} ({escape(cell.spread)})" if cell.spread else marked
    return f"{'^' if cell.is_heading else '|'}{'  ' if cell.is_number else ' '}{shown} "
