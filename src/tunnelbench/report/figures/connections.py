"""Figures of TCP connections: of a `UdpMeasurement` with connections, and of the `ConnectionFigures` of a row."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tunnelbench.analysis.number_format import count_text
from tunnelbench.model.connections import ConnectionCounts, TrackerReading
from tunnelbench.report.figures.figure import Figure, Read, Spread, read
from tunnelbench.report.figures.shared import BUSY, DAEMON, FAR_END, SHARE, TESTER_LIMITED, of_rows, pings


def _number(name: str) -> Read:
    """Return a reader of the median of a number of connections, as text."""
    value = read(f"row.figures.{name}")
    return lambda found: None if value(found) is None else count_text(value(found).median)


def _of_rows(key: str, title: str, **more: Any) -> Figure:
    """Return a figure of rows that follows from the counts of a trial."""
    return of_rows(key, title, of_trial=read(f"connections.{key}"), **more)


READINGS = ("tracked_before", "tracked_most")
IN_ROWS = ("open_max", "establishment_p50_ns", "establishment_p99_ns")

CONNECTIONS = (
    _of_rows(
        "established_per_s",
        "New/s",
        help="New/s: TCP connections per second on which the far end's answer arrived.",
        is_rate=True,
    ),
    replace(SHARE, narrow_under="established_per_s"),
    _of_rows(
        "open_max",
        "Open",
        help="Open: most connections that were established at the same time.",
        of_table=_number("open_max"),
        is_stored=True,
    ),
    _of_rows(
        "not_established",
        "Lost",
        help="Lost: connections that were begun and not established.",
        of_table=_number("not_established"),
    ),
    _of_rows(
        "tracked",
        "Tracked",
        help="Tracked: connections that the router tracked, at most, those of earlier trials included.",
        of_table=_number("tracked"),
        is_optional=True,
    ),
    *(
        _of_rows(
            f"establishment_{percentile}_ns",
            f"Established {label}",
            unit="µs",
            help=text,
            is_stored=True,
            scale=1e-3,
            digits=3,
            spread=Spread.NOWHERE,
        )
        for percentile, label, text in (
            ("p50", "50 %", "Established: time from the begin of a connection to the far end's answer."),
            ("p99", "99 %", ""),
        )
    ),
    *(
        Figure(field.name, of_trial=read(f"connections.{field.name}"), is_stored=True, is_row_data=False)
        for field in fields(ConnectionCounts)
        if field.name not in (*READINGS, *IN_ROWS)
    ),
    *(
        Figure(
            f"{name}_{field.name}", of_trial=read(f"connections.{name}.{field.name}"), is_stored=True, is_row_data=False
        )
        for name in READINGS
        for field in fields(TrackerReading)
    ),
    TESTER_LIMITED,
    BUSY,
    DAEMON,
    FAR_END,
    *pings("establishment_p50_ns", is_optional=True),
)
