"""Which tunnel should be faster than which by what each does to a packet, and where a result says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from tunnelbench.analysis.compare.sides import Figure, Side, SideRow
from tunnelbench.analysis.statistics import median

LIGHTEST_FIRST = ("none", "ipip", "gre", "l2tpv2-ppp")
"""In the kernel and without a cipher: nothing, 20 bytes of header, 24, and 38 with a session to be found."""

USER_SPACE = frozenset({"openvpn", "tinc"})
"""Each packet goes to a program and back, whatever else is done to it."""

EXPECTATION = (
    "no tunnel before IPIP before GRE before PPP over L2TPv2 before programs in user space; of one program none before "
    "cipher or digest alone before both"
)
NEAR = 0.01
"""Two throughputs that are no further apart are in no order: single trials do not repeat any better."""


@dataclass(frozen=True)
class Inversion:
    """Two rows of one payload and direction in another order than expected."""

    lighter: SideRow
    """Which should be faster."""
    heavier: SideRow
    """Which was."""
    faster_by: float
    """Share of the lighter's throughput."""
    cost_ratio: float | None
    """CPU per packet of the heavier over that of the lighter; None: not known."""


@dataclass(frozen=True)
class Order:
    """How far a result is in the expected order."""

    pairs: int
    """For which something is expected, and both have a throughput."""
    inversions: tuple[Inversion, ...]


def order(side: Side) -> Order:
    """All pairs of a result's rows of one payload and direction."""
    rows = [row for row in side.rows if Figure.THROUGHPUT in row.figures]
    pairs = [
        (one, other)
        for one, other in permutations(rows, 2)
        if one.place == other.place and one.traffic == other.traffic and is_lighter(one, other)
    ]
    return Order(len(pairs), tuple(_inversions(pairs)))


def is_lighter(one: SideRow, other: SideRow) -> bool:
    """Whether the one does less to a packet than the other, and nothing that the other does not."""
    if one.kind in LIGHTEST_FIRST:
        if other.kind in LIGHTEST_FIRST:
            return LIGHTEST_FIRST.index(one.kind) < LIGHTEST_FIRST.index(other.kind)
        return other.kind in USER_SPACE
    return one.kind == other.kind and one.kind in USER_SPACE and _work(one) < _work(other)


def _work(row: SideRow) -> frozenset[str]:
    return frozenset(name for name in ("cipher", "digest") if row.settings.get(name, "none") != "none")


def _inversions(pairs: Sequence[tuple[SideRow, SideRow]]) -> Iterator[Inversion]:
    for lighter, heavier in pairs:
        first, second = (median([*row.figures[Figure.THROUGHPUT].values()]) for row in (lighter, heavier))
        if first > 0 and second > first * (1 + NEAR):
            costs = lighter.cost_within, heavier.cost_within
            known = costs[1] / costs[0] if costs[0] and costs[1] else None
            yield Inversion(lighter, heavier, second / first - 1, known)
