"""Whether two things that were measured side by side differ, and by what factor: Wilcoxon's exact signed-rank test and
its interval. What the machine did to both of a pair is in neither."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import log

from tunnelbench.analysis.ranks import Ratio, doubled_midranks
from tunnelbench.analysis.statistics import median


def signed_rank(quotients: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test (1945) of the quotients' logarithms: how often chance alone takes them
    as far from 1.

    Exact for the values as they are, ties included: every way of giving the ranks a sign is counted. Quotients of 1 are
    left out, as Wilcoxon did; 1.0 where none remains. ValueError where a quotient is not above 0.
    """
    logs = [log(quotient) for quotient in quotients if quotient != 1]
    doubled = doubled_midranks(sorted(abs(each) for each in logs))
    ranks = [doubled[abs(each)] for each in logs]
    observed = sum(rank for rank, each in zip(ranks, logs, strict=True) if each > 0)
    centre = sum(ranks) / 2
    extreme = sum(times for total, times in _sums(ranks).items() if abs(total - centre) >= abs(observed - centre))
    return extreme / (1 << len(ranks))


def least_paired_p(count: int) -> float:
    """The smallest p that so many pairs can reach: of all signs, two are wholly of one kind."""
    return min(1.0, 2 / (1 << count))


def paired_ratio(quotients: Sequence[float], confidence: float) -> Ratio:
    """The median quotient of pairs, with the interval that inverts the signed-rank test (Hodges and Lehmann 1963).

    The interval holds every factor that the test, at 1 - confidence, does not tell from the quotients: between two of
    their Walsh averages, here geometric. It is widened to the median where that lies outside. ValueError where there is
    no quotient, or one that is not above 0.
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
    """How many Walsh averages at each end the interval leaves out: the largest k with 2 P(T <= k) <= alpha, no ties."""
    ways = _sums(range(1, count + 1))
    passed, k = ways[0], 0
    while 2 * (passed + ways.get(k + 1, 0)) <= alpha * (1 << count):
        k += 1
        passed += ways.get(k, 0)
    return k


def _sums(ranks: Sequence[int]) -> dict[int, int]:
    """How many ways to take some of the ranks give each sum."""
    ways = {0: 1}
    for rank in ranks:
        taken = {total + rank: times for total, times in ways.items()}
        ways = {total: ways.get(total, 0) + taken.get(total, 0) for total in ways.keys() | taken.keys()}
    return ways
