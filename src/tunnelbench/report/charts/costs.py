"""Where a packet's microseconds go: by the cost model of each tunnel, and by the parts of its variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_model import CostModel
from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.own_parts import OwnParts, PartCost
from tunnelbench.report.annexes import amount_text
from tunnelbench.report.charts.chart import PALETTE, Chart, Place, Spec
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line

ROW_PX = 26
DIFFERENCE, CALCULATION = "by difference", "by calculation"


def cost_charts(document: Document) -> Iterator[Chart]:
    """One of all tunnels with a model, then one for each tunnel of which there are variants."""
    models = [model for model in document.models if isinstance(model, CostModel)]
    if models:
        yield _models(models)
    for place, parts in enumerate(each for each in document.parts if isinstance(each, OwnParts)):
        yield _parts(parts, f"parts-{place + 1}")


def _models(models: Sequence[CostModel]) -> Chart:
    """Fixed and per byte cost of a packet as large as the largest that all of them were measured with."""
    size = min(model.largest_bytes for model in models)
    values: list[Spec] = []
    rows: list[tuple[str, ...]] = []
    for model in models:
        for direction in model.directions:
            name = one_line(f"{model.tunnel.name}, {direction}")
            fixed = model.fitted.fixed_s(direction).times(1e6)
            by_size = model.fitted.per_byte_s(direction).times(1e6 * size)
            values += [_value(name, "fixed", fixed), _value(name, "by size", by_size)]
            rows.append(
                (
                    name,
                    amount_text(fixed),
                    amount_text(by_size),
                    amount_text(model.packet_s(size, direction).times(1e6)),
                )
            )
    straight = sum(model.is_straight for model in models)
    return Chart(
        name="cost-model",
        place=Place.COST,
        title=f"Where the microseconds go: an IP packet of {size} bytes",
        sentence=(
            "Fixed cost of a packet and what grows with its size, by the straight line through the sizes measured; "
            f"the line holds to what is claimed of it for {straight} of {len(models)} tunnels."
        ),
        spec=_stacked(values, ("fixed", "by size"), len(rows)),
        header=("Tunnel and direction", "Fixed [us]", "By size [us]", "Together [us]"),
        rows=tuple(rows),
    )


def _value(name: str, part: str, amount: Amount) -> Spec:
    return {"name": name, "part": part, "value": float(f"{amount.value:.5g}")}


def _stacked(values: Sequence[Spec], parts: Sequence[str], rows: int) -> Spec:
    part: Spec = {"field": "part", "type": "nominal", "sort": None}
    return {
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": rows * ROW_PX,
        "data": {"values": list(values)},
        # The parts follow each other in the order of the legend, parted by a line, so that colour is not needed.
        "mark": {"type": "bar", "stroke": "white", "strokeWidth": 1},
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False}},
            "x": {"field": "value", "type": "quantitative", "title": "us", "stack": "zero"},
            "color": {**part, "scale": {"domain": list(parts), "range": list(PALETTE[: len(parts)])},
                      "legend": {"title": None}},
            "order": {"field": "place", "type": "quantitative"},
        },
    }  # fmt: skip


def _parts(parts: OwnParts, name: str) -> Chart:
    """Each part with its error, what its speed by itself predicts beside it."""
    shown = {min(cost.payload_bytes for cost in parts.costs), max(cost.payload_bytes for cost in parts.costs)}
    costs = [cost for cost in parts.costs if cost.payload_bytes in shown]
    values: list[Spec] = []
    for cost in costs:
        amount = cost.by_difference_s.times(1e6)
        datum: Spec = {"name": _named(cost), "way": DIFFERENCE, "value": float(f"{amount.value:.5g}")}
        if amount.error is not None:
            datum |= {"low": amount.value - amount.error, "high": amount.value + amount.error}
        values.append(datum)
        if cost.by_calculation_s is not None:
            calculated = float(f"{cost.by_calculation_s * 1e6:.5g}")
            values.append({"name": _named(cost), "way": CALCULATION, "value": calculated})
    dearest = max(costs, key=lambda cost: cost.by_difference_s.value)
    way: Spec = {"field": "way", "type": "nominal", "sort": None}
    x: Spec = {"type": "quantitative", "title": "us"}
    return Chart(
        name=name,
        place=Place.COST,
        title=one_line(f"Where the microseconds go: the parts of {parts.kind}"),
        sentence=f"Dearest: {_named(dearest)}, {significant(dearest.by_difference_s.value * 1e6, 3)} us.",
        spec={
            "width": "container",
            "autosize": {"type": "fit-x", "contains": "padding"},
            "height": len(costs) * ROW_PX,
            "data": {"values": values},
            "encoding": {
                "y": {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False}},
                "yOffset": {**way, "scale": {"domain": [DIFFERENCE, CALCULATION]}},
            },
            "layer": [
                {
                    "mark": {"type": "bar"},
                    "encoding": {
                        "x": {"field": "value", **x},
                        "color": {**way, "scale": {"domain": [DIFFERENCE, CALCULATION], "range": list(PALETTE[:2])},
                                  "legend": {"title": None}},
                    },
                },
                {"mark": {"type": "rule", "strokeWidth": 2},
                 "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}}},
            ],
        },
        header=("Part", f"{DIFFERENCE} [us]", f"{CALCULATION} [us]"),
        rows=tuple(
            (
                _named(cost),
                amount_text(cost.by_difference_s.times(1e6)),
                "" if cost.by_calculation_s is None else significant(cost.by_calculation_s * 1e6, 3),
            )
            for cost in costs
        ),
    )  # fmt: skip


def _named(cost: PartCost) -> str:
    return one_line(f"{cost.part.label}, {cost.payload_bytes} {cost.direction}")
