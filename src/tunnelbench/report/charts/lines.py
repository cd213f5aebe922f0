"""Lines of a figure over another, one line a name; told apart by colour, dash and shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.report.charts.chart import DASHES, PALETTE, SHAPES, Spec

HEIGHT_PX = 260


@dataclass(frozen=True)
class Axis:
    """One of the two."""

    title: str
    type: str = "quantitative"
    scale: str = "linear"
    """Or `log`; `ordinal` axes have none."""

    def channel(self, field: str) -> Spec:
        found: Spec = {"field": field, "type": self.type, "title": self.title}
        if self.type == "ordinal":
            return {**found, "sort": None, "axis": {"labelAngle": 0}}
        return {**found, "scale": {"type": self.scale, **({"zero": True} if self.scale == "linear" else {})}}


@dataclass(frozen=True)
class Line:
    """A name and its points, x and y."""

    name: str
    points: Sequence[tuple[float | str, float]]
    family: int = 0
    """Lines of one family have one colour and shape."""
    member: int = 0
    """And each its dash."""


def line_spec(lines: Sequence[Line], x: Axis, y: Axis) -> Spec:
    """Points joined by lines, with one legend for colour, dash and shape."""
    names = [line.name for line in lines]
    channel: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}

    def styled(values: Sequence[object], places: Sequence[int]) -> Spec:
        scale = {"domain": names, "range": [values[place % len(values)] for place in places]}
        return {**channel, "scale": scale, "legend": {"title": None} if len(names) > 1 else None}

    values = [{"name": line.name, "x": at, "y": float(f"{value:.5g}")} for line in lines for at, value in line.points]
    families = [line.family for line in lines]
    colours, shapes = styled(PALETTE, families), styled(SHAPES, families)
    # More families than colours: the second time round each is dashed.
    dashes = styled(DASHES, [line.member + line.family // len(PALETTE) for line in lines])
    return {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": HEIGHT_PX,
        "data": {"values": values},
        "encoding": {"x": x.channel("x"), "y": y.channel("y"), "color": colours},
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"strokeDash": dashes}},
            {"mark": {"type": "point", "filled": True, "size": 55, "opacity": 1}, "encoding": {"shape": shapes}},
        ],
    }
