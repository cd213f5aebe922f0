"""The chart of a comparison: B over A for each figure, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.compare.comparison import ComparisonRow, ComparisonVerdict
from tunnelbench.analysis.mann_whitney import Ratio
from tunnelbench.analysis.number_format import significant
from tunnelbench.report.charts.chart import (
    LIMIT_COLOUR,
    PALETTE,
    Chart,
    PageSection,
    Spec,
    framed,
    hover,
    named_bands,
    rounded,
)
from tunnelbench.report.text import one_line

MOST_RATIOS = 16
"""Largest number of figures in the chart; the table below it has all."""
ROW_PX = 16
BETTER, WORSE, ALIKE = "better", "worse", "not proven different"
COLOURS = {BETTER: PALETTE[0], ALIKE: PALETTE[6], WORSE: LIMIT_COLOUR}


def ratio_charts(rows: Sequence[ComparisonRow]) -> Iterator[Chart]:
    """Yield the chart of the figures with a quotient B / A, those that differ first; nothing without such a figure."""
    known = [(row, row.ratio) for row in rows if row.ratio is not None and row.ratio.value > 0]
    shown = sorted(known, key=lambda each: not each[0].verdict.is_difference)[:MOST_RATIOS]
    if not shown:
        return
    counts = {name: sum(_class(row.verdict) == name for row, _ in known) for name in (BETTER, WORSE, ALIKE)}
    left_out = f" {len(known) - len(shown)} more are in the table." if len(known) > len(shown) else ""
    found = ", ".join(f"{number} {name}" for name, number in counts.items())
    values = [_value(row, ratio) for row, ratio in shown]
    yield Chart(
        name="ratios",
        place=PageSection.ANSWER,
        title="B over A, with the interval of the test",
        sentence=f"Figures of B: {found}. The upright line at 1 is A.{left_out}",
        spec=_spec(values),
        header=("Figure", "B / A", "Low", "High", "Verdict"),
        rows=tuple(
            (_named(row), *(significant(each, 3) for each in (ratio.value, ratio.low, ratio.high)), row.verdict)
            for row, ratio in shown
        ),
    )


def _class(verdict: ComparisonVerdict) -> str:
    if not verdict.is_difference:
        return ALIKE
    return WORSE if verdict.is_worse else BETTER


def _named(row: ComparisonRow) -> str:
    side = row.pair.a
    payload = "" if side.payload_bytes is None else str(side.payload_bytes)
    return one_line(" ".join(filter(None, (side.name, payload, side.direction_label, side.test)))) + f": {row.figure}"


def _value(row: ComparisonRow, ratio: Ratio) -> Spec:
    side = row.pair.a
    return {
        "name": _named(row),
        "tunnel": one_line(side.name),
        "direction": side.direction_label,
        "verdict": _class(row.verdict),
        **{key: rounded(value) for key, value in
           (("value", ratio.value), ("low", ratio.low), ("high", ratio.high))},
    }  # fmt: skip


def _spec(values: Sequence[Spec]) -> Spec:
    bands, height_px = named_bands(len({value["name"] for value in values}), ROW_PX)
    x: Spec = {"type": "quantitative", "scale": {"zero": False}, "title": "B / A"}
    verdict = {"field": "verdict", "type": "nominal", "sort": None, "legend": {"title": None}}
    colour = {**verdict, "scale": {"domain": [*COLOURS], "range": [*COLOURS.values()]}}
    shape = {**verdict, "scale": {"domain": [*COLOURS], "range": ["triangle-up", "circle", "triangle-down"]}}
    y: Spec = {"field": "name", **bands}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeDash": [4, 3]}, "encoding": {"x": {"datum": 1, **x}}},
        {"mark": {"type": "rule", "strokeWidth": 2},
         "encoding": {"y": y, "x": {"field": "low", **x}, "x2": {"field": "high"}, "color": colour}},
        {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
         "encoding": {"y": y, "x": {"field": "value", **x}, "color": colour, "shape": shape,
                      "tooltip": hover(name="Figure", value="B / A", low="Lowest", high="Highest", verdict="Verdict")}},
    ]  # fmt: skip
    return framed(height_px, values, layer=layers)
