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

from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, Classification, SearchPoint, SearchRun


class Measure(Protocol):
    """A function that offers a load for a duration and returns what arrived."""

    def __call__(self, duration_s: float, offered_pps: float, *, is_even: bool) -> SearchPoint:
        """Offer a load. With `is_even`, a sender that was delayed does not catch up: it keeps the time between two
        packets, and sends fewer packets."""


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

        measurer = _Measurer(measure, max(self.loss_ratios), time.monotonic() + self.time_limit_s)
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
"""Number of trials with packets at even distances in which the sender may send too few packets although a sender that
catches up does not; after it, no more such trials are made."""

FALLING_SHORT_SHARE = 0.95
"""Share of the intended packets that were sent; below it the sender is too slow, and the trial is not repeated."""


class _OutOfTime(Exception):
    """Raised inside a search when its time limit has passed."""


class _Measurer:
    """The measurer that MLRsearch calls (like its AbstractMeasurer). It keeps each trial, in case time runs out."""

    def __init__(self, measure: Measure, highest_loss_ratio: float, deadline_s: float) -> None:
        self.points: list[SearchPoint] = []
        self._measure = measure
        self._highest_loss_ratio = highest_loss_ratio
        self._deadline_s = deadline_s
        self._short_trials = 0

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
        """Repeat a trial if its sender sent too few packets or stalled; all trials are kept.

        The sender of the first attempt keeps packets apart after a delay, because a path with a limiter drops packets
        of a burst. If that sender shares its CPU with much other work, it sends too few packets; in the next attempts
        the sender catches up by sending faster after a delay. An attempt whose sender catches up is repeated if the
        burst after a stall lost packets.
        """
        tries_even = self._short_trials < MOST_SHORT_TRIALS
        if tries_even:
            point = self._attempt(duration_s, offered_pps, is_even=True)
            if not point.is_short:
                self.points.append(point)
                return point
            self.points.append(replace(point, is_repeated=True))
        for attempt in range(REPEATS + 1):
            point = self._attempt(duration_s, offered_pps, is_even=False)
            again = attempt < REPEATS and _has_stalled(point)
            self.points.append(replace(point, is_repeated=again))
            if not again:
                break
        self._short_trials += tries_even and not point.is_short
        return point

    def _attempt(self, duration_s: float, offered_pps: float, *, is_even: bool) -> SearchPoint:
        if time.monotonic() >= self._deadline_s:
            raise _OutOfTime
        return self._measure(duration_s, offered_pps, is_even=is_even)


def _has_stalled(point: SearchPoint) -> bool:
    has_offered = point.offered_packets >= point.intended_packets * FALLING_SHORT_SHARE
    return point.stalls > 0 and has_offered and (point.lost_packets > 0 or point.is_short)
