"""The charts of a run as Vega-Lite, each with the same in words and figures; drawn by the page, or into files."""

from __future__ import annotations

from tunnelbench.report.charts.chart import Chart
from tunnelbench.report.charts.ciphers import cipher_charts
from tunnelbench.report.charts.costs import cost_charts
from tunnelbench.report.charts.figures import figure_charts
from tunnelbench.report.charts.loads import load_charts
from tunnelbench.report.charts.series import series_charts
from tunnelbench.report.document import Document


def charts(document: Document) -> tuple[Chart, ...]:
    """All that a run has figures for, in the order of a page."""
    return (
        *figure_charts(document),
        *cost_charts(document),
        *load_charts(document),
        *series_charts(document),
        *cipher_charts(document),
    )
