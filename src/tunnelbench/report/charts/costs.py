"""Where a packet's microseconds go: by the cost model of each tunnel, and by the parts of its variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_model import CostModel
from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.own_parts import OwnParts, PartCost
from tunnelbench.report.annexes import amount_text
from tunnelbench.report.charts.chart import PALETTE, Chart, Place, Spec, named_bands
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line

BAR_PX = 16
DIFFERENCE, CALCULATION = "by difference", "by calculation"


def cost_charts(document: Document) -> Iterator[Chart]:
    """One of all tunnels with a model, then one for each tunnel of which there are variants."""
    yield from _models([model for model in document.models if isinstance(model, CostModel)])
    for place, parts in enumerate(each for each in document.parts if isinstance(each, OwnParts)):
        yield _parts(parts, f"parts-{place + 1}")


def _models(models: Sequence[CostModel]) -> Iterator[Chart]:
    """Fixed and per byte cost of a packet as large as the largest that all of them were measured with."""
    size = min((model.largest_bytes for model in models), default=0)
    values: list[Spec] = []
    rows: list[tuple[str, ...]] = []
    senseless = 0
    for model, direction in ((each, way) for each in models for way in each.directions):
        fixed = model.fitted.fixed_s(direction).times(1e6)
        by_size = model.fitted.per_byte_s(direction).times(1e6 * size)
        if min(fixed.value, by_size.value) < 0:
            senseless += 1
            continue
        name = one_line(f"{model.tunnel.name}, {direction}")
        values += [_value(name, "fixed", fixed), _value(name, "by size", by_size)]
        together = model.packet_s(size, direction).times(1e6)
        rows.append((name, amount_text(fixed), amount_text(by_size), amount_text(together)))
    if not rows:
        return
    tried = [model for model in models if model.left_out]
    holds = f"{sum(model.is_straight for model in tried)} of {len(tried)} lines that were tried hold to what is claimed"
    left_out = f" Not drawn: {senseless} of which a part is below zero, as no cost is." if senseless else ""
    yield Chart(
        name="cost-model",
        place=Place.COST,
        title=f"Where the microseconds go: an IP packet of {size} bytes",
        sentence=(
            "Fixed cost of a packet, and what grows with its size, by the straight line through the sizes measured; "
            f"{holds if tried else 'two sizes make a line that nothing tries'}.{left_out}"
        ),
        spec=_stacked(values, ("fixed", "by size"), len(rows)),
        header=("Tunnel and direction", "Fixed [us]", "By size [us]", "Together [us]"),
        rows=tuple(rows),
    )


def _value(name: str, part: str, amount: Amount) -> Spec:
    return {"name": name, "part": part, "value": float(f"{amount.value:.5g}")}


def _stacked(values: Sequence[Spec], parts: Sequence[str], rows: int) -> Spec:
    part: Spec = {"field": "part", "type": "nominal", "sort": None}
    bands, height_px = named_bands(rows, BAR_PX)
    return {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": height_px,
        "data": {"values": list(values)},
        # The parts follow each other in the order of the legend, parted by a line, so that colour is not needed.
        "mark": {"type": "bar", "stroke": "white", "strokeWidth": 1},
        "encoding": {
            "y": {"field": "name", **bands},
            "x": {"field": "value", "type": "quantitative", "title": "us", "stack": "zero"},
            "color": {**part, "scale": {"domain": list(parts), "range": list(PALETTE[: len(parts)])},
                      "legend": {"title": None}},
        },
    }  # fmt: skip


def _parts(parts: OwnParts, name: str) -> Chart:
    """Each part with its error, what its speed by itself predicts beside it."""
    shown = {min(cost.payload_bytes for cost in parts.costs), max(cost.payload_bytes for cost in parts.costs)}
    costs = [cost for cost in parts.costs if cost.payload_bytes in shown]
    values: list[Spec] = []
    for cost in costs:
        if cost.told_s is not None:
            amount = cost.told_s.times(1e6)
            datum: Spec = {"name": _named(cost), "way": DIFFERENCE, "value": float(f"{amount.value:.5g}")}
            if amount.error is not None:
                datum |= {"low": amount.value - amount.error, "high": amount.value + amount.error}
            values.append(datum)
        if cost.by_calculation_s is not None:
            calculated = float(f"{cost.by_calculation_s * 1e6:.5g}")
            values.append({"name": _named(cost), "way": CALCULATION, "value": calculated})
    dearest = max(costs, key=lambda cost: cost.by_difference_s.value)
    ways = [way for way in (DIFFERENCE, CALCULATION) if any(datum["way"] == way for datum in values)]
    bands, height_px = named_bands(len({datum["name"] for datum in values}), len(ways) * BAR_PX)
    way: Spec = {"field": "way", "type": "nominal", "sort": None}
    x: Spec = {"type": "quantitative", "title": "us"}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {"field": "value", **x},
                "color": {**way, "scale": {"domain": ways, "range": list(PALETTE[: len(ways)])},
                          "legend": {"title": None}},
            },
        },
    ]  # fmt: skip
    if any("low" in datum for datum in values):
        spread: Spec = {"x": {"field": "low", **x}, "x2": {"field": "high"}}
        layers.append({"mark": {"type": "rule", "strokeWidth": 2}, "encoding": spread})
    return Chart(
        name=name,
        place=Place.COST,
        title=one_line(f"Where the microseconds go: the parts of {parts.kind}"),
        sentence=f"Dearest: {_named(dearest)}, {significant(dearest.by_difference_s.value * 1e6, 3)} us.",
        spec={
            "width": "container",
            "autosize": {"type": "fit-x", "contains": "padding"},
            "height": height_px,
            "data": {"values": values},
            "encoding": {
                "y": {"field": "name", **bands},
                "yOffset": {**way, "scale": {"domain": ways}},
            },
            "layer": layers,
        },
        header=("Part", f"{DIFFERENCE} [us]", f"{CALCULATION} [us]"),
        rows=tuple(
            (
                _named(cost),
                "" if cost.told_s is None else amount_text(cost.told_s.times(1e6)),
                "" if cost.by_calculation_s is None else significant(cost.by_calculation_s * 1e6, 3),
            )
            for cost in costs
        ),
    )  # fmt: skip


def _named(cost: PartCost) -> str:
    return one_line(f"{cost.part.label}, {cost.payload_bytes} {cost.direction}")
