"""Median, spread and ties of a handful of repeats (rule 19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

INTERVAL_FROM = 5
"""Repeats from which the spread is a bootstrap interval; below, resampling says no more than minimum and maximum."""

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 2544
"""Fixed, so that one store always gives one report."""


@dataclass(frozen=True)
class Estimate:
    """The median of some repeats and their spread, in the unit of the values."""

    median: float
    low: float
    high: float
    """Minimum and maximum up to four repeats, from five on the 95 % bootstrap interval of the median."""
    count: int
    """Repeats."""

    def ties_with(self, other: Estimate) -> bool:
        """Whether the difference of the medians is inside the spread: the two ranges overlap.

        Of single values nothing is known but themselves: they tie when they are equal.
        """
        return self.low <= other.high and other.low <= self.high


def estimate(values: Sequence[float]) -> Estimate:
    """Median and spread of at least one value; ValueError for none."""
    low, high = bootstrap_interval(values) if len(values) >= INTERVAL_FROM else (min(values), max(values))
    return Estimate(median(values), low, high, len(values))


def tie(values: Sequence[float], others: Sequence[float]) -> bool:
    """Whether the difference of two samples is inside their spread."""
    return estimate(values).ties_with(estimate(others))


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle; ValueError for none."""
    if not values:
        raise ValueError("no values, no median")
    ordered = sorted(values)
    return _middle(ordered, (len(ordered) - 1) // 2, len(ordered) // 2)


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """Percentile bootstrap interval of the median (Efron 1979): its bounds at 2.5 and 97.5 % of the resampled medians.

    Only the ranks are resampled, once for each number of values: how often a rank ends up in the middle does not
    depend on the values.
    """
    ordered = sorted(values)
    medians = sorted(
        (_middle(ordered, lower, upper), times) for (lower, upper), times in _middle_ranks(len(ordered)).items()
    )
    tail = (1 - CONFIDENCE) / 2 * RESAMPLES
    return _at(medians, tail), _at(medians, RESAMPLES - tail)


def _middle(ordered: Sequence[float], lower: int, upper: int) -> float:
    return ordered[lower] if lower == upper else (ordered[lower] + ordered[upper]) / 2


@cache
def _middle_ranks(count: int) -> Mapping[tuple[int, int], int]:
    """How often each two ranks are the middle ones of a resample of `count` values; equal ranks for an odd count."""
    random = Random(SEED)  # noqa: S311 - nothing secret
    lower, upper = (count - 1) // 2, count // 2
    ranks: Counter[tuple[int, int]] = Counter()
    for _ in range(RESAMPLES):
        resample = sorted(random.choices(range(count), k=count))
        ranks[resample[lower], resample[upper]] += 1
    return ranks


def _at(weighted: Sequence[tuple[float, int]], position: float) -> float:
    """The first of ordered values with their weights at which the sum of the weights reaches `position`."""
    passed = 0
    for value, weight in weighted:
        passed += weight
        if passed >= position:
            return value
    return weighted[-1][0]
