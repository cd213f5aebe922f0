"""Facts other than figures that differ between two results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.analysis.statistics import median

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Difference:
    """A fact that differs between the two sides."""

    what: str
    a: str
    b: str


def differences(a: Side, b: Side) -> tuple[Difference, ...]:
    """Return every fact that differs; if a side is a published result, only the facts that it states."""
    names = dict.fromkeys([*a.facts, *b.facts])
    if a.comparability is not None or b.comparability is not None:
        stated = [side.facts for side in (a, b) if side.comparability is not None]
        names = {name: None for name in names if any(name in facts for facts in stated)}
    return tuple(
        Difference(name, a.facts.get(name, NOT_STATED), b.facts.get(name, NOT_STATED))
        for name in names
        if a.facts.get(name) != b.facts.get(name)
    )


def fixed_speed_differences(a: Side, b: Side) -> tuple[Difference, ...]:
    """Return the differing facts that can change the figures of a virtual router of fixed speed.

    Facts of the machine that emulates the router are left out, except those in OF_TESTERS: the router's speed does not
    depend on them.
    """
    return tuple(each for each in differences(a, b) if _can_change_fixed_speed(each.what))


OF_TESTERS = ("kernel", "cpus")
"""Facts of the machine that can change the traffic through a router of fixed speed: the kernel of the testers decides
when they send data and ACKs, and with few CPUs they share one with the gateway."""


def _can_change_fixed_speed(what: str) -> bool:
    """Return True for facts of virtual machines and testers, settings, and versions such as `tinc (router)`."""
    is_named = what in ("TunnelBench", *OF_TESTERS) or what.startswith(("guest", "plan: ", "testbed: "))
    return is_named or what.endswith(")")


def largest_clock_loss(side: Side) -> float | None:
    """Return the largest share of a trial that the clock of a router of fixed speed lost; None: any other router."""
    return max((row.clock_lost_share for row in side.rows if row.clock_lost_share is not None), default=None)


def bench_ratios(a: Side, b: Side, traffic: str = "tcp") -> Mapping[str, float]:
    """Return B over A of the testers without a router, for each payload and direction.

    Ratios far from 1 show that the bench changed between the results.
    """
    others = {row.place: row for row in b.testers}
    found = {}
    for row in a.testers:
        other = others.get(row.place)
        if row.traffic != traffic or other is None:
            continue
        for figure in BENCH_FIGURES:
            own, theirs = ([*side.figures.get(figure, {}).values()] for side in (row, other))
            # A load that was asked for and carried does not show the maximum.
            is_given = row.is_paced and figure is not ComparedFigure.THROUGHPUT
            if own and theirs and not is_given and median(own) > 0 and median(theirs) > 0:
                place = " ".join(filter(None, (str(row.payload_bytes), row.direction, row.test)))
                found[place] = median(theirs) / median(own)
    return found


BENCH_FIGURES = (
    ComparedFigure.THROUGHPUT, ComparedFigure.PDR, ComparedFigure.CARRIED, ComparedFigure.CONNECTIONS
)  # fmt: skip


def bench_moved(a: Side, b: Side, traffic: str = "tcp") -> float | None:
    """Return the factor, 1 or more, by which the result of the testers without a router changed, up or down.

    It is the median over payloads and directions. None: no calibration of that traffic counts on both sides.
    """
    ratios = bench_ratios(a, b, traffic).values()
    return median([max(ratio, 1 / ratio) for ratio in ratios]) if ratios else None
