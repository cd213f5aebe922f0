"""What all charts have in common: the words beside them, their look, how they are completed for a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Any

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""A name, from which nothing is fetched."""

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A800")
"""Okabe and Ito, "Color Universal Design" (2008), told apart with any kind of colour vision; grey stands for its black,
which a dark page hides, and its yellow is darkened for a light one. A chart never tells things apart by colour alone.
"""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 6])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

MARK = "#D55E00"
"""Of what is to be seen first: a limit, a loss, the start of the test."""


CHARACTER_PX = 6
"""About, of the small text."""


class Place(StrEnum):
    """The section of a page to which a chart belongs."""

    THROUGHPUT = "throughput"
    PACKETS = "packets"
    COST = "cost"
    LOAD = "load"
    SERIES = "series"
    CIPHERS = "ciphers"


@dataclass(frozen=True)
class Chart:
    """A picture, and the same in words and figures."""

    name: str
    """Of its file; letters, digits and dashes."""
    place: Place
    title: str
    sentence: str
    """What it shows, for who cannot see it."""
    spec: Mapping[str, Any]
    """Vega-Lite without its look, its width and its words, which a page and a file each have in their own way."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Its figures; the first cell of a row is its name."""


def completed(chart: Chart, *, ink: str, width: int) -> Spec:
    """The whole specification of a file: with its look, its width [px] and its words."""
    spec: Spec = {"$schema": SCHEMA, "description": f"{chart.title}. {chart.sentence}", **chart.spec}
    spec["config"] = config(ink)
    _widen(spec, width)
    below = wrap(chart.sentence, width // CHARACTER_PX)
    spec["title"] = {"text": chart.title, "subtitle": below, "anchor": "start"}
    return spec


def _widen(spec: Spec, width: int) -> None:
    if spec.get("width") == "container":
        spec["width"] = width
        spec.pop("autosize", None)
    if "vconcat" in spec:
        spec["vconcat"] = [dict(part) for part in spec["vconcat"]]
        for part in spec["vconcat"]:
            _widen(part, width)


def config(ink: str = "currentColor") -> Spec:
    """The look: text and lines in one colour, by default that of the page's text, and nothing behind them."""
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "aria": False,  # the figure has one label, and its figures stand in a table
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            **text,
            "domainColor": ink,
            "tickColor": ink,
            "gridColor": ink,
            "gridOpacity": 0.15,
            "tickCount": 6,
            "labelOverlap": "greedy",
            "labelSeparation": 8,
        },
        "legend": {**text, "orient": "bottom", "columns": 2, "labelLimit": 300, "symbolStrokeWidth": 2},
        "title": {"color": ink, "fontSize": 14, "subtitleColor": ink, "subtitleFontSize": 11, "subtitlePadding": 5},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "range": {"category": list(PALETTE)},
    }


NAME_PX = 18
"""Of a name above its bars."""


def named_bands(names: int, bars_px: int) -> tuple[Spec, int]:
    """An axis whose names stand above their bars, where they may be long on a phone, too; and its height."""
    step = bars_px + NAME_PX
    share = NAME_PX / step
    axis = {
        "ticks": False,
        "domain": False,
        "labelAlign": "left",
        "labelBaseline": "middle",
        "labelPadding": 0,
        "labelOffset": -step / 2,
        "labelLimit": 2 * PAGE_PX,
    }
    channel = {
        "type": "nominal",
        "sort": None,
        "title": None,
        # All of the outer padding above the first.
        "scale": {"paddingInner": share, "paddingOuter": share / 2, "align": 1},
        "axis": axis,
    }
    return channel, names * step


PAGE_PX = 640
"""Width of a chart in a file."""
