"""The kernel functions and programs in which a router of fixed speed executes its instructions, tunnel by tunnel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from statistics import median

from tunnelbench.analysis.summary import trials_by_row
from tunnelbench.model.counters import Window
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord

MOST_REPORTED_PLACES = 200
"""Largest number of places of one tunnel; a trial of ours has fewer."""


@dataclass(frozen=True)
class InstructionPlaces:
    """The places of a router's instructions for one tunnel, payload and direction."""

    tunnel: TunnelSpec
    payload_bytes: int
    direction: Direction
    traffic: str
    """The kind of its trials in words, as in TrialSpec.what."""
    trials: int
    data_packets_per_s: float
    """Median over the trials."""
    shares: Mapping[str, float]
    """Share of the router's instructions at each place (as in Window), median over the trials, largest first."""


def instruction_places(records: Sequence[TrialRecord]) -> tuple[InstructionPlaces, ...]:
    """Return the places of the instructions, in the order of the plan.

    Of the loads of one tunnel, payload and direction, the one with the most packets per second is kept.
    """
    found: dict[tuple[str, int, Direction], InstructionPlaces] = {}
    for group in trials_by_row(records).values():
        spec = group[0].spec
        windows = [window for record in group if record.counts and (window := _window(record)) is not None]
        if not windows or spec.tunnel.kind == CALIBRATION_KIND:
            continue
        packets_per_s = median(window.data_packets / window.duration_s for window in windows)
        key = spec.tunnel.name, spec.payload_bytes, spec.direction
        if key not in found or packets_per_s > found[key].data_packets_per_s:
            found[key] = InstructionPlaces(
                tunnel=spec.tunnel,
                payload_bytes=spec.payload_bytes,
                direction=spec.direction,
                traffic=spec.what,
                trials=len(windows),
                data_packets_per_s=packets_per_s,
                shares=_median_shares(windows),
            )
    return tuple(found.values())


def _window(record: TrialRecord) -> Window | None:
    """Return the window of a trial whose instructions were counted by place."""
    window = record.tcp.window if record.tcp else record.udp.window if record.udp else None
    return window if window and window.router_instruction_shares else None


def _median_shares(windows: Sequence[Window]) -> Mapping[str, float]:
    """Return the median shares of the MOST_REPORTED_PLACES places with the most instructions, largest first.

    The work grows with the number of shares alone, also if each trial of an imported run has other places.
    """
    found: dict[str, list[float]] = {}
    for window in windows:
        for place, share in window.router_instruction_shares.items():
            found.setdefault(place, []).append(share)
    medians = {place: _median_with_zeros(shares, len(windows)) for place, shares in found.items()}
    return dict(nsmallest(MOST_REPORTED_PLACES, medians.items(), key=lambda each: (-each[1], each[0])))


def _median_with_zeros(shares: Sequence[float], count: int) -> float:
    """Return the median of `count` shares, of which those that are not given are 0."""
    zeros = count - len(shares)
    if zeros > len(shares):
        return 0.0
    return median([0.0] * zeros + [*shares])
