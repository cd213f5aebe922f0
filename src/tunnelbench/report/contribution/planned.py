"""Compares a contributed run with its plan: the plan's text says which trials a whole run has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import CALIBRATION_KIND, Test, TrialSpec
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.text import counted, printable

PlannedTrials = Callable[[RunRecord], Sequence[TrialSpec]]
"""Returns the trials of the plan that a run has stored. Raises WrongInput if it cannot be read."""

LONGEST_BETWEEN = timedelta(days=1)
"""Longest time between the time in a run's id and its start: a guest may have to be fetched, and clocks are set."""


def of_plan(run: RunRecord, records: Sequence[TrialRecord], planned_trials: PlannedTrials) -> Iterator[str]:
    """Yield where a run differs from the plan that its file has, each as a sentence without a full stop."""
    try:
        planned = {spec.sequence: spec for spec in planned_trials(run)}
    except WrongInput as error:
        yield f"its plan cannot be read: {error.message.splitlines()[0]}"
        return
    recorded = {record.spec.sequence: record.spec for record in records}
    if run.trials_planned != len(planned):
        yield f"it states {counted(run.trials_planned, 'planned trial')}, and its plan has {len(planned)}"
    if lacking := sorted(planned.keys() - recorded.keys()):
        first = planned[lacking[0]]
        yield (
            f"it lacks {len(lacking)} of the {counted(len(planned), 'trial')} of its plan, such as trial "
            f"{lacking[0]}, {first.tunnel.name} in round {first.round}"
        )
    if added := sorted(recorded.keys() - planned.keys()):
        yield f"its plan does not have {counted(len(added), 'trial')} of it, such as trial {added[0]}"
    differing = [
        (number, why)
        for number in sorted(planned.keys() & recorded.keys())
        if (why := _difference(planned[number], recorded[number]))
    ]
    if differing:
        number, why = differing[0]
        yield f"{counted(len(differing), 'trial')} of it contradict its plan, such as trial {number}: {why}"


def of_baseline(records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield the first throughput of TCP through a tunnel that no trial without a tunnel can be compared with."""
    counting = [record.spec for record in records if record.counts and record.spec.test is Test.TCP]
    measured = [spec for spec in counting if spec.tunnel.kind != CALIBRATION_KIND]
    bases = {(spec.payload_bytes, spec.direction) for spec in measured if not spec.tunnel.has_tunnel}
    for spec in measured:
        if (spec.payload_bytes, spec.direction) not in bases:
            yield (
                f"{spec.tunnel.name}, {spec.payload_bytes} {spec.direction.label}: no trial without a tunnel counts, "
                "and the share of the baseline is unknown"
            )
            return


def of_start(run: RunRecord, original_id: str) -> Iterator[str]:
    """Yield if the time in the id of a run is not that of its start."""
    found = re.match(r"(\d{8}-\d{6})-", original_id)
    try:
        named = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC) if found else None
        started = datetime.fromisoformat(run.started_at)
    except ValueError:
        yield f"its id {printable(original_id)[:60]} or its start has no valid time"
        return
    if named is not None and abs(named - started) > LONGEST_BETWEEN:
        yield f"its id has the date {named:%Y-%m-%d}, and it started on {started:%Y-%m-%d}"


def _difference(planned: TrialSpec, recorded: TrialSpec) -> str:
    """Return what a trial has otherwise than its plan; empty if it is the same.

    Options that only one of both has do not count: another version of the program has other defaults.
    """
    facts = {
        "the tunnel": (planned.tunnel.name, recorded.tunnel.name),
        "the kind": (planned.tunnel.kind, recorded.tunnel.kind),
        "the round": (planned.round, recorded.round),
        "the payload": (planned.payload_bytes, recorded.payload_bytes),
        "the direction": (planned.direction.label, recorded.direction.label),
        "the test": (planned.test.value, recorded.test.value),
        "the load": (planned.load or "none", recorded.load or "none"),
    }
    options: Mapping[str, object] = recorded.tunnel.options
    facts |= {
        f"the option {name}": (_plain(value), _plain(options[name]))
        for name, value in planned.tunnel.options.items()
        if name in options
    }
    return next(
        (f"{what} is {other}, and the plan has {own}" for what, (own, other) in facts.items() if own != other), ""
    )


def _plain(value: object) -> str:
    return json.dumps(value, default=str).strip('"')
