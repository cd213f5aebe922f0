"""Flame graphs: the share of a router's instructions in programs, their files, kernel modules and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tunnelbench.analysis.instruction_places import InstructionPlaces
from tunnelbench.analysis.number_format import percent
from tunnelbench.report.charts.chart import CHARACTER_PX, Chart, PageSection, Spec, chart_name, framed, hover, rounded
from tunnelbench.report.charts.chart import PAGE_PX as TEXT_WIDTH_PX
from tunnelbench.report.document import Document
from tunnelbench.report.instruction_places_section import PLACES_TITLE, title_of
from tunnelbench.report.text import one_line

LEVEL_PX = 28
LEVELS = 3
"""Levels of a place: kernel or program, module or file, function."""

LEVEL_COLOURS = ("#7FB8D8", "#F3CF80", "#80CEB9")
"""Colour of each level: pale ones, on which black text can be read."""


@dataclass
class _Branch:
    share: float = 0.0
    branches: dict[str, _Branch] = field(default_factory=dict)


def instruction_places_charts(document: Document) -> Iterator[Chart]:
    """Yield a flame graph for each tunnel and direction, with the largest payload."""
    largest: dict[tuple[str, str], InstructionPlaces] = {}
    for each in document.instruction_places:
        key = each.tunnel.name, each.direction
        largest[key] = max(largest.get(key, each), each, key=lambda one: one.payload_bytes)
    for each in largest.values():
        yield _chart(each)


def _chart(each: InstructionPlaces) -> Chart:
    tree = _tree(each.shares)
    rectangles = list(_rectangles(tree, (), 0.0))
    top = max(tree.branches, key=lambda name: tree.branches[name].share)
    place, share = next(iter(each.shares.items()))
    return Chart(
        name=chart_name("instructions", each.tunnel.name, each.direction.label),
        place=PageSection.COST,
        title=one_line(PLACES_TITLE + title_of(each)),
        sentence=one_line(
            f"{percent(tree.branches[top].share)} of the router's instructions are those of {top}. The place with the "
            f"most instructions is {place}: {percent(share)}."
        ),
        spec=_spec(rectangles),
        header=("Place", "Share"),
        rows=tuple((one_line(place), percent(share)) for place, share in each.shares.items()),
        tunnel=one_line(each.tunnel.name),
        direction=each.direction.label,
    )


def _tree(shares: Mapping[str, float]) -> _Branch:
    """Return the places as a tree, from kernel or program to function, with the share of each branch."""
    root = _Branch()
    for place, share in shares.items():
        branch = root
        branch.share += share
        for name in place.split("/", LEVELS - 1):
            branch = branch.branches.setdefault(name, _Branch())
            branch.share += share
    return root


def _rectangles(branch: _Branch, path: Sequence[str], start: float) -> Iterator[Spec]:
    """Yield a rectangle for each branch; `start` is the left edge of the first one, as a share of all instructions."""
    for name, each in sorted(branch.branches.items(), key=lambda one: (-one[1].share, one[0])):
        places = (*path, one_line(name))
        width_px = each.share * TEXT_WIDTH_PX
        yield {
            "place": " / ".join(places),
            "share": percent(each.share),
            "start": rounded(start),
            "end": rounded(start + each.share),
            "level": len(path),
            "label": places[-1] if len(places[-1]) * CHARACTER_PX < width_px else "",
        }
        yield from _rectangles(each, places, start)
        start += each.share


def _spec(rectangles: Sequence[Spec]) -> Spec:
    x: Spec = {"type": "quantitative", "title": "Share of instructions", "axis": {"format": "%"}}
    edges: Spec = {
        "x": {"field": "start", **x, "scale": {"domain": [0, 1], "nice": False}},
        "x2": {"field": "end"},
        "y": {"field": "level", "type": "ordinal", "axis": None, "scale": {"domain": list(range(LEVELS))}},
        "tooltip": hover(place="Place", share="Share"),
    }
    colour = {"field": "level", "type": "nominal", "legend": None, "scale": {"range": list(LEVEL_COLOURS)}}
    middle = {"x": {"field": "middle", **x}, "y": edges["y"], "text": {"field": "label"}, "tooltip": edges["tooltip"]}
    return framed(
        LEVELS * LEVEL_PX,
        [{**each, "middle": rounded((each["start"] + each["end"]) / 2)} for each in rectangles],
        layer=[
            {"mark": {"type": "rect", "stroke": "white"}, "encoding": {**edges, "color": colour}},
            {"mark": {"type": "text", "color": "black"}, "encoding": middle},
        ],
    )
