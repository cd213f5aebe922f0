"""Wilcoxon's exact signed-rank test of pairs, and the interval of their median ratio.

The speed of the machine cancels out if it is the same for both trials of a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import log

from tunnelbench.analysis.mann_whitney import Ratio, doubled_midranks
from tunnelbench.analysis.statistics import median


def signed_rank(quotients: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test (1945) of the logarithms of the quotients.

    It is the probability that chance alone moves the quotients so far from 1. It is exact, ties included: it counts all
    combinations of signs. Quotients of 1 are left out, as Wilcoxon did; the result is 1.0 if none remains. Raises
    ValueError if a quotient is not above 0.
    """
    logs = [log(quotient) for quotient in quotients if quotient != 1]
    doubled = doubled_midranks(sorted(abs(each) for each in logs))
    ranks = [doubled[abs(each)] for each in logs]
    observed = sum(rank for rank, each in zip(ranks, logs, strict=True) if each > 0)
    centre = sum(ranks) / 2
    extreme = sum(times for total, times in _sums(ranks).items() if abs(total - centre) >= abs(observed - centre))
    return extreme / (1 << len(ranks))


def least_paired_p(count: int) -> float:
    """Return the smallest p that this number of pairs can reach: only two combinations of signs have all signs
    equal."""
    return min(1.0, 2 / (1 << count))


def paired_ratio(quotients: Sequence[float], confidence: float) -> Ratio:
    """Return the median quotient of pairs, with the interval that inverts the signed-rank test.

    The interval (Hodges and Lehmann 1963) contains every factor that the test accepts at 1 - confidence. Its ends are
    two of the Walsh averages of the quotients, here geometric means. It is widened to contain the median. Raises
    ValueError if there is no quotient, or if one is not above 0.
    """
    if not quotients or min(quotients) <= 0:
        raise ValueError("a ratio needs values above 0")
    middle = median(list(quotients))
    if least_paired_p(len(quotients)) > 1 - confidence:
        return Ratio(middle, min(quotients), max(quotients), None)
    walsh = sorted((one * other) ** 0.5 for one, other in combinations_with_replacement(quotients, 2))
    outside = _left_out(len(quotients), 1 - confidence)
    return Ratio(middle, min(walsh[outside], middle), max(walsh[-1 - outside], middle), confidence)


def _left_out(count: int, alpha: float) -> int:
    """Return how many Walsh averages at each end are outside the interval: the largest k with 2 P(T <= k) <= alpha,
    without ties."""
    ways = _sums(range(1, count + 1))
    passed, k = ways[0], 0
    while 2 * (passed + ways.get(k + 1, 0)) <= alpha * (1 << count):
        k += 1
        passed += ways.get(k, 0)
    return k


def _sums(ranks: Sequence[int]) -> dict[int, int]:
    """Return, for each possible sum, the number of ways to choose ranks with that sum."""
    ways = {0: 1}
    for rank in ranks:
        taken = {total + rank: times for total, times in ways.items()}
        ways = {total: ways.get(total, 0) + taken.get(total, 0) for total in ways.keys() | taken.keys()}
    return ways
