"""Median, spread and ties, against the standard library and a plain bootstrap."""

from __future__ import annotations

import statistics
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelbench.analysis.statistics import (
    INTERVAL_FROM,
    RESAMPLES,
    SEED,
    Estimate,
    _drawn_ranks,
    _sorted_ranks,
    bootstrap_interval,
    estimate,
    median,
)

values = st.floats(min_value=-1e12, max_value=1e12)


@given(st.lists(values, min_size=1, max_size=40))
def test_the_median_is_that_of_the_standard_library(sample: list[float]) -> None:
    assert median(sample) == statistics.median(sample)


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no median"):
        median([])


@given(st.lists(values, min_size=1, max_size=INTERVAL_FROM - 1))
def test_up_to_four_repeats_the_spread_is_minimum_to_maximum(sample: list[float]) -> None:
    assert estimate(sample) == Estimate(statistics.median(sample), min(sample), max(sample), len(sample))


@given(st.lists(values, min_size=INTERVAL_FROM, max_size=20))
def test_from_five_repeats_the_interval_holds_the_median_and_lies_within_the_sample(sample: list[float]) -> None:
    found = estimate(sample)
    assert min(sample) <= found.low <= found.median <= found.high <= max(sample)


@pytest.mark.parametrize("count", [5, 6, 7, 12])
def test_resampling_ranks_gives_what_resampling_values_gives(count: int) -> None:
    sample = [Random(count).gauss(100, 5) for _ in range(count)]
    random = Random(SEED)
    ordered = sorted(sample)
    medians = sorted(statistics.median(random.choices(ordered, k=count)) for _ in range(RESAMPLES))
    assert bootstrap_interval(sample) == (medians[RESAMPLES // 40 - 1], medians[RESAMPLES - RESAMPLES // 40 - 1])


def test_the_interval_of_many_repeats_is_narrower_than_their_range() -> None:
    sample = [float(number) for number in range(101)]
    low, high = bootstrap_interval(sample)
    assert 35 < low < 45
    assert 55 < high < 65


@given(st.lists(values, min_size=1, max_size=12), st.lists(values, min_size=1, max_size=12))
def test_a_tie_is_mutual(first: list[float], second: list[float]) -> None:
    assert estimate(first).ties_with(estimate(second)) == estimate(second).ties_with(estimate(first))


@given(st.lists(values, min_size=1, max_size=12), st.integers(min_value=1, max_value=100))
def test_a_sample_ties_with_itself_and_not_with_one_beyond_its_range(sample: list[float], distance: int) -> None:
    assert estimate(sample).ties_with(estimate(sample))
    assert not estimate(sample).ties_with(estimate([max(sample) + distance] * len(sample)))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([10, 11, 12], [12, 13, 14], True),
        ([10, 11, 12], [12.1, 13, 14], False),
        ([10], [10], True),
        ([10], [10.001], False),
        ([9, 10, 20], [15, 30, 40], True),
    ],
)
def test_a_difference_inside_the_spread_is_a_tie(first: list[float], second: list[float], expected: bool) -> None:
    assert estimate(first).ties_with(estimate(second)) is expected


@pytest.mark.parametrize("count", [7, 8, 201, 400])
def test_drawn_middles_are_distributed_like_those_of_sorted_resamples(count: int) -> None:
    moments = []
    for draw in (_drawn_ranks, _sorted_ranks):
        random = Random(1)
        lower, upper = zip(*(draw(random, count) for _ in range(3000)), strict=True)
        apart = [high - low for low, high in zip(lower, upper, strict=True)]
        moments.append(
            [statistics.mean(lower), statistics.stdev(lower), statistics.mean(upper), statistics.mean(apart)]
        )
    drawn, made = moments
    assert drawn == pytest.approx(made, abs=0.1 * made[1])
