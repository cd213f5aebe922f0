"""The charts of a run as PNG or SVG files, drawn by vl-convert without a browser and without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tunnelbench.host.python_packages import CHARTS, install_hint
from tunnelbench.model.errors import CannotHere
from tunnelbench.report.charts import charts
from tunnelbench.report.charts.chart import PAGE_PX, Chart, completed
from tunnelbench.report.document import Document

VEGA_LITE = "6.4"
"""Version of Vega-Lite, the same as in the page."""
PIXELS = 2.0
"""Pixels of a PNG for each pixel of the page."""
PADDING_PX = 12
INK, PAPER = "#1b1f24", "white"


def chart_files(document: Document, format_name: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a file for each chart. Raises CannotHere if the library that draws them is missing."""
    draw = _converter(format_name)  # a missing library is reported before anything is done
    return ((f"{chart.name}.{format_name}", draw(_of_file(chart))) for chart in charts(document))


def _of_file(chart: Chart) -> str:
    spec = completed(chart, ink=INK, width=PAGE_PX)
    spec["config"]["aria"] = True  # a file has no table next to it
    return json.dumps({**spec, "background": PAPER, "padding": PADDING_PX})


def _converter(format_name: str) -> Callable[[str], bytes]:
    try:
        import vl_convert  # noqa: PLC0415 - an extra, and 88 MB
    except ImportError:
        message = f"charts as files are drawn by {CHARTS}, which is not installed"
        raise CannotHere(message, f"{install_hint(CHARTS)}, or use --format html") from None
    options: dict[str, Any] = {"vl_version": VEGA_LITE, "allowed_base_urls": []}
    if format_name == "svg":
        return lambda spec: vl_convert.vegalite_to_svg(spec, **options).encode()
    return lambda spec: vl_convert.vegalite_to_png(spec, scale=PIXELS, **options)
