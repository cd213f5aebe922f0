"""The published results that ship: `data/references/NAME.toml` describes them, `NAME.csv` holds their rows."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import CPU_PART_COLUMNS, Comparability, Comparable, Reference
from tunnelbench.model.text import printable

CLASSES_FILE = "classes.toml"
PARTS_OF_CPU = (*CPU_PART_COLUMNS, "cpu_total_pct")
FIGURE_COLUMNS = ("payload_bytes", "throughput_mbps", "packets_per_s", *PARTS_OF_CPU)
"""Columns whose cells are numbers, or empty."""


def reference_names() -> list[str]:
    """Return the names of all shipped tables of published results, sorted."""
    return sorted(entry.name.removesuffix(".csv") for entry in _folder().iterdir() if entry.name.endswith(".csv"))


@cache
def read_reference(name: str) -> Reference:
    """Return the reference of that name. Raises WrongInput if there is none."""
    names = reference_names()
    if name not in names:
        raise WrongInput(f"there is no reference {name!r}", f"references: {', '.join(names)}")
    return parse_reference(name, _text(f"{name}.toml"), _text(f"{name}.csv"))


def parse_reference(name: str, description: str, table: str) -> Reference:
    """Return a reference from the texts of its two files. Raises WrongInput if a figure in its table is no number."""
    head = tomllib.loads(description)
    columns = tuple(head["columns"])
    everywhere = head.get("every_row", {})
    try:
        found = list(csv.DictReader(io.StringIO(table, newline=""), restval="", strict=True))
    except csv.Error as error:
        raise WrongInput(f"reference {name}: its table is not CSV: {error}", f"look at {name}.csv") from None
    rows = tuple({column: str({**everywhere, **row}.get(column, "")) for column in columns} for row in found)
    for line, row in enumerate(rows, start=2):
        for column in FIGURE_COLUMNS:
            if (cell := row.get(column, "")) and not _is_figure(cell, column):
                message = f"reference {name}, line {line}: {column} is {printable(cell[:40])!r}, which is no figure"
                raise WrongInput(message, "write a number with a decimal point, or leave the cell empty")
    return Reference(
        name=name,
        title=head["title"],
        source=head["source"],
        url=head.get("url", ""),
        date=head["date"],
        method=head["method"],
        notes=tuple(head.get("notes", ())),
        comparability=_classes()[head["comparability"]],
        columns=columns,
        rows=rows,
        trials_per_row=head.get("trials_per_row"),
        clock_mhz=head.get("clock_mhz"),
        clock_source=head.get("clock_source", ""),
    )


def _is_figure(cell: str, column: str) -> bool:
    """Return True if a cell is a plain number that its column can have; a payload is a whole number."""
    is_plain = re.fullmatch(r"[0-9]{1,12}" if column == "payload_bytes" else r"[0-9]{1,12}(\.[0-9]{1,12})?", cell)
    return bool(is_plain) and (float(cell) > 0 or column in PARTS_OF_CPU)


def _folder() -> Traversable:
    return files("tunnelbench") / "data" / "references"


def _text(file: str) -> str:
    return (_folder() / file).read_text(encoding="utf-8")


@cache
def _classes() -> Mapping[str, Comparability]:
    return {
        name: Comparability(name, Comparable(each["comparable"]), each["meaning"])
        for name, each in tomllib.loads(_text(CLASSES_FILE)).items()
    }
