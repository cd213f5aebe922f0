"""The exact Mann-Whitney test and the ratio's interval, held against scipy."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tunnelbench.analysis.mann_whitney import MOST_EXACT, least_p, mann_whitney, nth_quotient, ratio

distinct = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=18, unique=True)
tied = st.lists(st.integers(1, 4).map(float), min_size=1, max_size=6)


def scipy_p(values: list[float], others: list[float]) -> float:
    return float(stats.mannwhitneyu(values, others, alternative="two-sided", method="exact").pvalue)


@given(distinct, st.data())
@settings(max_examples=150, deadline=None)
def test_p_without_ties_is_that_of_scipy(pool: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(pool) - 1))
    values, others = pool[:cut], pool[cut:]
    assert mann_whitney(values, others) == pytest.approx(scipy_p(values, others))


@given(tied, tied)
@settings(max_examples=100, deadline=None)
def test_p_with_ties_counts_every_way_to_deal(values: list[float], others: list[float]) -> None:
    pool = [*values, *others]
    ranks = stats.rankdata(pool)
    centre = ranks.mean() * len(values)
    distance = abs(ranks[: len(values)].sum() - centre)
    dealt = [abs(sum(ranks[i] for i in taken) - centre) for taken in combinations(range(len(pool)), len(values))]
    assert mann_whitney(values, others) == pytest.approx(sum(d >= distance - 1e-9 for d in dealt) / len(dealt))


def test_three_against_three_cannot_show_a_difference_and_five_can() -> None:
    assert mann_whitney([1, 2, 3], [4, 5, 6]) == least_p(3, 3) == pytest.approx(0.1)
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == least_p(5, 5) == pytest.approx(2 / 252)
    assert least_p(1, 1) == 1


@given(distinct.filter(lambda pool: len(pool) >= 12))
@settings(max_examples=80, deadline=None)
def test_the_interval_ends_where_scipys_test_begins_to_distinguish(pool: list[float]) -> None:
    values, others = pool[: len(pool) // 2], pool[len(pool) // 2 :]
    found = ratio(values, others, 0.95)
    assert found.confidence == 0.95
    assert found.low <= found.value <= found.high

    def is_significant(factor: float) -> bool:
        return scipy_p(values, [other * factor for other in others]) <= 0.05

    assert is_significant(found.low * (1 - 1e-9))
    assert is_significant(found.high * (1 + 1e-9))


def test_the_interval_leaves_out_as_many_as_the_tables_say() -> None:
    # Critical values of U, two-sided 5 %: 2 for 5 and 5, 23 for 10 and 10.
    values, others = [1.0] * 5, [2.0**k for k in range(5)]
    quotients = sorted(value / other for value in values for other in others)
    assert ratio(values, others, 0.95).low == quotients[2]
    tens = [1 + k / 100 for k in range(10)]
    others = [2 + k / 37 for k in range(10)]
    quotients = sorted(value / other for value in tens for other in others)
    assert ratio(tens, others, 0.95).low == quotients[23]


def test_a_ratio_of_few_values_has_a_range_and_no_confidence() -> None:
    found = ratio([2.0, 4.0, 3.0], [1.0, 2.0, 1.5], 0.99)
    assert (found.value, found.low, found.high, found.confidence) == (2.0, 1.0, 4.0, None)
    assert ratio([3.0], [2.0], 0.99).high == 1.5


@pytest.mark.parametrize("empty", [([], [1.0]), ([1.0], [])])
def test_no_values_are_refused(empty: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="without values"):
        mann_whitney(*empty)


@given(st.lists(st.integers(1, 30).map(float), min_size=MOST_EXACT + 1, max_size=60), tied)
@settings(max_examples=50, deadline=None)
def test_many_values_are_tested_as_scipy_does(values: list[float], others: list[float]) -> None:
    expected = stats.mannwhitneyu(values, others, alternative="two-sided", method="asymptotic").pvalue
    assert mann_whitney(values, others) == pytest.approx(float(expected))


def test_the_interval_of_many_values_goes_on_where_the_exact_one_ends() -> None:
    def width(count: int) -> float:
        values, others = [100 + k / count for k in range(count)], [200 + 1.01 * k / count for k in range(count)]
        found = ratio(values, others, 0.99)
        return found.high - found.low

    assert width(MOST_EXACT + 1) == pytest.approx(width(MOST_EXACT), rel=0.05)


def test_a_ratio_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ratio([0.0, 1.0], [1.0], 0.95)


def test_forty_against_forty_is_still_exact() -> None:
    values, others = [float(k) for k in range(40)], [k + 0.5 + 9 for k in range(40)]
    assert mann_whitney(values, others) == pytest.approx(scipy_p(values, others))


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=12),
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=12),
)
def test_the_quotients_are_found_as_in_the_sorted_list(values: list[float], others: list[float]) -> None:
    listed = sorted(value / other for value in values for other in others)
    found = [nth_quotient(sorted(values), sorted(others), place) for place in range(len(listed))]
    assert found == listed


def test_many_values_take_little_memory() -> None:
    values = [1 + number / 20_000 for number in range(20_000)]
    tracemalloc.start()
    found = ratio(values, values, 0.95)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.low < found.value == 1 < found.high
    assert most_bytes < 50e6  # the 400 million quotients would take 9 GB
