"""Exact Mann-Whitney test of two small samples, and the interval of the ratio of their medians."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, floor, sqrt
from statistics import NormalDist

from tunnelbench.analysis.statistics import median

MOST_EXACT = 40
"""Largest sample for which all permutations are counted. Above it the normal distribution is as accurate."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of two medians with an interval."""

    value: float
    low: float
    high: float
    confidence: float | None
    """Probability that the interval contains the true factor, 0 to 1.

    None: the samples are too small for the requested confidence. Then low and high are the smallest and the largest
    quotient of a value of one sample and a value of the other.
    """


def mann_whitney(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney test (1947): the probability of such a difference by chance alone.

    It is exact for the pooled values, ties included: it counts the rank sums of all permutations of the pooled values.
    If a sample has more than 40 values, it uses the normal distribution with the corrections for ties and continuity.
    Raises ValueError if a sample is empty.
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
    """Return the smallest p that samples of these sizes can reach: only two permutations separate the samples
    completely."""
    return min(1.0, 2 / comb(count + other_count, count))


def ratio(values: Sequence[float], others: Sequence[float], confidence: float) -> Ratio:
    """Return the factor from `others` to `values`: the quotient of the medians, and an interval by inverting the test.

    The interval (Hodges and Lehmann 1963; Bauer 1972) contains every factor f for which the test finds no difference
    between the values and f times the others, at 1 - confidence. It is widened to contain the quotient of the medians.
    Raises ValueError if a value is not above 0.
    """
    if min(*values, *others, 1.0) <= 0:
        raise ValueError("a ratio needs values above 0")
    quotient = median(values) / median(others)
    numerators, denominators = sorted(values), sorted(others)
    if least_p(len(values), len(others)) > 1 - confidence:
        return Ratio(quotient, numerators[0] / denominators[-1], numerators[-1] / denominators[0], None)
    outside = _left_out(len(values), len(others), 1 - confidence)
    low = nth_quotient(numerators, denominators, outside)
    high = nth_quotient(numerators, denominators, len(values) * len(others) - 1 - outside)
    return Ratio(quotient, min(low, quotient), max(high, quotient), confidence)


def nth_quotient(numerators: Sequence[float], denominators: Sequence[float], place: int) -> float:
    """Return the quotient at a place, counted from 0, among all quotients of two sorted samples in ascending order.

    Quotients are counted and not listed: two samples of 25,000 values have 625 million. Values are above 0.
    """

    def up_to(limit: float) -> int:
        """Return how many quotients are at most a limit."""
        found, first = 0, 0
        for value in numerators:  # a larger numerator needs a larger denominator
            while first < len(denominators) and value / denominators[first] > limit:
                first += 1
            found += len(denominators) - first
        return found

    low, high = numerators[0] / denominators[-1], numerators[-1] / denominators[0]
    if up_to(low) > place:
        return low
    while True:  # low is below the quotient, and high is not
        middle = low + (high - low) / 2
        if middle in {low, high}:
            return high
        low, high = (low, middle) if up_to(middle) > place else (middle, high)


def _left_out(count: int, other_count: int, alpha: float) -> int:
    """Return how many quotients at each end are outside the interval: the largest k with 2 P(U <= k) <= alpha.

    U is the test statistic without ties. The test rejects a factor with k quotients below it, and accepts a factor with
    k + 1 quotients below it.
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
    """Return twice the mean rank of each value, which is an integer even if values tie."""
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
    """Return, for each possible sum of `taken` ranks, the number of ways to choose the ranks with that sum."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(taken)]
    for rank in ranks:
        for size in range(taken, 0, -1):
            for total, times in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + times
    return ways[taken]
