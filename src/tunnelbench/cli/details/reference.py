"""A reference: what it is, how it was measured, what it may be compared with, and its rows as published."""

from __future__ import annotations

from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title
from tunnelbench.cli.output import emit, emit_json
from tunnelbench.model.reference import Reference
from tunnelbench.reference import read_reference


def show(name: str, *, as_json: bool) -> None:
    """Write a reference; WrongInput where there is none of that name."""
    reference = read_reference(name)
    if as_json:
        emit_json(reference)
    else:
        emit(text(reference))


def text(reference: Reference) -> str:
    """All of it, for people."""
    same = {
        column: values.pop()
        for column in reference.columns
        if len(values := {row[column] for row in reference.rows}) == 1 and len(reference.rows) > 1
    }
    varied = [column for column in reference.columns if column not in same]
    numbers = [place for place, column in enumerate(varied) if all(_is_number(row[column]) for row in reference.rows)]
    told = [
        ("Published", f"{reference.source}, {reference.date}"),
        ("Where", reference.url or "not known"),
        ("Method", reference.method),
        ("Comparable", f"{reference.comparability.comparable}; {reference.comparability.label}"),
        *((f"Every {column}", value) for column, value in same.items() if value),
    ]
    rows = [[row[column] for column in varied] for row in reference.rows]
    return drawn(
        title(f"{reference.name}: {reference.title}"),
        facts(told),
        heading(f"{len(rows)} rows, as published ({reference.comparability.name})"),
        columns(rows, [column.replace("_", " ") for column in varied], numbers=numbers),
        cell(f"\n{reference.comparability.label}"),
    )


def _is_number(value: str) -> bool:
    return not value or value.replace(".", "", 1).isdigit()
