"""The exact signed-rank test and the interval of paired ratios, held against scipy."""

from __future__ import annotations

from itertools import product
from math import exp, log

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tunnelbench.analysis.wilcoxon import least_paired_p, paired_ratio, signed_rank

distinct = st.lists(st.floats(-2, 2), min_size=1, max_size=14, unique_by=abs).map(lambda logs: [exp(x) for x in logs])


def scipy_p(quotients: list[float]) -> float:
    return float(stats.wilcoxon([log(each) for each in quotients], method="exact").pvalue)


@given(distinct)
@settings(max_examples=150, deadline=None)
def test_p_without_ties_is_that_of_scipy(quotients: list[float]) -> None:
    assume(all(quotient != 1 for quotient in quotients))
    assume(len({abs(log(quotient)) for quotient in quotients}) == len(quotients))
    assert signed_rank(quotients) == pytest.approx(scipy_p(quotients))


@given(st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), max_size=9))
@settings(max_examples=100, deadline=None)
def test_p_with_ties_counts_every_way_to_sign(quotients: list[float]) -> None:
    logs = [log(each) for each in quotients if each != 1]
    ranks = stats.rankdata([abs(each) for each in logs]) if logs else []
    observed = sum(rank for rank, each in zip(ranks, logs, strict=True) if each > 0)
    centre = sum(ranks) / 2
    totals = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in
              product((False, True), repeat=len(logs))]  # fmt: skip
    as_extreme = sum(abs(total - centre) >= abs(observed - centre) - 1e-9 for total in totals)
    assert signed_rank(quotients) == pytest.approx(as_extreme / len(totals))


def test_seven_rounds_cannot_show_a_difference_and_eight_can() -> None:
    assert signed_rank([1.1] * 7) == least_paired_p(7) == pytest.approx(0.015625)
    assert signed_rank([1.1] * 8) == least_paired_p(8) == pytest.approx(0.0078125)
    assert signed_rank([]) == 1


@given(st.lists(st.floats(0.2, 5), min_size=9, max_size=14, unique=True))
@settings(max_examples=80, deadline=None)
def test_the_interval_ends_where_scipys_test_begins_to_distinguish(quotients: list[float]) -> None:
    found = paired_ratio(quotients, 0.95)
    assert found.confidence == 0.95
    assert found.low <= found.value <= found.high

    def is_significant(factor: float) -> bool:
        return scipy_p([quotient / factor for quotient in quotients]) <= 0.05

    assert is_significant(found.low * (1 - 1e-9))
    assert is_significant(found.high * (1 + 1e-9))


def test_the_interval_leaves_out_as_many_as_the_tables_say() -> None:
    # Critical values of T, two-sided 5 %: 5 for 9 pairs, 8 for 10.
    for count, critical in ((9, 5), (10, 8)):
        quotients = [2.0**k for k in range(count)]
        walsh = sorted((one * other) ** 0.5 for k, one in enumerate(quotients) for other in quotients[k:])
        assert paired_ratio(quotients, 0.95).low == walsh[critical]


def test_a_ratio_of_few_pairs_has_a_range_and_no_confidence() -> None:
    found = paired_ratio([2.0, 1.0, 4.0], 0.99)
    assert (found.value, found.low, found.high, found.confidence) == (2.0, 1.0, 4.0, None)


@pytest.mark.parametrize("quotients", [[], [1.0, 0.0], [-1.0]])
def test_what_is_no_ratio_is_refused(quotients: list[float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        paired_ratio(quotients, 0.99)
