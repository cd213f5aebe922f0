"""Bars of a figure by tunnel, with its spread and, where the line has one, its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.report.charts.chart import MARK, PALETTE, Chart, Place, Spec, named_bands

BAR_PX = 17
"""Height of one bar, its gap included."""
PHONE_PX = 350
"""Width of a chart on a phone, where the text behind each bar must find its place, too."""
CHARACTER_PX = 6.3
TEXT_GAP_PX = 8
LIMITED = "*"
"""Behind a figure that the testers limited."""


@dataclass(frozen=True)
class Bar:
    """One figure, in the unit of the chart."""

    tunnel: str
    group: str
    """Which of the tunnel's bars, such as a direction."""
    figure: Estimate | None
    note: str = ""
    """Why there is no figure."""
    is_limited: bool = False
    """Whether the testers set it."""
    limit: float | None = None
    """What the line can carry."""
    remark: str = ""
    """What a reader must know of the figure, in a word."""


def bar_chart(name: str, place: Place, title: str, unit: str, bars: Sequence[Bar]) -> Chart | None:
    """None where no bar has a figure."""
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
        spec=_spec(bars, groups, len(tunnels), unit),
        header=("Tunnel", "", f"Median [{unit}]", "Low", "High", "Limit of the line", "Remark"),
        rows=tuple(_row(bar) for bar in bars),
    )


def _spec(bars: Sequence[Bar], groups: Sequence[str], tunnels: int, unit: str) -> Spec:
    group = {"field": "group", "type": "nominal", "sort": None}
    data, top = _data(bars, len(groups))
    scale = {"domain": [0, top], "nice": False}
    value = {"type": "quantitative", "scale": scale, "title": unit}
    colour = {**group, "scale": {"domain": list(groups), "range": list(PALETTE[: len(groups)])}}
    bands, height_px = named_bands(tunnels, len(groups) * BAR_PX)
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "stroke": None},
            "encoding": {
                "x": {"field": "value", **value},
                "color": {**colour, "legend": {"title": None} if len(groups) > 1 else None},
                "fillOpacity": {"condition": {"test": "datum.limited", "value": 0.45}, "value": 1},
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
    if any(bar.limit for bar in bars):
        layers.append(
            {
                "mark": {"type": "tick", "color": MARK, "opacity": 1, "thickness": 3, "size": BAR_PX - 2},
                "encoding": {"x": {"field": "limit", **value}},
            }
        )
    return {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": height_px,
        "data": {"values": data},
        "encoding": {
            "y": {"field": "tunnel", **bands},
            "yOffset": {**group, "scale": {"domain": list(groups)}},
        },
        "layer": layers,
    }


def _data(bars: Sequence[Bar], groups: int) -> tuple[list[Spec], float]:
    """What is drawn, and where the axis ends, so that the text behind every bar has room on a phone."""
    data = [_datum(bar, groups) for bar in bars]
    limits = [datum["limit"] for datum in data if "limit" in datum]
    top = max([*(datum["end"] * PHONE_PX / (PHONE_PX - _text_px(datum)) for datum in data), *limits]) or 1.0
    for datum in data:
        if "limit" in datum and 0 < datum["limit"] - datum["end"] < top * _text_px(datum) / PHONE_PX:
            datum["end"] = datum["limit"]  # else the mark would go through the text
    return data, float(f"{max(top, *(datum['end'] * PHONE_PX / (PHONE_PX - _text_px(datum)) for datum in data)):.4g}")


def _text_px(datum: Spec) -> float:
    return min(PHONE_PX * 0.7, len(datum["label"]) * CHARACTER_PX + TEXT_GAP_PX)


def _datum(bar: Bar, groups: int) -> Spec:
    who = f"{bar.group} " if groups > 1 else ""
    found = bar.figure
    if found is None:
        return {"tunnel": bar.tunnel, "group": bar.group, "end": 0, "label": f"{who}{bar.note or '-'}"}
    datum: Spec = {
        "tunnel": bar.tunnel,
        "group": bar.group,
        "value": _short(found.median),
        "low": _short(found.low),
        "high": _short(found.high),
        "end": _short(max(found.high, found.median)),
        "label": f"{who}{_number(found.median)}{LIMITED * bar.is_limited} {bar.remark}".rstrip(),
    }
    if bar.is_limited:
        datum["limited"] = True
    if bar.limit:
        datum["limit"] = _short(bar.limit)
    return datum


def _row(bar: Bar) -> tuple[str, ...]:
    if bar.figure is None:
        return (bar.tunnel, bar.group, "", "", "", "", bar.note)
    return (
        bar.tunnel,
        bar.group,
        *(_number(value) for value in (bar.figure.median, bar.figure.low, bar.figure.high)),
        _number(bar.limit) if bar.limit else "",
        ", ".join(word for word in ("tester-limited" * bar.is_limited, bar.remark) if word),
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
        said += f". {limited} of {len(known)} were limited by the testers (pale, {LIMITED})"
    if remarks := {bar.remark: None for bar, _ in known if bar.remark}:
        said += f". Some are {' or '.join(remarks)}"
    return f"{said}."


def _named(bar: Bar) -> str:
    return f"{bar.tunnel} {bar.group}"


def _number(value: float) -> str:
    return significant(value, 3 if value < 1000 else 4, thousands=True)


def _short(value: float) -> float:
    """As many digits as a picture shows."""
    return float(f"{value:.5g}")
