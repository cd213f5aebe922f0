"""Formats a campaign: one table over all its runs, the missing runs, and the comparison of its testbeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.analysis.campaign import CampaignRow, DeviceFigure
from tunnelbench.analysis.compare.comparison import ALPHA, SMALLEST, TESTED_FROM, ComparisonVerdict
from tunnelbench.analysis.number_format import significant, with_range
from tunnelbench.model.json_types import plain
from tunnelbench.model.plan import direction_label
from tunnelbench.model.result import NO_VALID_FIGURE
from tunnelbench.model.text import are, counted, joined
from tunnelbench.report.facts import SIMULATED_IN_CAPITALS
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import VERDICT, Sheet

MEDIANS = (
    "Each run gives one value, the median of its trials that count. The table has the median of these values with the "
    f"spread of the runs: smallest and largest of fewer than {TESTED_FROM}, else the bootstrap interval."
)
COMPARED = (
    "Each testbed is compared with the first one. faster, slower, cheaper, dearer: the spreads are apart, p of the"
    f" exact Mann-Whitney test over the runs is at most {ALPHA:g}, there are {TESTED_FROM} runs or more of each, and"
    f" the medians differ by {SMALLEST:.0%} or more. higher, lower: the spreads are apart, "
    "but there are too few runs to exclude chance."
)
WITHOUT_FIGURE = "Runs without a valid figure"
MOST_DEVICE_COLUMNS = 6
"""Largest number of testbeds that are columns of the table; more testbeds are rows."""

MARKS = "≥: lower bound, because the testers were the limit. ?: a check of a trial is doubtful."


@dataclass(frozen=True)
class CampaignRun:
    """One job of a campaign, with its run as far as it is stored."""

    plan: str
    testbed: str
    repetition: int
    run_id: str
    state: str
    """State of the job, such as `waiting` or `done`."""
    trials_recorded: int
    trials_planned: int | None
    """Number of trials of the plan; None: the run has not begun."""
    reason: str
    """Reason of the last failure, or NO_VALID_FIGURE if the run is whole and none of its trials counts; else empty."""
    is_simulated: bool = False
    unreadable: str = ""
    """Error that a calculation with its values gives, so that the table does not have them; empty if there is none."""

    @property
    def is_whole(self) -> bool:
        """True if the run has ended and has all its trials, and their values can be read."""
        return self.state == "done" and self.trials_recorded == self.trials_planned and not self.unreadable

    @property
    def is_without_figure(self) -> bool:
        """True if the run is whole and none of its trials counts, so that it gives no value."""
        return self.is_whole and self.reason == NO_VALID_FIGURE

    @property
    def name(self) -> str:
        """Plan, testbed and repetition in words."""
        return f"{self.plan} on {self.testbed}, repetition {self.repetition}"

    @property
    def why_missing(self) -> str:
        """Reason for which the run is not whole, or gives no value, in words."""
        if self.is_without_figure:
            return f"{self.reason}: tunnelbench show {self.run_id}"
        if self.unreadable:
            return f"run {self.run_id} is left out: it holds values that no run has ({self.unreadable})"
        if self.state == "done":
            return f"ended with {self.trials_recorded} of {self.trials_planned} trials"
        begun = (
            "" if self.trials_planned is None else f", {self.trials_recorded} of {self.trials_planned} trials stored"
        )
        return f"{self.state}{begun}{': ' * bool(self.reason)}{self.reason}"


@dataclass(frozen=True)
class Campaign:
    """The runs of a campaign and its rows."""

    name: str
    testbeds: tuple[str, ...]
    runs: tuple[CampaignRun, ...]
    rows: tuple[CampaignRow, ...] = ()

    @property
    def missing(self) -> list[CampaignRun]:
        return [run for run in self.runs if not run.is_whole]

    @property
    def without_figure(self) -> list[CampaignRun]:
        return [run for run in self.runs if run.is_without_figure]

    @property
    def states(self) -> dict[str, int]:
        """Number of jobs in each state."""
        return dict(Counter(run.state for run in self.runs))

    @property
    def silent_testbeds(self) -> list[str]:
        """Testbeds of which no run is stored."""
        heard = {run.testbed for run in self.runs if run.trials_planned is not None}
        return [testbed for testbed in self.testbeds if testbed not in heard]

    @property
    def stalled_testbeds(self) -> list[str]:
        """Testbeds with a job whose worker is gone."""
        return list(dict.fromkeys(run.testbed for run in self.runs if run.state == "stalled"))

    @property
    def simulated_testbeds(self) -> list[str]:
        return list(dict.fromkeys(run.testbed for run in self.runs if run.is_simulated))


def campaign_title(found: Campaign) -> str:
    """Return the first line, which says if figures are simulated."""
    simulated = found.simulated_testbeds
    measured = {run.testbed for run in found.runs if run.trials_planned is not None} - set(simulated)
    mark = SIMULATED_IN_CAPITALS if not measured else f"SIMULATED ON {', '.join(simulated)}: NOTHING WAS MEASURED THERE"
    return f"{f'{mark}: ' * bool(simulated)}Campaign {found.name}"


def campaign_summary(found: Campaign) -> Iterator[str]:
    """Yield sentences on how far the campaign is."""
    whole = len(found.runs) - len(found.missing)
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.states.items()))
    yield f"{whole} of {counted(len(found.runs), 'run')} {are(whole)} whole; jobs: {states}."
    if void := len(found.without_figure):
        yield f"Of {void} of them, {NO_VALID_FIGURE}."
    if silent := found.silent_testbeds:
        yield f"No run of {joined(silent)} has begun: is a worker running there?"
    if stalled := found.stalled_testbeds:
        yield f"The worker of {', '.join(stalled)} is gone: its job continues when a worker for it runs again."


def campaign_sheet(found: Campaign) -> Sheet:
    """Return the sheet of a campaign: a row for each figure, and a column for each of a few testbeds."""
    missing = found.missing
    is_wide = len(found.testbeds) <= MOST_DEVICE_COLUMNS
    devices = found.testbeds if is_wide else ("testbed", "runs")
    rows = [line for row in found.rows for line in ([_cells(row)] if is_wide else _lines(row))]
    return Sheet(
        title=campaign_title(found),
        facts=(("Runs", " ".join(campaign_summary(found))),),
        cautions=tuple(_cautions(found)),
        header=("plan", "tunnel", "payload", "direction", "figure", *devices),
        rows=tuple(rows),
        numbers=(2, *(range(5, 5 + len(devices)) if is_wide else (6,))),
        sections=tuple(
            section
            for section in (
                Section(VERDICT, tuple(_verdicts(found.rows))),
                Section("Missing runs", tuple(f"{run.name}: {run.why_missing}" for run in missing)),
                Section(WITHOUT_FIGURE, tuple(f"{run.name}: {run.why_missing}" for run in found.without_figure)),
                Section("How to read it", (MEDIANS, COMPARED, MARKS) if found.rows else ()),
            )
            if section.items
        ),
        data=campaign_data(found),
    )


def campaign_data(found: Campaign) -> dict[str, Any]:
    """Return a campaign for programs."""
    return {
        "is_simulated": bool(found.simulated_testbeds),
        "simulated_testbeds": found.simulated_testbeds,
        "campaign": found.name,
        "testbeds": list(found.testbeds),
        "states": found.states,
        "silent_testbeds": found.silent_testbeds,
        "stalled_testbeds": found.stalled_testbeds,
        "runs": [{**plain(run), "is_whole": run.is_whole} for run in found.runs],
        "without_figure": [run.run_id for run in found.without_figure],
        "missing": [{**plain(run), "why": run.why_missing} for run in found.missing],
        "rows": plain(found.rows),
    }


def _cautions(found: Campaign) -> Iterator[str]:
    if found.simulated_testbeds:
        yield f"A model drew all figures of {', '.join(found.simulated_testbeds)}: no packet was sent there."
    if found.missing:
        yield f"The table is incomplete: {counted(len(found.missing), 'run')} {are(len(found.missing))} missing."


def _cells(row: CampaignRow) -> tuple[str, ...]:
    return (*_row_cells(row), *map(_device_text, row.devices))


def _lines(row: CampaignRow) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a line for each testbed with figures, for a campaign with many testbeds."""
    for device in row.devices:
        if device.runs is not None:
            yield (*_row_cells(row), device.testbed, _device_text(device))


def _row_cells(row: CampaignRow) -> tuple[str, ...]:
    payload = "" if row.payload_bytes is None else str(row.payload_bytes)
    figure = " ".join(filter(None, (row.test, row.figure.value)))
    return (row.plan, row.tunnel, payload, direction_label(row.direction), figure)


def _device_text(device: DeviceFigure) -> str:
    if device.runs is None:
        return "-"
    low, high = (significant(value, like=device.runs.median) for value in (device.runs.low, device.runs.high))
    text = with_range(significant(device.runs.median), low, high)
    verdict = f", {device.verdict}" if device.verdict not in (None, ComparisonVerdict.TIE) else ""
    simulated = ", simulated" if device.is_simulated else ""
    return f"{'≥ ' * device.is_lower_bound}{text}{'?' * device.is_doubtful}{verdict}{simulated}"


def _verdicts(rows: Sequence[CampaignRow]) -> Iterator[str]:
    """Yield how often each testbed differs from the first one, by verdict."""
    counts: dict[tuple[str, str], Counter[ComparisonVerdict]] = {}
    for row in rows:
        for device in row.devices:
            if device.verdict is not None:
                counts.setdefault((device.testbed, device.compared_with), Counter())[device.verdict] += 1
    for (testbed, other), found in counts.items():
        words = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
        yield f"{testbed} against {other}: {counted(sum(found.values()), 'figure')}: {words}."
