"""A search for the highest load that a path forwards: its trials as counted, and the bounds that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

NDR_LOSS_RATIO = 0.0
"""No drop rate: throughput in the sense of RFC 2544."""
PDR_LOSS_RATIO = 0.005
"""Largest loss ratio of the PDR (partial drop rate): one packet in 200."""

OFFERED_TOLERANCE = 0.001
"""Share of the intended load; if the offered load is lower by more than it, the trial is void for a search (rule 7)."""

EVEN_TOLERANCE = 0.1
"""The same tolerance for a trial whose sender leaves packets out after a delay: the load that it shows to be carried is
the load that it offered."""


class CatchUp(StrEnum):
    """Behaviour of the packet engine's sender after a delay, by the names of its option `--catch-up`."""

    FULL = "full"
    """All packets that are missing leave at twice the rate."""
    BRIEF = "brief"
    """The sender makes up for 50 microseconds or two packets, and leaves out the rest."""
    NEVER = "never"
    """Packets keep the time between them."""

    @property
    def is_even(self) -> bool:
        """True if the sender leaves packets out, as in `SearchPoint.is_even`."""
        return self is not CatchUp.FULL


@dataclass(frozen=True)
class SearchPoint:
    """One trial of a search, or one load of a loss curve: the offered and the forwarded packets."""

    duration_s: float
    """Intended duration [s]."""
    intended_pps: float
    intended_packets: int
    offered_packets: int
    """Packets sent."""
    forwarded_packets: int
    """Packets that arrived in time, each counted once."""
    receiver_dropped_packets: int = 0
    """Packets that arrived at the receiving tester and that its socket dropped; the router did not lose them (rule
    9)."""
    stalls: int = 0
    """Number of times that the sender was late by more than a millisecond; unless `is_even`, it then sends faster than
    intended."""
    is_repeated: bool = False
    """True if packets were lost or missing because the sender had a stall or was too slow, so that the load was
    measured again. This trial then says nothing about the path (rule 8)."""
    is_even: bool = False
    """True if the sender, after a delay, left packets out instead of catching up with all of them."""

    @property
    def lost_packets(self) -> int:
        """Packets lost on the path."""
        return max(0, self.offered_packets - self.forwarded_packets - self.receiver_dropped_packets)

    @property
    def loss_ratio(self) -> float:
        """Packets lost on the path divided by packets offered, 0 to 1."""
        return self.lost_packets / self.offered_packets if self.offered_packets else 0.0

    @property
    def forwarding_rate_pps(self) -> float:
        """Packets that arrived, per second in which load was offered."""
        return self.forwarded_packets / self.duration_s

    @property
    def is_short(self) -> bool:
        """True if less was offered than intended (rule 7)."""
        tolerance = EVEN_TOLERANCE if self.is_even else OFFERED_TOLERANCE
        return self.offered_packets < self.intended_packets * (1 - tolerance)

    @property
    def carried_pps(self) -> float:
        """The load that the path is shown to carry [packets/s]: the intended load, reduced if fewer packets were
        sent."""
        offered_share = self.offered_packets / self.intended_packets if self.intended_packets else 1.0
        return self.intended_pps * min(1.0, offered_share)

    @property
    def is_void(self) -> bool:
        """True if a tester, and not the path, determined the result; the trial then says nothing about the router."""
        return self.is_short or self.receiver_dropped_packets > 0

    def satisfies(self, loss_ratio: float) -> bool:
        """Return True if at most the given share was lost, and the testers offered the intended load."""
        return not self.is_void and self.loss_ratio <= loss_ratio


@dataclass(frozen=True)
class Classification:
    """The settings of an MLRsearch goal, equal for all loss ratios, that decide when a load counts as carried.

    The words are those of draft-ietf-bmwg-mlrsearch: a load is a lower bound when bad trials take at most
    `exceed_ratio` of `duration_sum_s`. Trials shorter than `final_trial_s` weigh less.
    """

    final_trial_s: float = 1.0
    duration_sum_s: float = 3.0
    exceed_ratio: float = 0.5


@dataclass(frozen=True)
class Bounds:
    """The bounds that a search found for one loss ratio; None: no trial shows this bound."""

    lower: SearchPoint | None
    """The best trial of the longest duration at the highest load that was carried."""
    upper_pps: float | None
    """The lowest load that was not carried [packets/s]."""
    upper_is_testers: bool = False
    """True if the testers, and not the path, failed at the upper bound; the path may carry more."""

    @property
    def lower_pps(self) -> float | None:
        """The highest offered load that was carried [packets/s]."""
        return None if self.lower is None else self.lower.carried_pps

    @property
    def relative_width(self) -> float | None:
        """Difference of the bounds divided by the upper bound; None: a bound is missing."""
        if self.lower is None or self.upper_pps is None:
            return None
        return (self.upper_pps - self.lower.intended_pps) / self.upper_pps


@dataclass(frozen=True)
class SearchRun:
    """One search: every trial in the order in which it was made."""

    points: tuple[SearchPoint, ...]
    ended: str = ""
    """Reason for which the search ended before its bounds were close enough; empty if they were."""
    classification: Classification = field(default_factory=Classification)

    @property
    def is_complete(self) -> bool:
        return not self.ended

    @property
    def trial_s(self) -> float:
        """Time in which the search offered load [s]."""
        return sum(point.duration_s for point in self.points)

    def bounds(self, loss_ratio: float) -> Bounds:
        """The tightest bounds that the trials give for a loss ratio."""
        return bounds(self.points, loss_ratio, self.classification)


def lower_bounds(searches: Iterable[SearchRun], loss_ratio: float) -> list[float]:
    """Return the highest load that each search found to be carried [packets/s]; searches without one are left out."""
    return [pps for run in searches if (pps := run.bounds(loss_ratio).lower_pps) is not None]


def bounds(points: Iterable[SearchPoint], loss_ratio: float, rule: Classification) -> Bounds:
    """The tightest bounds that some trials give.

    The upper bound is the lowest load that was not carried. The lower bound is the highest carried load below the upper
    bound, so that a trial that passed by chance at a higher load does not count. If a search ended before enough trials
    decided a load, the majority of its trials at that load decides; the lower bound then lies below each load at which
    most trials failed.
    """
    by_load: dict[float, list[SearchPoint]] = {}
    for point in points:
        if not point.is_repeated:
            by_load.setdefault(point.intended_pps, []).append(point)
    loads = sorted(by_load)
    settled = {load: _settled(by_load[load], loss_ratio, rule) for load in loads}
    upper = next((load for load in loads if settled[load] is False), None)
    lower = max((load for load in loads if settled[load] and (upper is None or load < upper)), default=None)
    if upper is None:
        above = [load for load in loads if lower is None or load > lower]
        upper = next((load for load in above if not _majority(by_load[load], loss_ratio)), None)
    if lower is None:
        below = takewhile(lambda load: load != upper and _majority(by_load[load], loss_ratio), loads)
        lower = max(below, default=None)
    best = None if lower is None else _best(by_load[lower], loss_ratio)
    return Bounds(best, upper, upper is not None and _is_testers(by_load[upper], loss_ratio))


def _settled(trials: Sequence[SearchPoint], loss_ratio: float, rule: Classification) -> bool | None:
    """Return True if a load is carried, False if not, None if further trials could still change the result."""
    good_s = bad_s = short_good_s = short_bad_s = 0.0
    for trial in trials:
        is_good, is_long = trial.satisfies(loss_ratio), trial.duration_s >= rule.final_trial_s
        good_s += trial.duration_s * (is_good and is_long)
        bad_s += trial.duration_s * (not is_good and is_long)
        short_good_s += trial.duration_s * (is_good and not is_long)
        short_bad_s += trial.duration_s * (not is_good and not is_long)
    balance = rule.exceed_ratio / (1 - rule.exceed_ratio)
    bad_s += max(0.0, short_bad_s - short_good_s * balance)
    whole_s = max(good_s + bad_s, rule.duration_sum_s)
    allowed_s = whole_s * rule.exceed_ratio
    at_best, at_worst = bad_s <= allowed_s, whole_s - good_s <= allowed_s
    return at_best if at_best == at_worst else None


def _majority(trials: Sequence[SearchPoint], loss_ratio: float) -> bool:
    """Return True if at least half of the longest trials at a load were good."""
    longest_s = max(trial.duration_s for trial in trials)
    longest = [trial.satisfies(loss_ratio) for trial in trials if trial.duration_s >= longest_s]
    return sum(longest) * 2 >= len(longest)


def _best(trials: Sequence[SearchPoint], loss_ratio: float) -> SearchPoint:
    good = [trial for trial in trials if trial.satisfies(loss_ratio)]
    return max(good, key=lambda trial: (trial.duration_s, -trial.loss_ratio))


def _is_testers(trials: Sequence[SearchPoint], loss_ratio: float) -> bool:
    """Return True if all failed trials failed because of the testers, not because of the path."""
    failed = [trial for trial in trials if not trial.satisfies(loss_ratio)]
    return all(trial.is_void and trial.loss_ratio <= loss_ratio for trial in failed)
