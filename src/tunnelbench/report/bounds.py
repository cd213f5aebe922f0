"""Limits of reports for people: a run with thousands of rows stays readable, and the report says what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tunnelbench.report.document import Document
from tunnelbench.report.instruction_places_section import PLACES_TITLE
from tunnelbench.report.sections import Section

MOST_REPORTED_ROWS = 500
"""Largest number of rows of a table."""
MOST_ITEMS = 200
"""Largest number of items of a list."""
MOST_PROFILES = 100
"""Largest number of tunnels, payloads and directions whose instructions a report has by place."""


def bounded(document: Document) -> Document:
    """Return the report with only its first rows, their tunnels, and the first items of each list."""
    rows, udp_rows = document.rows[:MOST_REPORTED_ROWS], document.udp_rows[:MOST_REPORTED_ROWS]
    connection_rows = document.connection_rows[:MOST_REPORTED_ROWS]
    sections = tuple(map(bounded_section, _first_places(document.sections)))
    warnings = tuple(map(bounded_section, document.warnings))
    places = document.instruction_places[:MOST_PROFILES]
    document = replace(document, sections=sections, warnings=warnings, instruction_places=places)
    every = (document.rows, document.udp_rows, document.connection_rows)
    left_out = sum(map(len, every)) - len(rows) - len(udp_rows) - len(connection_rows)
    if not left_out:
        return document
    shown = {row.tunnel.name for row in (*rows, *udp_rows, *connection_rows)}
    caution = f"This report leaves out {left_out} rows, which are too many for it: --format csv has every trial."
    return replace(
        document,
        rows=rows,
        udp_rows=udp_rows,
        connection_rows=connection_rows,
        limits=document.limits[:MOST_REPORTED_ROWS],
        advice=document.advice[:MOST_ITEMS],
        models=document.models[:MOST_ITEMS],
        parts=document.parts[:MOST_ITEMS],
        records=tuple(record for record in document.records if record.spec.tunnel.name in shown),
        cautions=(*document.cautions, caution),
    )


def _first_places(sections: Sequence[Section]) -> Iterator[Section]:
    """Yield the sections, but only the first of those on the places of a router's instructions."""
    profiles = 0
    for section in sections:
        profiles += section.title.startswith(PLACES_TITLE)
        if profiles <= MOST_PROFILES or not section.title.startswith(PLACES_TITLE):
            yield section


def bounded_section(section: Section) -> Section:
    """Return a section with its first rows and items."""
    return replace(section, rows=section.rows[:MOST_REPORTED_ROWS], items=_first_items(section.items))


def _first_items(items: Sequence[str]) -> tuple[str, ...]:
    left_out = len(items) - MOST_ITEMS
    return (*items[:MOST_ITEMS], *([f"and {left_out} more, which --format csv has"] if left_out > 0 else []))
