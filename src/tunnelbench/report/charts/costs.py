"""Charts of the router CPU time per packet [µs]: by tunnel, and by forwarding, tunnel, cipher and digest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_components import ComponentCost, MeasuredComponents
from tunnelbench.analysis.cost_model import CostModel
from tunnelbench.analysis.number_format import significant
from tunnelbench.report.charts.chart import (
    Chart,
    PageSection,
    Spec,
    chart_name,
    coloured,
    framed,
    hover,
    named_bands,
    rounded,
)
from tunnelbench.report.document import Document
from tunnelbench.report.sections import amount_text
from tunnelbench.report.text import one_line

COST_BAR_PX = 16
DIFFERENCE, CALCULATION = "by difference", "by calculation"


def cost_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart of all tunnels with a model, then one for each tunnel with variants."""
    yield from _models([model for model in document.models if isinstance(model, CostModel)])
    for parts in document.parts:
        if isinstance(parts, MeasuredComponents):
            yield _parts(parts)


def _models(models: Sequence[CostModel]) -> Iterator[Chart]:
    """Yield the chart of a packet's CPU time, in a fixed and a per-byte part, at the largest size of all tunnels."""
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
        name = one_line(f"{model.tunnel.name}, {direction.label}")
        of = {"name": name, "tunnel": one_line(model.tunnel.name), "direction": direction.label}
        values += [{**of, "part": "fixed", **_value(fixed)}, {**of, "part": "by size", **_value(by_size)}]
        together = model.packet_s(size, direction).times(1e6)
        rows.append((name, amount_text(fixed), amount_text(by_size), amount_text(together)))
    if not rows:
        return
    tried = [model for model in models if model.left_out]
    holds = f"{sum(model.is_straight for model in tried)} of {len(tried)} checked lines are as accurate as claimed"
    left_out = f" Not drawn: {senseless} with a part below zero, which is impossible for a cost." if senseless else ""
    yield Chart(
        name="cost-model",
        place=PageSection.COST,
        title=f"Where the microseconds go: an IP packet of {size} bytes",
        sentence=(
            "Fixed cost of a packet, and cost by its size, from a straight line through the measured sizes; "
            f"{holds if tried else 'a line through two sizes cannot be checked'}.{left_out}"
        ),
        spec=_stacked(values, ("fixed", "by size"), len(rows)),
        header=("Tunnel and direction", "Fixed [µs]", "By size [µs]", "Together [µs]"),
        rows=tuple(rows),
    )


def _value(amount: Amount) -> Spec:
    return {"value": rounded(amount.value)}


def _stacked(values: Sequence[Spec], parts: Sequence[str], rows: int) -> Spec:
    bands, height_px = named_bands(rows, COST_BAR_PX)
    encoding = {
        "y": {"field": "name", **bands},
        "x": {"field": "value", "type": "quantitative", "title": "µs", "stack": "zero"},
        "color": {**coloured("part", parts), "legend": {"title": None}},
        "tooltip": hover(name="Tunnel", part="Part", value="µs"),
    }
    # The parts follow each other in the order of the legend, parted by a line, so that colour is not needed.
    return framed(height_px, values, mark={"type": "bar", "stroke": "white", "strokeWidth": 1}, encoding=encoding)


def _parts(parts: MeasuredComponents) -> Chart:
    """Return a chart of the CPU time of forwarding, tunnel, cipher and digest, next to the predictions."""
    costs = parts.shown_costs
    values: list[Spec] = []
    for cost in costs:
        if cost.reported_s is not None:
            amount = cost.reported_s.times(1e6)
            datum: Spec = {"name": _named(cost), "way": DIFFERENCE, "value": rounded(amount.value)}
            if amount.error is not None:
                datum |= {"low": amount.value - amount.error, "high": amount.value + amount.error}
            values.append(datum)
        if cost.by_calculation_s is not None:
            calculated = rounded(cost.by_calculation_s * 1e6)
            values.append({"name": _named(cost), "way": CALCULATION, "value": calculated})
    dearest = max(costs, key=lambda cost: cost.by_difference_s.value)
    ways = [way for way in (DIFFERENCE, CALCULATION) if any(datum["way"] == way for datum in values)]
    bands, height_px = named_bands(len({datum["name"] for datum in values}), len(ways) * COST_BAR_PX)
    offset = {"field": "way", "type": "nominal", "sort": None, "scale": {"domain": ways}}
    encoding = {"y": {"field": "name", **bands}, "yOffset": offset}
    x: Spec = {"type": "quantitative", "title": "µs"}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {"field": "value", **x},
                "color": {**coloured("way", ways), "legend": {"title": None}},
                "tooltip": hover(name="Part", way="Way", value="µs", low="Lowest", high="Highest"),
            },
        },
    ]
    if any("low" in datum for datum in values):
        spread: Spec = {"x": {"field": "low", **x}, "x2": {"field": "high"}}
        layers.append({"mark": {"type": "rule", "strokeWidth": 2}, "encoding": spread})
    return Chart(
        name=chart_name("parts", parts.kind),
        place=PageSection.COST,
        title=one_line(f"Where the microseconds go: the parts of {parts.kind}"),
        sentence=f"Dearest: {_named(dearest)}, {significant(dearest.by_difference_s.value * 1e6, 3)} µs.",
        spec=framed(height_px, values, encoding=encoding, layer=layers),
        header=("Part", f"{DIFFERENCE} [µs]", f"{CALCULATION} [µs]"),
        rows=tuple(
            (
                _named(cost),
                "" if cost.reported_s is None else amount_text(cost.reported_s.times(1e6)),
                "" if cost.by_calculation_s is None else significant(cost.by_calculation_s * 1e6, 3),
            )
            for cost in costs
        ),
    )


def _named(cost: ComponentCost) -> str:
    return one_line(f"{cost.component.label}, {cost.payload_bytes} {cost.direction.label}")
