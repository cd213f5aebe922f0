"""Show a reference (a published result): its source, its method, its comparability, and its rows as published."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.cli.common_options import emit, emit_json
from tunnelbench.cli.layout import cell, columns, drawn, facts, heading, title
from tunnelbench.model.reference import CPU_PART_COLUMNS, Reference
from tunnelbench.model.text import counted
from tunnelbench.reference import read_reference


def show(name: str, *, as_json: bool) -> None:
    """Write a reference in full. Raises WrongInput if there is none of that name."""
    reference = read_reference(name)
    if as_json:
        emit_json(reference)
    else:
        emit(text(reference))


def text(reference: Reference) -> str:
    same = {
        column: values.pop()
        for column in reference.columns
        if len(values := {row[column] for row in reference.rows}) == 1 and len(reference.rows) > 1
    }
    varied = [column for column in reference.columns if column not in same]
    table = [shown(column, members, reference) for column, members in groups(varied)]
    numbers = [place for place, (_, cells) in enumerate(table) if all(map(_is_number, cells))]
    facts_shown = [
        ("Published", f"{reference.source}, {reference.date}"),
        ("Where", reference.url or "unknown"),
        ("Method", reference.method),
        *(("Note", note) for note in reference.notes),
        *([("Clock", f"{reference.clock_mhz:g} MHz: {reference.clock_source}")] if reference.clock_mhz else []),
        ("Comparable", f"{reference.comparability.comparable}; {reference.comparability.label}"),
        *((f"Every {column}", value) for column, value in same.items() if value),
    ]
    return drawn(
        title(f"{reference.name}: {reference.title}"),
        facts(facts_shown),
        heading(f"{counted(len(reference.rows), 'row')}, as published ({reference.comparability.name})"),
        columns(zip(*(cells for _, cells in table), strict=True), [name for name, _ in table], numbers=numbers),
        cell(f"\n{reference.comparability.label}"),
    )


TITLES = {"payload_bytes": "payload", "throughput_mbps": "Mbit/s", "packets_per_s": "packets/s", "direction": "dir"}
"""Short headings of a table's columns, by the column's name in the CSV file."""
TOGETHER = {
    "tunnel": ("tunnel", "transport", "cipher", "auth"),
    "router (server)": ("version_router", "version_server"),
    "library, accelerator, flags": ("library", "acceleration", "flags"),
    "CPU % usr/sys/sirq": CPU_PART_COLUMNS,
}
"""Columns of the CSV file that are shown together in one column, by its heading."""


def groups(names: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each heading with the CSV columns below it, in the order of the first column of each."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        together = next((each for each in TOGETHER if name in TOGETHER[each]), None)
        heading_here = together or TITLES.get(name, name.replace("kbytes_per_s", "kB/s").replace("_", " "))
        found[heading_here] = (*found.get(heading_here, ()), name)
    return list(found.items())


def shown(heading_here: str, members: Sequence[str], reference: Reference) -> tuple[str, list[str]]:
    """Return a column of the shown table: its heading, and its cells as text."""
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
