#!/usr/bin/env python3
"""Print which share of a stored run's time was traffic, and what took the rest, as tables.

    .venv/bin/python benches/run.py [RUN] [--store PATH]

RUN is a name of `tunnelbench list runs`, or `last`. Nothing is measured: the times come from the store.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from tunnelbench.cli.common_options import open_store
from tunnelbench.model.errors import UserError
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.soak import Soak
from tunnelbench.model.step import STEPS_KEY, Step

BLOCK_STEPS = (Step.BRING_UP, Step.REACH, Step.SETTLE, Step.PROOF, Step.WARM_UP, Step.TAKE_DOWN)
"""Steps of a tunnel that do not belong to one trial."""

TRAFFIC, BESIDE, QUIET, OTHER = "traffic", "in trials, beside their traffic", "waits for quiet", "other"
TEXTS = {
    Step.BRING_UP: "bring tunnels up",
    Step.REACH: "prove that data get through",
    Step.SETTLE: "wait until tunnels settle",
    Step.PROOF: "prove tunnels",
    Step.WARM_UP: "warm up",
    Step.TAKE_DOWN: "take tunnels down",
    Step.PROOF_AFTER: "prove tunnels again after trials",
}


def seconds_between(start: str, end: str) -> float:
    """Return the time between two moments in ISO 8601 [s]."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def traffic_s(trial: TrialRecord, soaks: Mapping[int, Soak]) -> float:
    """Return for how long a trial offered timed traffic [s]; `soaks` has the soaks of the run by trial number."""
    if soak := soaks.get(trial.spec.sequence):
        return sum(part.counts.duration_s for part in soak.parts if part.counts)
    udp = trial.udp
    if udp is None:
        return trial.tcp.duration_s if trial.tcp else 0.0
    parts = [run.trial_s for run in udp.searches] + [point.duration_s for point in udp.points]
    return sum(parts) + (udp.counts.duration_s if udp.counts else 0.0)


def steps_s(trial: TrialRecord) -> Mapping[str, float]:
    """Return the stored durations of the steps up to the end of a trial [s]; empty if the run is older than these."""
    found = trial.raw.get(STEPS_KEY)
    return found if isinstance(found, dict) else {}


def causes(trials: Iterable[TrialRecord], soaks: Mapping[int, Soak], wall_s: float) -> dict[str, float]:
    """Return the seconds of a run by their cause; the sum is `wall_s`."""
    found: dict[str, float] = defaultdict(float)
    for trial in trials:
        steps, offered_s = steps_s(trial), traffic_s(trial, soaks)
        proof_after_s = steps.get(Step.PROOF_AFTER, 0.0)
        found[TRAFFIC] += offered_s
        found[TEXTS[Step.PROOF_AFTER]] += proof_after_s
        if trial.measurement is not None:
            found[BESIDE] += seconds_between(trial.started_at, trial.ended_at) - offered_s - proof_after_s
        found[QUIET] += trial.waited_for_quiet_s or 0.0
        for step in BLOCK_STEPS:
            found[TEXTS[step]] += steps.get(step, 0.0)
    found[OTHER] = wall_s - sum(found.values())
    return found


def tunnel_rows(trials: Sequence[TrialRecord], soaks: Mapping[int, Soak]) -> list[tuple[str, ...]]:
    """Return for each tunnel the medians of the steps of its blocks, and of the time beside the traffic of a trial."""
    blocks: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    beside: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        if trial.measurement is None or not trial.spec.round:
            continue
        if Step.PROOF in steps_s(trial):
            blocks[trial.spec.tunnel.name].append(steps_s(trial))
        whole_s = seconds_between(trial.started_at, trial.ended_at)
        beside[trial.spec.tunnel.name].append(whole_s - traffic_s(trial, soaks))
    # The time to take a tunnel down is stored with the next trial, which often belongs to another tunnel.
    shown = BLOCK_STEPS[:-1]
    rows = []
    for name, times_s in beside.items():
        steps = [median_text(block.get(step, 0.0) for block in blocks[name]) for step in shown]
        rows.append((name, *steps, median_text(times_s)))
    return rows


def median_text(seconds: Iterable[float]) -> str:
    """Return a median [s] as text; empty if there are no values."""
    values = [*seconds]
    return f"{statistics.median(values):.2f}" if values else ""


def print_columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as a Markdown table."""
    print("|", " | ".join(head), "|\n|", " | ".join("---" for _ in head), "|", sep="")
    for row in rows:
        print("|", " | ".join(row), "|")


def main() -> None:
    """Print the tables of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="last")
    parser.add_argument("--store", type=Path, help="file of the store")
    given = parser.parse_args()
    try:
        with open_store(given.store, marks_killed=False) as store:
            run = store.run(given.run)
            trials = store.trials(run.run_id)
            soaks = {soak.spec.sequence: soak for soak in store.soaks(run.run_id).all()}
    except UserError as error:
        sys.exit(f"{error}")
    if run.ended_at is None:
        sys.exit(f"the run {run.run_id} has not ended")
    wall_s = seconds_between(run.started_at, run.ended_at)
    found = causes(trials, soaks, wall_s)
    print(f"{run.run_id}, plan {run.plan_name}: {wall_s:.0f} s, {len(trials)} trials\n")
    rows = [
        (cause, f"{spent_s:.1f}", f"{spent_s / wall_s:.1%}")
        for cause, spent_s in sorted(found.items(), key=itemgetter(1), reverse=True)
    ]
    print_columns(("cause", "s", "share"), rows)
    print("\nMedians of one tunnel at a time [s], and of the time beside the traffic of a trial:\n")
    print_columns(("tunnel", *BLOCK_STEPS[:-1], "trial"), tunnel_rows(trials, soaks))


if __name__ == "__main__":
    main()
