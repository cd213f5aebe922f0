"""A sheet: the printable form of an audit or a comparison, with facts, cautions, one table and sections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunnelbench.report.charts.chart import Chart
from tunnelbench.report.sections import Section

VERDICT = "Verdict"
"""Title of the section that says the result in words."""


@dataclass(frozen=True)
class Sheet:
    """The printable form of a result that is not a run: an audit or a comparison."""

    title: str
    facts: tuple[tuple[str, str], ...]
    cautions: tuple[str, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Rows of the table, each with one text per heading."""
    numbers: Collection[int] = ()
    """Positions of the columns of numbers."""
    sections: tuple[Section, ...] = ()
    charts: tuple[Chart, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """The result as data for the JSON format."""
