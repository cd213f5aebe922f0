"""The highest load that a path forwards, found by asking for trials and knowing nothing else (rule 20).

MLRsearch (FD.io, draft-ietf-bmwg-mlrsearch) looks for all loss ratios at once: plain bisection is not repeatable on a
software router.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, Classification, SearchPoint, SearchRun

Measure = Callable[[float, float], SearchPoint]
"""Offers a load for a duration: `measure(duration_s, offered_pps)`."""


class Search(Protocol):
    """A way to find the bounds."""

    def find(self, measure: Measure, highest_pps: float) -> SearchRun:
        """Ask for trials up to a load until the bounds are known, or until it has taken too long."""


@dataclass(frozen=True)
class MlrSearch:
    """MLRsearch 1.2.1 for NDR and PDR.

    Two of three trials decide about a load, so that a single stall of a shared machine does not. Against simulated
    routers, hard limits of 7,300, 20,000 and 61,000 packets/s unknown to it, PDR came within 0.6 % of the limit in all
    of 60 searches and took 7.5 to 8.8 trial seconds in the median, 8.5 to 10.2 where one second in ten stalled. With
    single trials stalls led 1 search of 60 more than 1 % astray.
    """

    loss_ratios: Sequence[float] = (NDR_LOSS_RATIO, PDR_LOSS_RATIO)
    classification: Classification = field(default_factory=Classification)
    initial_trial_s: float = 0.25
    relative_width: float = 0.005
    lowest_pps: float = 10.0
    time_limit_s: float = 120.0
    """After so long no further trial is started, and the bounds are those of the trials made."""

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
            ended = f"no bounds within {self.relative_width:.1%} of each other in {self.time_limit_s:g} s"
        return SearchRun(tuple(measurer.points), ended, self.classification)


REPEATS = 2
"""A trial that a stall of the sender spoilt is made again at most so often; then it counts as it is."""

FALLING_SHORT_SHARE = 0.95
"""Of the intended packets: who offers fewer has not stalled, but cannot do more."""


class _OutOfTime(Exception):
    """The search has taken as long as it may."""


class _Measurer:
    """What MLRsearch asks (its AbstractMeasurer by shape); remembers each trial for when time runs out."""

    def __init__(self, measure: Measure, highest_loss_ratio: float, deadline_s: float) -> None:
        self.points: list[SearchPoint] = []
        self._measure = measure
        self._highest_loss_ratio = highest_loss_ratio
        self._deadline_s = deadline_s

    def measure(self, intended_duration: float, intended_load: float) -> object:
        from MLRsearch import MeasurementResult  # noqa: PLC0415 - as above

        point = self._steady(intended_duration, intended_load)
        offered, lost = point.offered_packets, point.lost_packets
        if point.is_void:
            # Bad for every goal, by as much as was not offered or not received: the search goes on with lower loads.
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
        """A trial whose losses are not those of a sender that makes up for a stall in a burst; all are remembered."""
        for attempt in range(REPEATS + 1):
            if time.monotonic() >= self._deadline_s:
                raise _OutOfTime
            point = self._measure(duration_s, offered_pps)
            again = attempt < REPEATS and _was_spoilt(point)
            self.points.append(replace(point, is_repeated=again))
            if not again:
                break
        return point


def _was_spoilt(point: SearchPoint) -> bool:
    has_offered = point.offered_packets >= point.intended_packets * FALLING_SHORT_SHARE
    return point.stalls > 0 and has_offered and (point.lost_packets > 0 or point.is_short)
