"""`tunnelbench jobs`: list the jobs of racks, or make the tables for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import duration_text, emit, emit_json, forged, json_option, open_store
from tunnelbench.cli.layout import columns, drawn
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.stderr_messages import say
from tunnelbench.cli.submit import schedule_text
from tunnelbench.host.parsing import UNREADABLE
from tunnelbench.model.result import RunRecord
from tunnelbench.model.text import counted

if TYPE_CHECKING:
    from tunnelbench.racks.queue import QueuedJob


MOST_SHOWN = 500
"""Largest number of jobs in the table; JSON has all."""


@click.command()
@click.option("--setup", "sets_up", is_flag=True, help="Make the tables of the store and of the jobs, as their owner.")
@click.option("--all", "with_ended", is_flag=True, help="List jobs that have ended, too.")
@log_options
@json_option
@queue_option
def command(location: str, *, sets_up: bool, with_ended: bool, as_json: bool) -> None:
    """List jobs that wait or run, with their position in the queue of their testbed and the time until they end.

    A job that has failed three times is listed with the reason, until `retry` lets it wait again.
    """
    from tunnelbench.racks.queue import JobQueue, queue_server  # noqa: PLC0415 - only jobs need Procrastinate
    from tunnelbench.racks.schedule import schedules  # noqa: PLC0415 - the same

    queue_server(location)  # refuses another store before it is opened
    with open_store(location, create=sets_up) as store, JobQueue.open(location, create=sets_up) as queue:
        if sets_up:
            say("the tables of the store and of the jobs are there", err=False)
            return
        found = [job for job in queue.jobs() if with_ended or job.state not in {"done", "cancelled"}]
        try:
            runs = {run.run_id: run for run in store.runs(only=[job.run_id for job in found])}
        except UNREADABLE as error:  # each user who may store results could have stored anything
            raise forged("the store that --store names", error) from error
        due = schedules(queue)
    entries = list(described(found, runs))
    if as_json:
        emit_json(entries)
        return
    if entries:
        header = ("job", "state", "position", "time left", "trials", "plan", "testbed", "run", "reason")
        emit(drawn(columns([row(entry) for entry in entries[:MOST_SHOWN]], header, numbers=(0, 2))))
    else:
        say("There are no jobs that wait or run.")
    if len(entries) > MOST_SHOWN:
        say(f"{counted(len(entries) - MOST_SHOWN, 'more job')}: add --json")
    for each in due:
        emit(f"{schedule_text(each)}\n")


def described(jobs: Sequence[QueuedJob], runs: Mapping[str, RunRecord]) -> list[dict[str, Any]]:
    """Return the jobs for programs, with position and time left [s] of those that wait or run."""
    positions: Counter[str] = Counter()
    until_s: defaultdict[str, float] = defaultdict(float)
    entries = []
    for job in jobs:
        run = runs.get(job.run_id)
        entry: dict[str, Any] = {**vars(job), "position": None, "time_left_s": None, "trials": None}
        share_left = 1.0
        if run:
            entry["trials"] = f"{run.trials_recorded}/{run.trials_planned}"
            share_left = 1 - run.trials_recorded / max(run.trials_planned, 1)
        if job.state in {"waiting", "running", "stalled", "stopping"}:  # an expired job takes no time
            until_s[job.testbed] += job.expected_s * share_left
            entry["time_left_s"] = until_s[job.testbed]
        if job.state == "waiting":
            positions[job.testbed] += 1
            entry["position"] = positions[job.testbed]
        entries.append(entry)
    return entries


def row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one job."""
    left_s = entry["time_left_s"]
    return (
        str(entry["job_id"]),
        entry["state"],
        str(entry["position"] or ""),
        "" if left_s is None else duration_text(left_s),
        entry["trials"] or "",
        entry["plan"],
        entry["testbed"],
        entry["run_id"],
        entry["reason"],
    )
