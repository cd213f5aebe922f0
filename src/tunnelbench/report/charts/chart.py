"""The common parts of all charts: their texts, their look, and the specification of a chart that is a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Any

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Identifier of the format; nothing is fetched from it."""

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A800")
"""Colours of Okabe and Ito, "Color Universal Design" (2008), which all kinds of colour vision distinguish. Grey
replaces their black, which a dark page hides, and their yellow is darker here for a light page. Charts never
distinguish by colour only."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 6])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")

LIMIT_COLOUR = "#D55E00"
"""Colour of a limit, a loss and the start of the test."""


CHARACTER_PX = 6
"""Approximate width of a character of the small text."""


class PageSection(StrEnum):
    """The sections of a page in which charts stand."""

    ANSWER = "answer"
    THROUGHPUT = "throughput"
    PACKETS = "packets"
    COST = "cost"
    LOAD = "load"
    SERIES = "series"
    CIPHERS = "ciphers"


LONGEST_NAME = 80


def chart_name(*parts: str) -> str:
    """Return the name of a chart from words, such as the name of its tunnel."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:LONGEST_NAME].rstrip("-")


def hover(**titles: str) -> list[Spec]:
    """Return the channel of the texts that a pointer on a mark shows: a title for each field."""
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]


@dataclass(frozen=True)
class Chart:
    """A chart: its Vega-Lite specification, and its content as text and as a table."""

    name: str
    """Name of its file; letters, digits and dashes."""
    place: PageSection
    title: str
    sentence: str
    """The content in words, for readers who cannot see the picture."""
    spec: Mapping[str, Any]
    """Vega-Lite specification without colours, width and texts, which differ between a page and a file."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """Figures of the chart; the first cell of a row is its name."""
    tunnel: str = ""
    """Name of the only tunnel of the chart; empty: several, which its data name."""
    payload: str = ""
    """Payload of all figures, as the tables print it; empty: several."""
    direction: str = ""
    """Direction of all figures; empty: several, which the data name."""


def completed(chart: Chart, *, ink: str, width: int) -> Spec:
    """Return a chart's complete specification for a file, with colours, width [px] and texts."""
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
    for way, parts in (("vconcat", 1), ("hconcat", 2)):
        if way in spec:
            spec[way] = [dict(part) for part in spec[way]]
            for part in spec[way]:
                _widen(part, width // parts)


def config(ink: str = "currentColor") -> Spec:
    """Return Vega-Lite's `config`: text and lines in one colour, by default that of the page's text; no background."""
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


def framed(height_px: int, values: Sequence[Spec], **more: Any) -> Spec:
    """Return a picture as wide as its page, with its data."""
    autosize = {"type": "fit-x", "contains": "padding"}
    return {"width": "container", "autosize": autosize, "height": height_px, "data": {"values": list(values)}, **more}


def coloured(field: str, names: Sequence[str]) -> Spec:
    """Return a channel that gives each name a colour of the palette."""
    scale = {"domain": list(names), "range": list(PALETTE[: len(names)])}
    return {"field": field, "type": "nominal", "sort": None, "scale": scale}


NAME_PX = 18
"""Height of a name above its bars."""


def named_bands(names: int, bars_px: int) -> tuple[Spec, int]:
    """Return an axis with names above their bars, where long names fit on a phone, and its height [px]."""
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


def rounded(value: float) -> float:
    """Round a value to the number of digits that a chart shows."""
    return float(f"{value:.5g}")
