"""The search against routers of known behaviour."""

from __future__ import annotations

from random import Random
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.measure.simulated import SimulatedRouter

from tunnelbench.measure.search import MlrSearch
from tunnelbench.model.search import (
    NDR_LOSS_RATIO,
    PDR_LOSS_RATIO,
    Bounds,
    Classification,
    SearchPoint,
    SearchRun,
    bounds,
)

HIGHEST_PPS = 700_000.0


def search(router: SimulatedRouter, highest_pps: float = HIGHEST_PPS, **settings: Any) -> SearchRun:
    return MlrSearch(**settings).find(router.measure, highest_pps)


@pytest.mark.parametrize("stall_probability", [0.0, 0.1], ids=["steady", "stalling"])
@pytest.mark.parametrize("limit_pps", [7_300, 20_000, 61_000])
def test_pdr_is_within_1_percent_in_nine_of_ten_searches_of_fifteen_seconds(
    limit_pps: float, stall_probability: float
) -> None:
    runs = [
        search(
            SimulatedRouter(limit_pps, stall_probability=stall_probability, random=Random(seed)),
            HIGHEST_PPS * (1 + seed / 10),
        )
        for seed in range(10)
    ]
    found = [run.bounds(PDR_LOSS_RATIO).lower_pps or 0 for run in runs]
    assert sum(abs(pps / limit_pps - 1) <= 0.01 for pps in found) >= 9, found
    assert median(run.trial_s for run in runs) <= 15


@pytest.mark.parametrize("seed", range(5))
def test_a_soft_limit_parts_ndr_from_pdr(seed: int) -> None:
    router = SimulatedRouter(50_000, knee_share=0.8, knee_loss_ratio=0.002, random=Random(seed))
    run = search(router)
    assert run.bounds(NDR_LOSS_RATIO).lower_pps == pytest.approx(40_000, rel=0.01)
    assert run.bounds(PDR_LOSS_RATIO).lower_pps == pytest.approx(50_000, rel=0.01)


def test_a_path_that_always_loses_a_little_has_a_pdr_and_hardly_an_ndr() -> None:
    run = search(SimulatedRouter(50_000, random_loss_ratio=0.001))
    assert run.bounds(PDR_LOSS_RATIO).lower_pps == pytest.approx(50_000, rel=0.01)
    assert (run.bounds(NDR_LOSS_RATIO).lower_pps or 0) < 10_000


def test_a_path_that_carries_nothing_has_no_lower_bound() -> None:
    found = search(SimulatedRouter(0, burst_packets=0)).bounds(PDR_LOSS_RATIO)
    assert found.lower is None
    assert found.upper_pps == pytest.approx(10)


def test_a_path_without_a_limit_has_no_upper_bound() -> None:
    found = search(SimulatedRouter(2 * HIGHEST_PPS)).bounds(NDR_LOSS_RATIO)
    assert found == Bounds(found.lower, None)
    assert found.lower_pps == HIGHEST_PPS


def test_a_sender_that_falls_short_bounds_the_search_and_is_named() -> None:
    found = search(SimulatedRouter(600_000, sender_limit_pps=90_000)).bounds(NDR_LOSS_RATIO)
    assert found.lower_pps == pytest.approx(90_000, rel=0.01)
    assert found.upper_is_testers


def test_a_receiver_that_drops_bounds_the_search_and_is_named() -> None:
    found = search(SimulatedRouter(600_000, receiver_limit_pps=90_000)).bounds(PDR_LOSS_RATIO)
    assert found.lower_pps == pytest.approx(90_000, rel=0.01)
    assert found.upper_is_testers


def test_the_limit_of_a_router_is_not_put_down_to_the_testers() -> None:
    found = search(SimulatedRouter(60_000, sender_limit_pps=90_000, receiver_limit_pps=80_000)).bounds(PDR_LOSS_RATIO)
    assert found.lower_pps == pytest.approx(60_000, rel=0.01)
    assert not found.upper_is_testers


@pytest.mark.parametrize("limit_pps", [7_300, 61_000])
def test_stalls_of_the_sender_are_not_put_down_to_the_path(limit_pps: int) -> None:
    routers = [SimulatedRouter(limit_pps, sender_stall_probability=0.3, random=Random(seed)) for seed in range(10)]
    runs = [search(router) for router in routers]
    found = [run.bounds(PDR_LOSS_RATIO).lower_pps or 0 for run in runs]
    assert sum(abs(pps / limit_pps - 1) <= 0.01 for pps in found) >= 9, found
    assert any(point.is_repeated for run in runs for point in run.points)
    assert all(len(run.points) == len(router.trials) for run, router in zip(runs, routers, strict=True))


def test_a_sender_that_always_stalls_is_not_waited_for() -> None:
    router = SimulatedRouter(20_000, sender_stall_probability=1.0)
    run = search(router)
    assert (run.bounds(PDR_LOSS_RATIO).lower_pps or 0) < 100, "where a hundredth of the packets is none"
    runs_of_repeats = "".join("r" if point.is_repeated else "." for point in run.points).split(".")
    assert {len(repeats) for repeats in runs_of_repeats} == {0, 2, 3}


@pytest.mark.parametrize("even_share", [1.0, 0.997])
def test_an_even_sender_is_enough_and_what_it_did_not_send_is_not_claimed(even_share: float) -> None:
    router = SimulatedRouter(20_000, burst_packets=0, sender_even_share=even_share)
    run = search(router)
    assert all(point.is_even for point in run.points)
    assert run.bounds(NDR_LOSS_RATIO).lower_pps == pytest.approx(20_000, rel=0.006)
    assert (run.bounds(NDR_LOSS_RATIO).lower_pps or 0) <= 20_000


def test_a_sender_that_cannot_be_even_catches_up_and_is_not_always_asked_for_it() -> None:
    router = SimulatedRouter(20_000, sender_even_share=0.7)
    run = search(router)
    assert run.bounds(NDR_LOSS_RATIO).lower_pps == pytest.approx(20_000, rel=0.01)
    even = [point for point in run.points if point.is_even]
    assert len(even) == 3
    assert all(point.is_repeated for point in even)


@pytest.mark.parametrize("strict_share", [1.0, 0.96], ids=["quiet", "interrupted"])
@pytest.mark.parametrize("seed", range(3))
def test_a_path_that_loses_each_burst_is_searched_without_bursts(strict_share: float, seed: int) -> None:
    router = SimulatedRouter(
        41_000, burst_packets=0, loses_bursts=True, sender_strict_share=strict_share, random=Random(seed)
    )
    run = search(router, HIGHEST_PPS * (1 + seed / 10))
    found = run.bounds(NDR_LOSS_RATIO).lower_pps or 0
    assert strict_share * 41_000 * 0.99 <= found <= 41_000
    assert run.trial_s <= 15


@pytest.mark.parametrize("stall_probability", [0.0, 0.1], ids=["steady", "stalling"])
@pytest.mark.parametrize("overload_share", [1.0, 1.2])
def test_losses_of_a_path_that_bears_bursts_are_not_put_down_to_them(
    stall_probability: float, overload_share: float
) -> None:
    """Some routers forward more packets when they are overloaded than they can forward without loss."""
    runs = [
        search(
            SimulatedRouter(
                41_000 * overload_share,
                knee_share=1 / overload_share,
                knee_loss_ratio=0.02,
                sender_even_share=0.996,
                sender_strict_share=0.96,
                stall_probability=stall_probability,
                random=Random(seed),
            )
        )
        for seed in range(10)
    ]
    found = [run.bounds(PDR_LOSS_RATIO).lower_pps or 0 for run in runs]
    assert sum(abs(pps / 41_000 - 1) <= 0.01 for pps in found) >= 9, found
    assert median(run.trial_s for run in runs) <= 15


def test_a_load_above_what_the_testers_can_send_does_not_end_even_trials() -> None:
    run = search(SimulatedRouter(20_000, sender_limit_pps=90_000))
    assert run.points[-1].is_even


class Clock:
    """Time that passes only while load is offered."""

    def __init__(self, router: SimulatedRouter) -> None:
        self.router = router

    def monotonic(self) -> float:
        return sum(point.duration_s for point in self.router.trials)


@pytest.mark.parametrize("limit_s", [0.1, 0.6, 1.1, 2.1, 4.1])
def test_bounds_are_returned_when_time_runs_out(monkeypatch: pytest.MonkeyPatch, limit_s: float) -> None:
    router = SimulatedRouter(20_000)
    monkeypatch.setattr("tunnelbench.measure.search.time", Clock(router))
    run = search(router, time_limit_s=limit_s)
    assert not run.is_complete
    assert f"after {limit_s:g} s" in run.ended
    assert run.points == tuple(router.trials)
    found = run.bounds(PDR_LOSS_RATIO)
    assert found.upper_pps is not None
    assert found.upper_pps >= 20_000
    assert found.lower_pps is None or found.lower_pps <= 20_000 / (1 - PDR_LOSS_RATIO) + 25


ROUTERS = st.builds(
    SimulatedRouter,
    limit_pps=st.floats(50, 5e5),
    burst_packets=st.integers(0, 100),
    knee_share=st.floats(0.5, 1),
    knee_loss_ratio=st.floats(0, 0.02),
    random_loss_ratio=st.sampled_from([0.0, 0.0, 1e-5, 0.003]),
    stall_probability=st.sampled_from([0.0, 0.05, 0.3]),
    noise=st.sampled_from([0.0, 0.01, 0.1]),
    sender_stall_probability=st.sampled_from([0.0, 0.0, 0.2]),
    sender_limit_pps=st.sampled_from([1e12, 30_000.0]),
    receiver_limit_pps=st.sampled_from([1e12, 20_000.0]),
    random=st.integers(0, 2**32).map(Random),
)
GOALS = st.sampled_from([NDR_LOSS_RATIO, PDR_LOSS_RATIO])


@settings(deadline=None, max_examples=60)
@given(ROUTERS)
def test_the_bounds_are_those_of_mlrsearch_itself(router: SimulatedRouter) -> None:
    from MLRsearch import MultipleLossRatioSearch

    returned: list[Any] = []
    original = MultipleLossRatioSearch.search

    def remembered(self: Any, *arguments: Any, **keywords: Any) -> Any:
        returned.append(original(self, *arguments, **keywords))
        return returned[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MultipleLossRatioSearch, "search", remembered)
        run = search(router)
    for goal, result in returned[0].items():
        found = run.bounds(goal.loss_ratio)
        if result.relevant_lower_bound is not None:
            assert found.lower is not None
            assert found.lower.intended_pps == float(result.relevant_lower_bound)
        if result.relevant_upper_bound is not None:
            assert found.upper_pps == float(result.relevant_upper_bound)


POINTS = st.lists(
    st.builds(
        SearchPoint,
        duration_s=st.sampled_from([0.25, 1.0]),
        intended_pps=st.sampled_from([100.0, 200.0, 300.0, 400.0]),
        intended_packets=st.just(1000),
        offered_packets=st.sampled_from([1000, 1000, 1000, 999, 900]),
        forwarded_packets=st.sampled_from([1000, 1000, 998, 996, 990, 100]),
        receiver_dropped_packets=st.sampled_from([0, 0, 0, 3]),
    ),
    max_size=12,
)


@given(POINTS, GOALS)
def test_a_lower_bound_was_carried_and_lies_below_the_upper_one(points: list[SearchPoint], loss_ratio: float) -> None:
    found = bounds(points, loss_ratio, Classification())
    if found.lower is not None:
        assert found.lower in points
        assert found.lower.satisfies(loss_ratio)
        assert found.upper_pps is None or found.lower.intended_pps < found.upper_pps
    if found.upper_pps is not None:
        assert any(p.intended_pps == found.upper_pps and not p.satisfies(loss_ratio) for p in points)
    if points:
        assert found.lower is not None or found.upper_pps is not None


@given(POINTS)
def test_what_is_carried_without_loss_is_carried_with_some(points: list[SearchPoint]) -> None:
    strict, loose = (bounds(points, ratio, Classification()) for ratio in (NDR_LOSS_RATIO, PDR_LOSS_RATIO))
    if strict.upper_pps is None:
        assert loose.upper_pps is None
    if strict.lower_pps is not None and loose.lower_pps is not None and loose.upper_pps is not None:
        assert loose.upper_pps > strict.lower_pps or strict.upper_pps is None
