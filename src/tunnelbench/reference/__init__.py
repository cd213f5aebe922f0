"""The published results: those that ship in `data/references`, and those that the user imported.

`NAME.toml` describes a published result, `NAME.csv` holds its rows.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pydantic import BaseModel, ConfigDict, ValidationError

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import CPU_PART_COLUMNS, Comparability, Comparable, Reference
from tunnelbench.model.text import printable
from tunnelbench.model.toml_text import toml_values
from tunnelbench.reference.imported import imported_names, imported_texts

CLASSES_FILE = "classes.toml"
PARTS_OF_CPU = (*CPU_PART_COLUMNS, "cpu_total_pct")
FIGURE_COLUMNS = ("payload_bytes", "throughput_mbps", "packets_per_s", *PARTS_OF_CPU)
"""Columns whose cells are numbers, or empty."""


def reference_names() -> list[str]:
    """Return the names of all published results: first those that ship, then the imported ones."""
    return [*shipped_names(), *imported_names()]


def shipped_names() -> list[str]:
    """Return the names of the published results that ship, sorted."""
    return sorted(entry.name.removesuffix(".csv") for entry in _folder().iterdir() if entry.name.endswith(".csv"))


def read_reference(name: str) -> Reference:
    """Return the reference of that name. Raises WrongInput if there is none, or if an imported one was damaged."""
    if name in shipped_names():
        return _shipped(name)
    if name in imported_names():
        return parse_reference(name, *imported_texts(name))
    raise WrongInput(f"there is no reference {printable(name)!r}", f"references: {', '.join(reference_names())}")


def class_names() -> list[str]:
    """Return the names of the classes of comparability."""
    return list(_classes())


@cache
def _shipped(name: str) -> Reference:
    return parse_reference(name, _text(f"{name}.toml"), _text(f"{name}.csv"))


def parse_reference(name: str, description: str, table: str) -> Reference:
    """Return a reference from the texts of its two files. Raises WrongInput if a figure in its table is no number."""
    head = _description(name, description)
    try:
        found = list(csv.DictReader(io.StringIO(table, newline=""), restval="", strict=True))
    except csv.Error as error:
        raise WrongInput(f"reference {name}: its table is not CSV: {error}", f"look at {name}.csv") from None
    rows = tuple({column: str({**head.every_row, **row}.get(column, "")) for column in head.columns} for row in found)
    for line, row in enumerate(rows, start=2):
        for column in FIGURE_COLUMNS:
            if (cell := row.get(column, "")) and not _is_figure(cell, column):
                message = f"reference {name}, line {line}: {column} is {printable(cell[:40])!r}, which is no figure"
                raise WrongInput(message, "write a number with a decimal point, or leave the cell empty")
    return Reference(
        name=name,
        title=head.title,
        source=head.source,
        url=head.url,
        date=head.date,
        method=head.method,
        notes=tuple(head.notes),
        comparability=_classes()[head.comparability],
        columns=tuple(head.columns),
        rows=rows,
        trials_per_row=head.trials_per_row,
        clock_mhz=head.clock_mhz,
        clock_source=head.clock_source,
    )


class _Description(BaseModel):
    """The content of a description as TOML has it; other keys are allowed and ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    title: str
    source: str
    date: str
    method: str
    comparability: str
    columns: list[str]
    url: str = ""
    notes: list[str] = []
    every_row: dict[str, str | int | float] = {}
    """Cells that are the same in each row, by column."""
    trials_per_row: int | None = None
    clock_mhz: float | None = None
    clock_source: str = ""


def _description(name: str, text: str) -> _Description:
    """Return the content of a description. Raises WrongInput if it is no TOML, or a value is missing or wrong."""
    try:
        found = _Description.model_validate(dict(toml_values(text)))
    except ValidationError as error:
        why = f"{error.errors()[0]['loc'][0]} is missing or wrong"
    except ValueError as error:
        why = f"it is not TOML: {printable(str(error))[:200]}"
    else:
        if found.comparability in _classes():
            return found
        why = "comparability is missing or wrong"
    raise WrongInput(f"reference {name}: {why}", f"look at {name}.toml; if you imported it, import it again")


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
