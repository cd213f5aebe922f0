"""The list of all figures. Tables, legends, CSV, JSON and its schema are made from it.

A figure that follows from a stored trial is one entry. docs/page.md says what other figures need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tunnelbench.report.figures.connections import CONNECTIONS
from tunnelbench.report.figures.figure import AnyRow, Figure, FigureText, Read, Spread, TableRow
from tunnelbench.report.figures.soak import SOAK
from tunnelbench.report.figures.tcp import TCP
from tunnelbench.report.figures.udp import UDP

__all__ = ["FIGURES", "AnyRow", "Figure", "FigureText", "Read", "Spread", "TableRow", "csv_figures", "figure",
           "row_figures", "table_figures", "trial_figures"]  # fmt: skip

FIGURES: dict[str, tuple[Figure, ...]] = {"tcp": TCP, "udp": UDP, "connections": CONNECTIONS, "soak": SOAK}
"""All figures by the kind of their measurement, in the order in which tables and CSV have them."""


def figure(kind: str, key: str) -> Figure:
    """Return one figure; KeyError if there is none of that name."""
    return {each.key: each for each in FIGURES[kind]}[key]


def table_figures(kind: str, rows: Sequence[TableRow] = ()) -> tuple[Figure, ...]:
    """Return the figures that tables of some rows have columns for."""
    return tuple(
        each
        for each in FIGURES[kind]
        if each.title and (not each.is_optional or any(each.of_row_data(row) is not None for row in rows))
    )


def trial_figures(kind: str, measurement: Any) -> dict[str, Any]:
    """Return the figures that follow from what was counted in a trial, by their keys."""
    return {each.key: each.of_trial(measurement) for each in FIGURES[kind] if each.of_trial and not each.is_stored}


def row_figures(kind: str, found: TableRow) -> dict[str, Any] | None:
    """Return the figures of a row as data, by their keys; None where no trial counts."""
    if found.row.figures is None:
        return None
    return {each.key: each.of_row_data(found) for each in FIGURES[kind] if each.is_row_data}


def csv_figures() -> Iterator[tuple[str, str, Read]]:
    """Yield the kind, the column and the reader of each figure that CSV has."""
    for kind, figures in FIGURES.items():
        prefix = "" if kind == "tcp" else f"{kind}_"
        for each in figures:
            if each.of_trial and each.is_in_csv:
                yield kind, prefix + each.key, each.of_trial
