"""Expected order of tunnels by the work that each does for a packet, and the pairs of a result in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow
from tunnelbench.analysis.statistics import median

EXPECTATION = (
    "no tunnel is fastest, followed by IPIP, GRE, PPP over L2TPv2 and programs in user space. A program is faster "
    "without cipher and digest than with one of them, and slowest with both"
)
SAME_THROUGHPUT_WITHIN = 0.01
"""Largest relative difference of two throughputs that count as equal. Single trials do not repeat any better."""


@dataclass(frozen=True)
class Inversion:
    """Two rows of one payload and direction that are in another order than expected."""

    lighter: SideRow
    """Row that is expected to be faster."""
    heavier: SideRow
    """Row that was faster."""
    faster_by: float
    """Difference of the throughputs over that of the lighter tunnel."""
    cost_ratio: float | None
    """CPU time per packet of the heavier tunnel over that of the lighter; None: unknown."""


@dataclass(frozen=True)
class Order:
    """Pairs of a result that have an expected order, and those that are not in it."""

    pairs: int
    """Number of pairs with an expected order in which both rows have a throughput."""
    inversions: tuple[Inversion, ...]


def order(side: Side, weights: Mapping[str, int]) -> Order:
    """Check all pairs of a result's rows with one payload and direction.

    `weights` has the place of kinds of tunnels in the expected order, with the lightest first.
    """
    rows = [row for row in side.rows if ComparedFigure.THROUGHPUT in row.figures]
    pairs = [
        (one, other)
        for one, other in permutations(rows, 2)
        if one.place == other.place and one.traffic == other.traffic and is_lighter(one, other, weights)
    ]
    return Order(len(pairs), tuple(_inversions(pairs)))


def is_lighter(one: SideRow, other: SideRow, weights: Mapping[str, int]) -> bool:
    """Return True if `one` does part of the work that `other` does for a packet, and nothing else."""
    if one.kind not in weights or other.kind not in weights:
        return False
    if one.conditions != other.conditions:
        return False
    if one.kind == other.kind:
        return _work(one) < _work(other)
    return weights[one.kind] < weights[other.kind]


def _work(row: SideRow) -> frozenset[str]:
    return frozenset(name for name in ("cipher", "digest") if row.settings.get(name, "none") != "none")


def _inversions(pairs: Sequence[tuple[SideRow, SideRow]]) -> Iterator[Inversion]:
    for lighter, heavier in pairs:
        first, second = (median([*row.figures[ComparedFigure.THROUGHPUT].values()]) for row in (lighter, heavier))
        if first > 0 and second > first * (1 + SAME_THROUGHPUT_WITHIN):
            costs = lighter.cost_within, heavier.cost_within
            known = costs[1] / costs[0] if costs[0] and costs[1] else None
            yield Inversion(lighter, heavier, second / first - 1, known)
