"""Searches the highest load that a path forwards, with a function that makes one trial at a given load (rule 20).

MLRsearch (FD.io, draft-ietf-bmwg-mlrsearch) searches for all loss ratios together. Plain bisection gives different
results each time on a software router.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tunnelbench.model.search import (
    EVEN_TOLERANCE,
    NDR_LOSS_RATIO,
    PDR_LOSS_RATIO,
    CatchUp,
    Classification,
    SearchPoint,
    SearchRun,
)


class Measure(Protocol):
    """A function that offers a load for a duration and returns what arrived."""

    def __call__(self, duration_s: float, offered_pps: float, *, catch_up: CatchUp) -> SearchPoint:
        """Offer a load; `catch_up` says how the sender continues after a delay."""


class Search(Protocol):
    """A search method for the highest load within each loss ratio."""

    def find(self, measure: Measure, highest_pps: float) -> SearchRun:
        """Make trials at loads up to `highest_pps` until lower and upper bounds are close enough, or time is over."""


@dataclass(frozen=True)
class MlrSearch:
    """MLRsearch 1.2.1 for NDR and PDR.

    Two of three trials decide about a load, so that a single stall of a shared machine has no effect. It was tested
    with simulated routers with hard limits of 7,300, 20,000 and 61,000 packets/s. PDR came within 0.6 % of the limit in
    all of 60 searches. A search took 7.5 to 8.8 trial seconds in the median, and 8.5 to 10.2 if one second in ten
    stalled. With single trials, stalls caused an error above 1 % in 1 search of 60.
    """

    loss_ratios: Sequence[float] = (NDR_LOSS_RATIO, PDR_LOSS_RATIO)
    classification: Classification = field(default_factory=Classification)
    initial_trial_s: float = 0.25
    relative_width: float = 0.005
    lowest_pps: float = 10.0
    time_limit_s: float = 120.0
    """Time after which a search starts no further trial [s]; its bounds then come from the trials so far."""

    def find(self, measure: Measure, highest_pps: float) -> SearchRun:
        from MLRsearch import Config, MultipleLossRatioSearch, SearchGoal  # noqa: PLC0415 - 0.2 s

        measurer = _Measurer(
            measure, max(self.loss_ratios), time.monotonic() + self.time_limit_s, self.classification.final_trial_s
        )
        config = Config()
        config.goals = [
            SearchGoal(
                loss_ratio=loss_ratio,
                exceed_ratio=self.classification.exceed_ratio,
                relative_width=self.relative_width,
                initial_trial_duration=min(self.initial_trial_s, self.classification.final_trial_s),
                final_trial_duration=self.classification.final_trial_s,
                duration_sum=self.classification.duration_sum_s,
                preceding_targets=2,
                expansion_coefficient=2,
                fail_fast=False,  # no lower bound is an answer, not an error
            )
            for loss_ratio in self.loss_ratios
        ]
        config.min_load = min(self.lowest_pps, highest_pps / 2)
        config.max_load = highest_pps
        config.warmup_duration = 0.0  # the tunnel is warm (rule 23)
        config.search_duration_max = self.time_limit_s + 3600  # the measurer keeps the time: it can say when
        ended = ""
        try:
            MultipleLossRatioSearch(config).search(measurer, debug=lambda _: None)
        except _OutOfTime:
            ended = f"bounds more than {self.relative_width:.1%} apart after {self.time_limit_s:g} s"
        return SearchRun(tuple(measurer.points), ended, self.classification)


REPEATS = 2
"""Number of times that a trial is repeated because the sender stalled; the last trial counts in any case."""

MOST_SHORT_TRIALS = 3
"""Number of trials in which a sender that leaves packets out may send too few although one that catches up with all of
them does not; after it, only the latter sends."""

ENOUGH_SHARE = 0.99
"""Share of the intended packets; if a sender that leaves packets out sends fewer, a trial with one that catches up
follows."""

MOST_STRICT_TRIALS = 3
"""Number of trials with a sender that never catches up after which short bursts are known to lose no packets."""

BELOW_FORWARDED_SHARE = 0.98
"""Share of the highest rate that has arrived: a path that loses packets at a lower load may lose them to bursts."""

MUCH_LESS_SHARE = 0.5
"""Share of a trial's lost packets; if a sender that never catches up loses fewer, bursts may be the cause."""

CHECKED_SHARE = 0.9
"""Share of the load that a sender without bursts offered, at which a short burst still loses packets if they are the
cause, and its highest load is not."""

FALLING_SHORT_SHARE = 0.95
"""Share of the intended packets that were sent; below it the sender is too slow, and the trial is not repeated."""


class _OutOfTime(Exception):
    """Raised inside a search when its time limit has passed."""


class _Measurer:
    """The measurer that MLRsearch calls (like its AbstractMeasurer). It keeps each trial, in case time runs out."""

    def __init__(self, measure: Measure, highest_loss_ratio: float, deadline_s: float, full_trial_s: float) -> None:
        self.points: list[SearchPoint] = []
        self._measure = measure
        self._highest_loss_ratio = highest_loss_ratio
        self._deadline_s = deadline_s
        self._full_trial_s = full_trial_s
        self._short_trials = 0
        self._strict_trials = 0
        self._catch_up = CatchUp.BRIEF
        """Behaviour of the sender of the first attempt at a load after a delay."""
        self._highest_arrived_pps = 0.0

    def measure(self, intended_duration: float, intended_load: float) -> object:
        from MLRsearch import MeasurementResult  # noqa: PLC0415 - as above

        point = self._steady(intended_duration, intended_load)
        offered, lost = point.offered_packets, point.lost_packets
        if point.is_void:
            # Bad for every goal, by as much as was not offered or not received. The search continues with lower loads.
            offered = max(point.intended_packets, offered)
            least = math.floor(offered * self._highest_loss_ratio) + 1
            lost = min(offered, max(least, offered - point.forwarded_packets))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=offered,
            loss_count=lost,
            duration_with_overheads=intended_duration,
        )

    def _steady(self, duration_s: float, offered_pps: float) -> SearchPoint:
        """Repeat a trial if its sender sent too few packets or stalled, or if its bursts may have lost packets; all
        trials are kept.

        The sender of the first attempt leaves out most of what a delay has cost, because a path with a limiter drops
        packets of a burst. If that sender shares its CPU with much other work, it sends too few packets; in the next
        attempts the sender catches up. An attempt whose sender catches up is repeated if the burst after a stall lost
        packets.
        """
        tries_first = self._catch_up.is_even
        if tries_first:
            point = self._attempt(duration_s, offered_pps, self._catch_up)
            if _has_offered(point, 1 - EVEN_TOLERANCE if self._catch_up is CatchUp.NEVER else ENOUGH_SHARE):
                return self._without_bursts(point) if self._may_be_a_burst(point) else point
            self._say_nothing_of(point)
        for attempt in range(REPEATS + 1):
            point = self._attempt(duration_s, offered_pps, CatchUp.FULL)
            if attempt == REPEATS or not _has_stalled(point):
                break
            self._say_nothing_of(point)
        self._short_trials += tries_first and not point.is_short
        if self._short_trials == MOST_SHORT_TRIALS:
            self._catch_up = CatchUp.FULL
        return point

    def _may_be_a_burst(self, point: SearchPoint) -> bool:
        """Return True if a path that has forwarded more lost packets of a sender that catches up a little."""
        is_open = self._catch_up is CatchUp.BRIEF and self._strict_trials < MOST_STRICT_TRIALS
        below = point.intended_pps < BELOW_FORWARDED_SHARE * self._highest_arrived_pps
        return is_open and below and point.lost_packets > 0

    def _without_bursts(self, point: SearchPoint) -> SearchPoint:
        """Find out if the short bursts of a trial's sender have lost its packets, and return the trial that counts.

        If a sender that never catches up loses much less at this load, and one that does loses some even below the load
        that the first one offered, then the bursts are the cause, and no further trial has any.
        """
        strict = self._attempt(point.duration_s, point.intended_pps, CatchUp.NEVER)
        if strict.is_short or strict.lost_packets > point.lost_packets * MUCH_LESS_SHARE:
            self._strict_trials += 1
        elif self._loses_bursts_at(strict.carried_pps * CHECKED_SHARE):
            self._catch_up = CatchUp.NEVER
            self._say_nothing_of(point)
            return strict
        else:
            self._strict_trials = MOST_STRICT_TRIALS
        self._say_nothing_of(strict)
        return point

    def _loses_bursts_at(self, offered_pps: float) -> bool:
        """Return True if the path loses packets of a sender that catches up a little. Its bursts may be rare."""
        for _ in range(REPEATS):
            point = self._attempt(self._full_trial_s, offered_pps, CatchUp.BRIEF)
            self._say_nothing_of(point)
            if point.lost_packets:
                return True
        return False

    def _attempt(self, duration_s: float, offered_pps: float, catch_up: CatchUp) -> SearchPoint:
        if time.monotonic() >= self._deadline_s:
            raise _OutOfTime
        point = self._measure(duration_s, offered_pps, catch_up=catch_up)
        self._highest_arrived_pps = max(self._highest_arrived_pps, point.forwarding_rate_pps)
        self.points.append(point)
        return point

    def _say_nothing_of(self, point: SearchPoint) -> None:
        """Mark a trial that was made as one that says nothing about the path."""
        self.points = [replace(each, is_repeated=True) if each is point else each for each in self.points]


def _has_offered(point: SearchPoint, share: float) -> bool:
    return point.offered_packets >= point.intended_packets * share


def _has_stalled(point: SearchPoint) -> bool:
    has_offered = _has_offered(point, FALLING_SHORT_SHARE)
    return point.stalls > 0 and has_offered and (point.lost_packets > 0 or point.is_short)
