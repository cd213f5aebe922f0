"""Median, spread and ties of a few repeats (rule 19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

INTERVAL_FROM = 5
"""Smallest number of repeats for which the spread is a bootstrap interval. With fewer repeats the spread is their
minimum and maximum."""

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 2544
"""Seed of the random numbers; it is fixed, so that the same store always gives the same report."""

SORTED_UP_TO = 200
"""Largest number of values of which resamples are made and sorted; of more values only the middle is drawn, because
sorting 10,000 resamples of 600 values takes a second."""


@dataclass(frozen=True)
class Estimate:
    """Median and spread of some repeats, in the unit of the values."""

    median: float
    low: float
    high: float
    """Minimum and maximum of up to four repeats, else the 95 % bootstrap interval of the median."""
    count: int
    """Number of repeats."""

    def times(self, factor: float) -> Estimate:
        """Convert to another unit."""
        return Estimate(self.median * factor, self.low * factor, self.high * factor, self.count)

    def ties_with(self, other: Estimate) -> bool:
        """Return True if the spreads overlap; two single values tie if they are equal."""
        return self.low <= other.high and other.low <= self.high


def estimate(values: Sequence[float]) -> Estimate:
    """Return median and spread of the values; raises ValueError if there is no value."""
    if not values:
        raise ValueError("no values, no estimate")
    ordered = sorted(values)
    low, high = _interval(ordered) if len(ordered) >= INTERVAL_FROM else (ordered[0], ordered[-1])
    return Estimate(_median(ordered), low, high, len(ordered))


def estimate_known(values: Iterable[float | None]) -> Estimate | None:
    """Return median and spread of the values that are not None; None if there is no such value."""
    known = [value for value in values if value is not None]
    return estimate(known) if known else None


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle values; raises ValueError if there is no value."""
    if not values:
        raise ValueError("no values, no median")
    return _median(sorted(values))


def _median(ordered: Sequence[float]) -> float:
    return _middle(ordered, (len(ordered) - 1) // 2, len(ordered) // 2)


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the median (Efron 1979): 2.5 and 97.5 % of the resampled medians.

    Ranks are resampled instead of values, once for each number of values. How often a rank is in the middle does not
    depend on the values.
    """
    return _interval(sorted(values))


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    medians = sorted(
        (_middle(ordered, lower, upper), times) for (lower, upper), times in _middle_ranks(len(ordered)).items()
    )
    tail = (1 - CONFIDENCE) / 2 * RESAMPLES
    return _at(medians, tail), _at(medians, RESAMPLES - tail)


def _middle(ordered: Sequence[float], lower: int, upper: int) -> float:
    return ordered[lower] if lower == upper else (ordered[lower] + ordered[upper]) / 2


@cache
def _middle_ranks(count: int) -> Mapping[tuple[int, int], int]:
    """Return how often each pair of ranks is the middle of a resample of `count` values; if `count` is odd, the pair is
    one rank twice."""
    random = Random(SEED)  # noqa: S311 - nothing secret
    draw = _drawn_ranks if count > SORTED_UP_TO else _sorted_ranks
    return Counter(draw(random, count) for _ in range(RESAMPLES))


def _sorted_ranks(random: Random, count: int) -> tuple[int, int]:
    resample = sorted(random.choices(range(count), k=count))
    return resample[(count - 1) // 2], resample[count // 2]


def _drawn_ranks(random: Random, count: int) -> tuple[int, int]:
    """Return the middle ranks of a resample without making it.

    The value at position k of n sorted uniform numbers has the distribution Beta(k, n + 1 - k), and those above it are
    uniform again (H. A. David and H. N. Nagaraja, Order Statistics, 2003, chapter 2).
    """
    below = (count - 1) // 2
    first = second = random.betavariate(below + 1, count - below)
    if count % 2 == 0:
        second += (1 - first) * (1 - random.random() ** (1 / (count - below - 1)))
    return min(int(first * count), count - 1), min(int(second * count), count - 1)


def _at(weighted: Sequence[tuple[float, int]], position: float) -> float:
    """Return the first value, in ascending order, at which the sum of the weights so far reaches `position`."""
    passed = 0
    for value, weight in weighted:
        passed += weight
        if passed >= position:
            return value
    return weighted[-1][0]
