"""The charts of a run as Vega-Lite specifications, each with its content as text and as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tunnelbench.report.charts.answer import answer_charts
from tunnelbench.report.charts.chart import Chart
from tunnelbench.report.charts.ciphers import cipher_charts
from tunnelbench.report.charts.costs import cost_charts
from tunnelbench.report.charts.figures import figure_charts
from tunnelbench.report.charts.instruction_places import instruction_places_charts
from tunnelbench.report.charts.loads import load_charts
from tunnelbench.report.charts.series import series_charts, soak_charts
from tunnelbench.report.document import Document


def charts(document: Document) -> tuple[Chart, ...]:
    """Return all charts for which a run has figures, in the order of the page; each has a name of its own."""
    found = (
        *answer_charts(document),
        *figure_charts(document),
        *cost_charts(document),
        *instruction_places_charts(document),
        *load_charts(document),
        *series_charts(document),
        *soak_charts(document),
        *cipher_charts(document),
    )
    times: Counter[str] = Counter()
    named = []
    for chart in found:
        times[chart.name] += 1
        again = times[chart.name]
        # No other name has two dashes.
        named.append(replace(chart, name=f"{chart.name}--{again}") if again > 1 else chart)
    return tuple(named)
