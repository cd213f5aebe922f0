"""The results of a campaign: each row of each plan on each testbed, with one value for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tunnelbench.analysis.compare.comparison import (
    ALPHA,
    SMALLEST,
    TESTED_FROM,
    ComparisonVerdict,
    difference_verdict,
)
from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow
from tunnelbench.analysis.mann_whitney import mann_whitney
from tunnelbench.analysis.statistics import Estimate, estimate, median

FIRST_FIGURES = (
    ComparedFigure.THROUGHPUT,
    ComparedFigure.PDR,
    ComparedFigure.CARRIED,
    ComparedFigure.DELAY_P50,
    ComparedFigure.HANDSHAKES,
    ComparedFigure.GAP,
    ComparedFigure.CONNECTIONS,
    ComparedFigure.OPEN,
)
"""Figures of a campaign's table: a row has the first of these that it knows, and the CPU time."""


@dataclass(frozen=True)
class DeviceFigure:
    """A figure of one row on one testbed."""

    testbed: str
    runs: Estimate | None = None
    """Median and spread of the medians of the runs; None: no run has this figure."""
    values: tuple[float, ...] = ()
    """Median of each run, in the order of the repetitions."""
    is_lower_bound: bool = False
    """True if the testers, not the router, were the limit in a run."""
    is_doubtful: bool = False
    """True if a check of a run's trials is doubtful."""
    is_simulated: bool = False
    """True if a model drew the values, and nothing was measured."""
    compared_with: str = ""
    """Testbed that `ratio` and `verdict` refer to: the first one whose figures are as real; empty: none."""
    ratio: float | None = None
    """Median over that of the other testbed."""
    verdict: ComparisonVerdict | None = None


@dataclass(frozen=True)
class CampaignRow:
    """A figure of one row of a plan on all testbeds."""

    plan: str
    tunnel: str
    payload_bytes: int | None
    direction: str
    test: str
    figure: ComparedFigure
    devices: tuple[DeviceFigure, ...]
    """One entry for each testbed of the campaign, in its order."""


def campaign_rows(sides: Mapping[tuple[str, str], Sequence[Side]], testbeds: Sequence[str]) -> list[CampaignRow]:
    """Return the rows of a campaign. `sides` has the runs of each pair of plan and testbed, by repetition.

    A row is a tunnel by kind, name and options, with its payload, direction and test. Trials of one run share what
    happened during the run, so each run gives one value, the median of its trials that count.
    """
    values: dict[_Key, dict[str, list[tuple[Side, SideRow]]]] = {}
    for (plan, testbed), runs in sides.items():
        for side in runs:
            for row in side.rows:
                for figure in _figures(row):
                    of_row = values.setdefault(_Key(plan, figure, _identity(row)), {})
                    of_row.setdefault(testbed, []).append((side, row))
    return [_row(key, by_testbed, testbeds) for key, by_testbed in values.items()]


class _Key(NamedTuple):
    """A figure of a row of a plan."""

    plan: str
    figure: ComparedFigure
    row: tuple[object, ...]


def _identity(row: SideRow) -> tuple[object, ...]:
    return row.kind, row.name, tuple(sorted((key, str(value)) for key, value in row.options.items())), row.place


def _figures(row: SideRow) -> list[ComparedFigure]:
    rates = [figure for figure in FIRST_FIGURES if figure in row.figures]
    return [*rates[:1], *([ComparedFigure.COST] if ComparedFigure.COST in row.figures else [])]


def _row(key: _Key, found: Mapping[str, Sequence[tuple[Side, SideRow]]], testbeds: Sequence[str]) -> CampaignRow:
    devices = [_device(testbed, found.get(testbed, ()), key.figure) for testbed in testbeds]
    first: dict[bool, DeviceFigure] = {}
    for device in devices:
        if device.runs is not None:
            first.setdefault(device.is_simulated, device)
    compared = [_compared(device, first.get(device.is_simulated), key.figure) for device in devices]
    row = next(row for own in found.values() for _, row in own)
    return CampaignRow(
        key.plan, row.name, row.payload_bytes, row.direction, row.test, key.figure, tuple(compared)
    )  # fmt: skip


def _device(testbed: str, found: Sequence[tuple[Side, SideRow]], figure: ComparedFigure) -> DeviceFigure:
    if not found:
        return DeviceFigure(testbed)
    values = tuple(median([*row.figures[figure].values()]) for _, row in found)
    return DeviceFigure(
        testbed,
        estimate(values),
        values,
        is_lower_bound=figure.is_rate and any(row.is_tester_limited for _, row in found),
        is_doubtful=any(row.remarks for _, row in found),
        is_simulated=any(side.is_simulated for side, _ in found),
    )


def _compared(device: DeviceFigure, first: DeviceFigure | None, figure: ComparedFigure) -> DeviceFigure:
    """Return the figures of a testbed with ratio and verdict against the first testbed."""
    if first is None or first is device or not (device.runs and first.runs) or first.runs.median <= 0:
        return device
    ratio = device.runs.median / first.runs.median
    verdict = _verdict(device, first, ratio, figure)
    return replace(device, compared_with=first.testbed, ratio=ratio, verdict=verdict)


def _verdict(device: DeviceFigure, first: DeviceFigure, ratio: float, figure: ComparedFigure) -> ComparisonVerdict:
    """Judge as `compare` does, with runs in place of trials."""
    if device.runs and first.runs and device.runs.ties_with(first.runs):
        return ComparisonVerdict.TIE
    lower = device if ratio < 1 else first
    if lower.is_lower_bound:
        return ComparisonVerdict.UNDECIDED
    if min(len(device.values), len(first.values)) < TESTED_FROM:
        return ComparisonVerdict.HIGHER if ratio > 1 else ComparisonVerdict.LOWER
    if mann_whitney(device.values, first.values) > ALPHA or abs(ratio - 1) < SMALLEST:
        return ComparisonVerdict.TIE
    return difference_verdict(figure, ratio)
