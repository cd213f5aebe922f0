"""Whether two handfuls of repeats differ, and by what factor: the exact Mann-Whitney test and its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, floor, sqrt
from statistics import NormalDist

from tunnelbench.analysis.statistics import median

MOST_EXACT = 40
"""Values of one sample up to which every way to deal is counted; beyond, the normal distribution is as good."""


@dataclass(frozen=True)
class Ratio:
    """The quotient of two medians, and an interval of it."""

    value: float
    low: float
    high: float
    confidence: float | None
    """That the interval holds the true factor, 0 to 1; None: the samples are too small for any that was asked for, and
    low and high are the least and the greatest quotient of a value of one to a value of the other."""


def mann_whitney(values: Sequence[float], others: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney test (1947): how often chance alone parts two equal samples as far as these.

    Exact for the pooled values as they are, ties included: every way of dealing them out to the two samples is counted
    (the permutation distribution of the rank sum). Over 40 values of one sample: by the normal distribution with the
    tie and continuity corrections. ValueError where a sample is empty.
    """
    if not values or not others:
        raise ValueError("a sample without values")
    pooled = sorted((*values, *others))
    doubled = doubled_midranks(pooled)
    observed = sum(doubled[value] for value in values)
    centre = len(values) * (len(pooled) + 1)  # twice the mean of the rank sum
    if max(len(values), len(others)) > MOST_EXACT:
        return _normal_p(abs(observed - centre) / 2, len(values), len(others), Counter(pooled).values())
    counts = _rank_sums(tuple(doubled[value] for value in pooled), len(values))
    distance = abs(observed - centre)
    extreme = sum(times for total, times in counts.items() if abs(total - centre) >= distance)
    return extreme / comb(len(pooled), len(values))


def _normal_p(distance: float, count: int, other_count: int, ties: Iterable[int]) -> float:
    total = count + other_count
    tied = sum(times**3 - times for times in ties) / (total * (total - 1))
    deviation = sqrt(count * other_count / 12 * (total + 1 - tied))
    return min(1.0, 2 * NormalDist().cdf(-max(0.0, distance - 0.5) / deviation)) if deviation else 1.0


def least_p(count: int, other_count: int) -> float:
    """The smallest p that samples of these sizes can reach: of all ways to deal, two part them wholly."""
    return min(1.0, 2 / comb(count + other_count, count))


def ratio(values: Sequence[float], others: Sequence[float], confidence: float) -> Ratio:
    """The factor from `others` to `values`, both above 0: quotient of the medians, interval by inverting the test.

    The interval (Hodges and Lehmann 1963; Bauer 1972) holds every factor f for which the test, at 1 - confidence, does
    not tell the values from f times the others. It is widened to the quotient of the medians where that lies outside.
    ValueError where a value is not above 0.
    """
    if min(*values, *others, 1.0) <= 0:
        raise ValueError("a ratio needs values above 0")
    quotient = median(values) / median(others)
    quotients = sorted(value / other for value in values for other in others)
    if least_p(len(values), len(others)) > 1 - confidence:
        return Ratio(quotient, quotients[0], quotients[-1], None)
    outside = _left_out(len(values), len(others), 1 - confidence)
    low, high = quotients[outside], quotients[-1 - outside]
    return Ratio(quotient, min(low, quotient), max(high, quotient), confidence)


def _left_out(count: int, other_count: int, alpha: float) -> int:
    """How many quotients at each end the interval leaves out: the largest k with 2 P(U <= k) <= alpha, no ties.

    A factor with so many quotients below it is told apart, one with one more is not.
    """
    if max(count, other_count) > MOST_EXACT:
        deviation = sqrt(count * other_count * (count + other_count + 1) / 12)
        return max(0, floor(count * other_count / 2 + NormalDist().inv_cdf(alpha / 2) * deviation - 0.5))
    counts = _rank_sums(tuple(range(2, 2 * (count + other_count) + 1, 2)), count)
    least = count * (count + 1)
    allowed = alpha / 2 * comb(count + other_count, count)
    passed, k = 0, 0
    while True:
        passed += counts.get(least + 2 * k, 0)
        if passed > allowed:
            return k - 1
        k += 1


def doubled_midranks(ordered: Sequence[float]) -> dict[float, int]:
    """Twice the mean rank of each value, so that it is whole where values tie."""
    ranks: dict[float, int] = {}
    position = 0
    while position < len(ordered):
        end = position
        while end < len(ordered) and ordered[end] == ordered[position]:
            end += 1
        ranks[ordered[position]] = position + 1 + end
        position = end
    return ranks


@cache
def _rank_sums(ranks: tuple[int, ...], taken: int) -> dict[int, int]:
    """How many ways to take so many of the ranks give each sum."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(taken)]
    for rank in ranks:
        for size in range(taken, 0, -1):
            for total, times in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + times
    return ways[taken]
