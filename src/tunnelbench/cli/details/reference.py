"""A reference: what it is, how it was measured, what it may be compared with, and its rows as published."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title
from tunnelbench.cli.output import emit, emit_json
from tunnelbench.model.reference import Reference
from tunnelbench.model.text import counted
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
    table = [shown(column, members, reference) for column, members in groups(varied)]
    numbers = [place for place, (_, cells) in enumerate(table) if all(map(_is_number, cells))]
    told = [
        ("Published", f"{reference.source}, {reference.date}"),
        ("Where", reference.url or "not known"),
        ("Method", reference.method),
        ("Comparable", f"{reference.comparability.comparable}; {reference.comparability.label}"),
        *((f"Every {column}", value) for column, value in same.items() if value),
    ]
    return drawn(
        title(f"{reference.name}: {reference.title}"),
        facts(told),
        heading(f"{counted(len(reference.rows), 'row')}, as published ({reference.comparability.name})"),
        columns(zip(*(cells for _, cells in table), strict=True), [name for name, _ in table], numbers=numbers),
        cell(f"\n{reference.comparability.label}"),
    )


TITLES = {"payload_bytes": "payload", "throughput_mbps": "Mbit/s", "packets_per_s": "packets/s", "direction": "dir"}
"""Columns whose heading can be shorter than their name in the file."""
TOGETHER = {
    "tunnel": ("tunnel", "transport", "cipher", "auth"),
    "router (server)": ("version_router", "version_server"),
    "library, accelerator, flags": ("library", "acceleration", "flags"),
    "CPU % usr/sys/sirq": ("cpu_usr_pct", "cpu_sys_pct", "cpu_sirq_pct"),
}
"""Columns that are shown as one, by their heading."""


def groups(names: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Headings, and the columns that stand under each, in the order of the first."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        together = next((each for each in TOGETHER if name in TOGETHER[each]), None)
        heading_here = together or TITLES.get(name, name.replace("kbytes_per_s", "kB/s").replace("_", " "))
        found[heading_here] = (*found.get(heading_here, ()), name)
    return list(found.items())


def shown(heading_here: str, members: Sequence[str], reference: Reference) -> tuple[str, list[str]]:
    """A heading and the cells under it."""
    cells = []
    for row in reference.rows:
        values = [row[name] for name in members]
        if heading_here.startswith("CPU") and len(members) > 1:
            cells.append("/".join(value or "-" for value in values) if any(values) else "")
        elif members[0] == "version_router" and len(members) > 1:
            cells.append(f"{values[0]} ({values[1]})" if values[1] else values[0])
        else:
            cells.append(" ".join(filter(None, values)))
    return heading_here, cells


def _is_number(value: str) -> bool:
    return not value or value.replace(".", "", 1).isdigit()
