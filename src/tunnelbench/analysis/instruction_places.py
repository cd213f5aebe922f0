"""The kernel functions and programs in which a router of fixed speed executes its instructions, tunnel by tunnel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tunnelbench.analysis.summary import trials_by_row
from tunnelbench.model.counters import Window
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord


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
    names = {name for window in windows for name in window.router_instruction_shares}
    medians = {name: median(window.router_instruction_shares.get(name, 0.0) for window in windows) for name in names}
    return dict(sorted(medians.items(), key=lambda each: (-each[1], each[0])))
