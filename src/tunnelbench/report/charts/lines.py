"""Lines of one figure over another, one line for each name; colour, dash and shape distinguish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.report.charts.chart import DASHES, PALETTE, SHAPES, Spec, framed, hover, rounded

HEIGHT_PX = 260


@dataclass(frozen=True)
class Axis:
    """The x or the y axis."""

    title: str
    type: str = "quantitative"
    scale: str = "linear"
    """`linear` or `log`; an `ordinal` axis has no scale."""

    def channel(self, field: str) -> Spec:
        found: Spec = {"field": field, "type": self.type, "title": self.title}
        if self.type == "ordinal":
            return {**found, "sort": None, "axis": {"labelAngle": 0}}
        return {**found, "scale": {"type": self.scale, **({"zero": True} if self.scale == "linear" else {})}}


@dataclass(frozen=True)
class ChartLine:
    """One line of a line chart: its name in the legend, and its points as (x, y)."""

    name: str
    points: Sequence[tuple[float | str, float]]
    family: int = 0
    """Number that selects the line's colour and shape; lines of one family share it."""
    member: int = 0
    """Number that selects the line's dash pattern within its family."""
    tunnel: str = ""
    """Name of the tunnel of the line; empty: none."""


def line_spec(lines: Sequence[ChartLine], x: Axis, y: Axis) -> Spec:
    """Return points joined by lines, with one legend for colour, dash and shape."""
    names = [line.name for line in lines]
    channel: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}

    def styled(values: Sequence[object], places: Sequence[int]) -> Spec:
        scale = {"domain": names, "range": [values[place % len(values)] for place in places]}
        return {**channel, "scale": scale, "legend": {"title": None} if len(names) > 1 else None}

    values = [
        {"name": line.name, "x": at, "y": rounded(value)} | ({"tunnel": line.tunnel} if line.tunnel else {})
        for line in lines
        for at, value in line.points
    ]
    families = [line.family for line in lines]
    colours, shapes = styled(PALETTE, families), styled(SHAPES, families)
    # More families than colours: the second time round each is dashed.
    dashes = styled(DASHES, [line.member + line.family // len(PALETTE) for line in lines])
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"strokeDash": dashes}},
        {"mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
         "encoding": {"shape": shapes, "tooltip": hover(name="Line", x=x.title, y=y.title)}},
    ]  # fmt: skip
    encoding = {"x": x.channel("x"), "y": y.channel("y"), "color": colours}
    return framed(HEIGHT_PX, values, encoding=encoding, layer=layers)
