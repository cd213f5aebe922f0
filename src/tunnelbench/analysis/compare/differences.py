"""What is unlike between two results beside their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunnelbench.analysis.compare.sides import Figure, Side
from tunnelbench.analysis.statistics import median
from tunnelbench.model.plan import FLAT_OUT

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on both sides."""

    what: str
    a: str
    b: str


def differences(a: Side, b: Side) -> tuple[Difference, ...]:
    """Every fact that differs; with a reference only those that it states."""
    names = dict.fromkeys([*a.facts, *b.facts])
    if a.comparability is not None or b.comparability is not None:
        stated = [side.facts for side in (a, b) if side.comparability is not None]
        names = {name: None for name in names if any(name in facts for facts in stated)}
    return tuple(
        Difference(name, a.facts.get(name, NOT_STATED), b.facts.get(name, NOT_STATED))
        for name in names
        if a.facts.get(name) != b.facts.get(name)
    )


def bench_ratios(a: Side, b: Side, traffic: str = "tcp") -> Mapping[str, float]:
    """B over A of what the testers alone did, for each payload and direction: whether the bench is the same."""
    others = {row.place: row for row in b.testers}
    found = {}
    for row in a.testers:
        other = others.get(row.place)
        if row.traffic != traffic or other is None:
            continue
        for figure in BENCH_FIGURES:
            own, theirs = ([*side.figures.get(figure, {}).values()] for side in (row, other))
            # What was asked for and given says nothing of what could have been.
            is_given = figure is Figure.CARRIED and not row.test.endswith(FLAT_OUT)
            if own and theirs and not is_given and median(own) > 0 and median(theirs) > 0:
                place = " ".join(filter(None, (str(row.payload_bytes), row.direction, row.test)))
                found[place] = median(theirs) / median(own)
    return found


BENCH_FIGURES = (Figure.THROUGHPUT, Figure.PDR, Figure.CARRIED)


def bench_moved(a: Side, b: Side, traffic: str = "tcp") -> float | None:
    """By which factor, 1 or more, the testers alone moved, up or down: the median of all payloads and directions.

    None: there is no calibration of that traffic that counts on both sides.
    """
    ratios = bench_ratios(a, b, traffic).values()
    return median([max(ratio, 1 / ratio) for ratio in ratios]) if ratios else None
