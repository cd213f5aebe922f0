"""Values separated by commas, semicolons, tabs or bars (RFC 4180 and the variants of spreadsheets)."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter

from tunnelbench.analysis.audit.tables.table import MOST_TABLE_ROWS, PublishedTable, table_row, too_large
from tunnelbench.model.errors import WrongInput

DELIMITERS = (",", ";", "\t", "|")
SAMPLED_LINES = 50


def read(text: str) -> list[PublishedTable]:
    """Return the table; lines before it that begin with # are ignored."""
    lines = text.splitlines(keepends=True)
    skipped = len(list(itertools.takewhile(lambda line: line.startswith("#") or not line.strip(), lines)))
    body = "".join(lines[skipped:])
    if not body:
        return []
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=_delimiter(body))
    rows = []
    before = skipped
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append(table_row(before + 1, cells))
            before = skipped + reader.line_num
            if len(rows) > MOST_TABLE_ROWS:
                raise too_large(before, f"over {MOST_TABLE_ROWS} rows")
    except csv.Error as error:
        raise WrongInput(f"line {before + 1}: not CSV: {error}", "a quotation mark may be open") from None
    return [PublishedTable(tuple(rows))]


def _delimiter(text: str) -> str:
    """Return the delimiter that gives most lines the same number of columns, and then the most columns."""

    def merit(delimiter: str) -> tuple[int, int]:
        sample = itertools.islice(io.StringIO(text, newline=""), SAMPLED_LINES)
        try:
            widths = Counter(len(cells) for cells in csv.reader(sample, delimiter=delimiter) if cells)
        except csv.Error:
            return (0, 0)
        width, lines = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
        return (lines if width > 1 else 0, width)

    return max(DELIMITERS, key=merit)
