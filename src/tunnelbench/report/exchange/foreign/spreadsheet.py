"""A table of anybody, with a mapping file that states the meaning of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tunnelbench.analysis.audit.headings import rate_unit
from tunnelbench.analysis.audit.quantities import has_decimal_comma, multiplied, quantity
from tunnelbench.analysis.audit.tables import read as read_tables
from tunnelbench.analysis.audit.tables.table import PublishedTable
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.model.toml_text import toml_values
from tunnelbench.report.exchange.foreign.result import (
    LARGEST_PAYLOAD_BYTES,
    UNSTATED,
    ForeignResult,
    Mapped,
    cell_text,
    figure_text,
    rate_text,
)

_TEXTS = ("device", "cpu", "system", "tunnel", "transport", "cipher", "auth", "version_router", "version_server",
         "traffic", "direction", "comment", "price", "watts")  # fmt: skip
"""Columns of a reference whose cells are texts."""
_MBPS_COLUMN, _PPS_COLUMN, _PAYLOAD_COLUMN = "throughput_mbps", "packets_per_s", "payload_bytes"
_PER_CENT = ("cpu_usr_pct", "cpu_sys_pct", "cpu_sirq_pct", "cpu_total_pct")
_COLUMNS = (*_TEXTS, _PAYLOAD_COLUMN, _MBPS_COLUMN, _PPS_COLUMN, *_PER_CENT)
_LARGEST_PER_CENT = 100_000.0
"""Largest CPU time [%]: some programs count each CPU as 100 %."""
_MBPS = 1e6
_MOST_LISTED = 12
LARGEST_MAPPING_CHARACTERS = 100_000

_HINT = 'such as: [columns] device = "Router", throughput_mbps = "Speed"; docs/exchange.md has an example'
_KEYS = {"columns", "every_row", "values", "title", "source", "date", "method", "class", "trials_per_row"}


def read_mapping(text: str) -> Mapped:
    """Return the content of a mapping file. Raises WrongInput if it is no TOML, or has an unknown key or column."""
    if len(text) > LARGEST_MAPPING_CHARACTERS:
        raise WrongInput("it is too large for a mapping file", _HINT)
    try:
        found = toml_values(text)
    except ValueError as error:
        raise WrongInput(f"it is not TOML: {printable(str(error))[:200]}", _HINT) from None
    if unknown := sorted(found.keys() - _KEYS):
        raise WrongInput(f"unknown key {printable(unknown[0])[:60]!r}", f"keys: {', '.join(sorted(_KEYS))}")
    columns, every_row = _texts(found, "columns"), _texts(found, "every_row")
    values = found.get("values", {})
    if not isinstance(values, dict):
        raise WrongInput("values is not a table", '[values.direction] down = "in"')
    for name in (*columns, *every_row, *values):
        if name not in _COLUMNS:
            raise WrongInput(f"unknown column {printable(name)[:60]!r}", f"columns: {', '.join(_COLUMNS)}")
    if not {_MBPS_COLUMN, _PPS_COLUMN} & columns.keys():
        raise WrongInput(f"[columns] names neither {_MBPS_COLUMN} nor {_PPS_COLUMN}", _HINT)
    trials = found.get("trials_per_row")
    if trials is not None and (not isinstance(trials, int) or isinstance(trials, bool) or trials < 1):
        raise WrongInput("trials_per_row is not a positive whole number", "trials_per_row = 3")
    single = {name: _text_of(found, name) for name in ("title", "source", "date", "method", "class")}
    return Mapped(
        columns=columns,
        every_row=every_row,
        values={name: _texts(values, name) for name in values},
        title=single["title"],
        source=single["source"],
        date=single["date"],
        method=single["method"],
        comparability=single["class"],
        trials_per_row=trials,
    )


def _text_of(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise WrongInput(f"{name} is not a text", f'{name} = "..."')
    return cell_text(value)


def _texts(found: Mapping[str, Any], name: str) -> Mapping[str, str]:
    value = found.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise WrongInput(f"{printable(name)[:60]} is not a table of texts", _HINT)
    return value


def read(text: str, mapped: Mapped) -> ForeignResult:
    """Return the rows of the first table that has the columns of the mapping.

    Raises WrongInput if there is none, or if a cell of a figure is none.
    """
    table, places = _table_of(read_tables(text), mapped)
    body = table.rows[1:]
    headings = table.rows[0].cells
    has_comma = any(
        has_decimal_comma(line.cells[at]) for line in body for at in places.values() if at < len(line.cells)
    )
    rows = []
    for line in body:
        cells = {name: line.cells[at] if at < len(line.cells) else "" for name, at in places.items()}
        row = dict(mapped.every_row)
        for name, cell in cells.items():
            translated = mapped.values.get(name, {}).get(cell, cell)
            if name in _TEXTS:
                row[name] = cell_text(translated)
            elif translated:
                what = f"line {line.line}: {headings[places[name]]}"
                row[name] = _figure(name, translated, headings[places[name]], what, has_comma=has_comma)
        if row.get(_MBPS_COLUMN) or row.get(_PPS_COLUMN):
            rows.append(row)
    return ForeignResult(
        program="a table",
        title=mapped.title,
        date=mapped.date,
        source=mapped.source,
        method=mapped.method or UNSTATED,
        rows=tuple(rows),
        comparability=mapped.comparability,
        trials_per_row=mapped.trials_per_row,
    )


def _table_of(tables: Sequence[PublishedTable], mapped: Mapped) -> tuple[PublishedTable, Mapping[str, int]]:
    """Return the table that has all headings of the mapping, and the place of each column."""
    for table in tables:
        headings = [cell.casefold() for cell in table.rows[0].cells]
        wanted = {name: " ".join(heading.split()).casefold() for name, heading in mapped.columns.items()}
        if all(heading in headings for heading in wanted.values()):
            return table, {name: headings.index(heading) for name, heading in wanted.items()}
    known = tables[0].rows[0].cells
    missing = [heading for heading in mapped.columns.values() if heading.casefold() not in map(str.casefold, known)]
    listed = ", ".join(printable(cell)[:40] for cell in known[:_MOST_LISTED])
    raise WrongInput(f"it has no column {printable((missing or ['?'])[0])[:60]!r}", f"its columns are: {listed}")


def _figure(name: str, cell: str, heading: str, what: str, *, has_comma: bool) -> str:
    """Return a cell as a decimal number in the unit of its column."""
    found = quantity(cell, comma_is_point=has_comma)
    if found is None:
        raise WrongInput(f"{what} is {printable(cell)[:40]!r}, which is no figure", "correct the table or the mapping")
    if name == _MBPS_COLUMN:
        unit = rate_unit(cell) or rate_unit(heading) or _MBPS
        return rate_text(found.value * unit / _MBPS, what)
    value = multiplied(found).value
    if name == _PAYLOAD_COLUMN:
        if not re.fullmatch(r"[0-9]{1,6}", f"{value:g}") or not 0 < value <= LARGEST_PAYLOAD_BYTES:
            raise WrongInput(f"{what} is {printable(cell)[:40]!r}, which is no payload", "a payload is in bytes")
        return f"{value:.0f}"
    if name in _PER_CENT and not 0 <= value <= _LARGEST_PER_CENT:
        raise WrongInput(f"{what} is {printable(cell)[:40]!r}, which is no share of a CPU", "a share is in per cent")
    return "0" if value == 0 else figure_text(value, what)
