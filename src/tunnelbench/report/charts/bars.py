"""Bar charts of one figure by tunnel, with its spread and the capacity of the link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.answer.words import LOWER_BOUND
from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.report.charts.chart import (
    LIMIT_COLOUR,
    Chart,
    PageSection,
    Spec,
    coloured,
    framed,
    hover,
    named_bands,
    rounded,
)

BAR_PX = 17
"""Height of one bar, its gap included."""
PHONE_PX = 350
"""Width of a chart on a phone; the text after each bar must fit."""
LABEL_CHARACTER_PX = 6.3
TEXT_GAP_PX = 8
PALE = 0.35
"""Opacity of the bar of a lower bound."""
HATCH = {"strokeWidth": BAR_PX - 4, "strokeDash": [3, 3]}
"""Stripes across a bar, which mark a lower bound without colour."""


@dataclass(frozen=True)
class Bar:
    """One bar: a figure of one tunnel, in the unit of the chart."""

    tunnel: str
    group: str
    """Name of the bar among the tunnel's bars: a direction such as `down`, alone or followed by a word."""
    direction: str
    figure: Estimate | None
    note: str = ""
    """Reason why there is no figure."""
    is_limited: bool = False
    """True if the testers were the limit, so that the figure is a lower bound."""
    limit: float | None = None
    """Capacity of the line, in the unit of the chart."""
    remark: str = ""
    """A short remark next to the bar, such as `refuted`."""
    is_doubtful: bool = False
    """True if a check makes the figure doubtful."""


def bar_chart(
    name: str, place: PageSection, title: str, unit: str, bars: Sequence[Bar], *, payload: str = ""
) -> Chart | None:
    """Return the chart; None if no bar has a figure."""
    known = [(bar, bar.figure) for bar in bars if bar.figure is not None]
    if not known:
        return None
    groups = tuple(dict.fromkeys(bar.group for bar in bars))
    tunnels = tuple(dict.fromkeys(bar.tunnel for bar in bars))
    return Chart(
        name=name,
        place=place,
        title=title,
        sentence=_sentence(known, unit),
        spec=bars_spec(bars, groups, len(tunnels), unit),
        header=("Tunnel", "", f"Median [{unit}]", "Low", "High", "Limit of the line", "Remark"),
        rows=tuple(bar_row(bar) for bar in bars),
        payload=payload,
    )


def bars_spec(bars: Sequence[Bar], groups: Sequence[str], tunnels: int, unit: str) -> Spec:
    """Return a picture of bars; the bars of one tunnel, one for each of `groups`, are next to each other."""
    group = {"field": "group", "type": "nominal", "sort": None}
    data, top = _data(bars, len(groups))
    scale = {"domain": [0, top], "nice": False}
    value = {"type": "quantitative", "scale": scale, "title": unit}
    colour = {**coloured("group", groups), "legend": {"title": None} if len(groups) > 1 else None}
    tooltip = hover(tunnel="Tunnel", label=unit, low="Lowest", high="Highest", limit="Limit of the link")
    bands, height_px = named_bands(tunnels, len(groups) * BAR_PX)
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "stroke": None},
            "encoding": {
                "x": {"field": "value", **value},
                "color": colour,
                "fillOpacity": {"condition": {"test": "datum.limited", "value": PALE}, "value": 1},
                "tooltip": tooltip,
            },
        },
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {"field": "low", **value}, "x2": {"field": "high"}},
        },
        {
            "mark": {"type": "text", "align": "left", "baseline": "middle", "dx": 6},
            "encoding": {"x": {"field": "end", **value}, "text": {"field": "label"}},
        },
    ]
    if any(bar.is_limited for bar in bars):
        layers.insert(
            1,
            {
                "transform": [{"filter": "datum.limited"}],
                "mark": {"type": "rule", **HATCH},
                "encoding": {"x": {"field": "value", **value}, "x2": {"datum": 0}, "color": colour, "tooltip": tooltip},
            },
        )
    if any(bar.limit for bar in bars):
        layers.append(
            {
                "mark": {"type": "tick", "color": LIMIT_COLOUR, "opacity": 1, "thickness": 3, "size": BAR_PX - 2},
                "encoding": {"x": {"field": "limit", **value}},
            }
        )
    encoding = {"y": {"field": "tunnel", **bands}, "yOffset": {**group, "scale": {"domain": list(groups)}}}
    return framed(height_px, data, encoding=encoding, layer=layers)


def _data(bars: Sequence[Bar], groups: int) -> tuple[list[Spec], float]:
    """Return the data, and the end of the axis that leaves room for the text after every bar on a phone."""
    data = [_datum(bar, groups) for bar in bars]
    limits = [datum["limit"] for datum in data if "limit" in datum]
    top = max([*(datum["end"] * PHONE_PX / (PHONE_PX - _text_px(datum)) for datum in data), *limits]) or 1.0
    for datum in data:
        if "limit" in datum and 0 < datum["limit"] - datum["end"] < top * _text_px(datum) / PHONE_PX:
            datum["end"] = datum["limit"]  # else the mark would go through the text
    return data, float(f"{max(top, *(datum['end'] * PHONE_PX / (PHONE_PX - _text_px(datum)) for datum in data)):.4g}")


def _text_px(datum: Spec) -> float:
    return min(PHONE_PX * 0.7, len(datum["label"]) * LABEL_CHARACTER_PX + TEXT_GAP_PX)


def _datum(bar: Bar, groups: int) -> Spec:
    who = f"{bar.group} " if groups > 1 else ""
    found = bar.figure
    of = {"tunnel": bar.tunnel, "group": bar.group, "direction": bar.direction}
    if found is None:
        return {**of, "end": 0, "label": f"{who}{bar.note or '-'}"}
    doubt = "?" * bar.is_doubtful
    datum: Spec = {
        **of,
        "value": rounded(found.median),
        "low": rounded(found.low),
        "high": rounded(found.high),
        "end": rounded(max(found.high, found.median)),
        "label": f"{who}{LOWER_BOUND * bar.is_limited}{_number(found.median)}{doubt} {bar.remark}".rstrip(),
    }
    if bar.is_limited:
        datum["limited"] = True
    if bar.limit:
        datum["limit"] = rounded(bar.limit)
    return datum


def bar_row(bar: Bar) -> tuple[str, ...]:
    """Return the cells of a bar in the table: tunnel, group, median, lowest, highest, link capacity and remark."""
    if bar.figure is None:
        return (bar.tunnel, bar.group, "", "", "", "", bar.note)
    return (
        bar.tunnel,
        bar.group,
        *(_number(value) for value in (bar.figure.median, bar.figure.low, bar.figure.high)),
        _number(bar.limit) if bar.limit else "",
        ", ".join(filter(None, ("lower bound" * bar.is_limited, "doubtful" * bar.is_doubtful, bar.remark))),
    )


def _sentence(known: Sequence[tuple[Bar, Estimate]], unit: str) -> str:
    high = max(known, key=lambda each: each[1].median)
    low = min(known, key=lambda each: each[1].median)
    said = f"Highest: {_named(high[0])}, {_number(high[1].median)} {unit}"
    if high[0] is not low[0]:
        said += f"; lowest: {_named(low[0])}, {_number(low[1].median)} {unit}"
    if any(bar.limit for bar, _ in known):
        said += ". The short upright line is what the link can carry"
    if limited := sum(bar.is_limited for bar, _ in known):
        said += f". {limited} of {len(known)} are lower bounds, which the testers limited (striped, ≥)"
    if remarks := {bar.remark: None for bar, _ in known if bar.remark}:
        said += f". Some are {' or '.join(remarks)}"
    return f"{said}."


def _named(bar: Bar) -> str:
    return f"{bar.tunnel} {bar.group}"


def _number(value: float) -> str:
    return significant(value, 3 if value < 1000 else 4, thousands=True)
