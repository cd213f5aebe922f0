"""Tables of Redmine's Textile: a row begins and ends with a bar; cells may contain line breaks and span rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tunnelbench.analysis.audit.tables.table import Grid, PublishedTable, checked_size

_ATTRIBUTES = re.compile(r"\s*(?:_|[/\\]\d{1,4}|[<>=^~-]|\([^)]*\)|\{[^}]*\}|\[[^\]]*\])+\.\s?")
_SPAN = re.compile(r"([/\\])(\d+)")
_PHRASE = re.compile(r"(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_REFERENCE = re.compile(r"&#(\d{1,7});")
LONGEST_ROW_LINES = 50
"""Longest row [lines]; text that does not end by then is not a row."""


def read(text: str) -> list[PublishedTable]:
    """Return every table of the page."""
    lines = text.splitlines()
    tables: list[Grid] = []
    number, was_row = 0, False
    while number < len(lines):
        end = _end_of_row(lines, number) if lines[number].startswith("|") else None
        if end is None:
            was_row = False
            number += 1
            continue
        if not was_row:
            tables.append(Grid())
        tables[-1].add(number + 1, _cells(number + 1, "\n".join(lines[number : end + 1])))
        was_row = True
        number = end + 1
    return [PublishedTable(tuple(grid.rows)) for grid in tables]


def _end_of_row(lines: list[str], start: int) -> int | None:
    """Return the line on which a row ends; None: the text is not a row."""
    for number in range(start, min(len(lines), start + LONGEST_ROW_LINES)):
        if number > start and (lines[number].startswith("|") or not lines[number].strip()):
            return None
        if lines[number].rstrip().endswith("|") and len(lines[number].strip()) > 1:
            return number
    return None


def _cells(line: int, row: str) -> Iterator[tuple[str, int, int]]:
    pieces = row.strip()[1:-1].split("|")
    checked_size(line, pieces)
    for piece in pieces:
        across = down = 1
        text = piece
        if found := _ATTRIBUTES.match(piece):
            text = piece[found.end() :]
            for kind, count in _SPAN.findall(found[0]):
                if kind == "/":
                    down = int(count)
                else:
                    across = int(count)
        yield _REFERENCE.sub(_character, _PHRASE.sub("", text)), across, down


def _character(reference: re.Match[str]) -> str:
    code = int(reference[1])
    return chr(code) if 32 <= code < 0xD800 else " "
