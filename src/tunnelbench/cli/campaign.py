"""`tunnelbench campaign`: submit a campaign, and evaluate all its runs together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tunnelbench.analysis.campaign import campaign_rows
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side
from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit, emit_json, error_text, json_option, open_store
from tunnelbench.cli.layout import columns, drawn
from tunnelbench.cli.plans import load_plan
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.report import chosen_format, format_options, write_sheet
from tunnelbench.cli.run_lock import new_run_id
from tunnelbench.cli.submit import say_unserved
from tunnelbench.host.parsing import UNREADABLE
from tunnelbench.model.result import RunRecord
from tunnelbench.plan.campaign import read_campaign
from tunnelbench.report.campaign import (
    Campaign,
    CampaignRun,
    campaign_data,
    campaign_sheet,
    campaign_summary,
    campaign_title,
)

if TYPE_CHECKING:
    from tunnelbench.racks.queue import QueuedJob
    from tunnelbench.store.store import Store


@click.group()
def command() -> None:
    """Submit plans for several testbeds as one campaign, and evaluate all its runs together."""


@command.command()
@click.argument("file", type=click.Path())
@log_options
@json_option
@queue_option
def submit(file: str, location: str, *, as_json: bool) -> None:
    """Submit the campaign in FILE: each of its plans as one job for each testbed and repetition.

    The jobs are interleaved: each plan is on each testbed once before anything is repeated. A campaign with an error in
    a plan is refused as a whole.
    """
    spec = read_campaign(file)
    loaded = {reference: load_plan(reference) for reference in spec.plans}
    from tunnelbench.racks.campaign import CampaignSubmission, PlanOfJob  # noqa: PLC0415 - only jobs need Procrastinate
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - the same

    plans = {
        reference: PlanOfJob(Path(each.plan.name).name, each.text, each.plan.expected_duration_s())
        for reference, each in loaded.items()
    }
    submission = CampaignSubmission(spec, plans, new_run_id)
    with JobQueue.open(location) as queue:
        unserved = queue.unserved(spec.testbeds)
        submitted = queue.submit(submission)
    if as_json:
        jobs = [{"job": job_id, "testbed": testbed, "run_id": run_id} for job_id, testbed, run_id in submitted]
        emit_json({"campaign": spec.name, "jobs": jobs})
    else:
        first, last = submitted[0][0], submitted[-1][0]
        emit(f"campaign {spec.name}: {len(submitted)} jobs, {first} to {last}\n")
    say_unserved(unserved)


@command.command()
@click.argument("name")
@log_options
@json_option
@queue_option
def status(name: str, location: str, *, as_json: bool) -> None:
    """Report how far campaign NAME is, and name each run that is missing or gives no value, with its reason."""
    found = campaign_of(name, location)
    if as_json:
        emit_json(campaign_data(found))
        return
    rows = [
        (run.plan, run.testbed, str(run.repetition), run.run_id, run.why_missing)
        for run in (*found.missing, *found.without_figure)
    ]
    head = "".join(f"{line}\n" for line in (campaign_title(found), *campaign_summary(found)))
    table = drawn(columns(rows, ("plan", "testbed", "repetition", "run", "remark"), numbers=(2,)))
    emit(head + (f"\n{table}" if rows else ""))


@command.command()
@click.argument("name")
@format_options
@queue_option
def report(name: str, format_name: str | None, output: str | None, location: str, *, as_json: bool) -> None:
    """Write one table over all runs of campaign NAME, with its testbeds side by side, and the missing runs."""
    chosen = chosen_format(format_name, as_json=as_json)
    found = campaign_of(name, location, with_rows=True)
    write_sheet(campaign_sheet(found), chosen, output)


def campaign_of(name: str, location: str, *, with_rows: bool = False) -> Campaign:
    """Return a campaign as the queue and the store know it; its rows only on request."""
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only jobs need Procrastinate

    with JobQueue.open(location) as queue:  # refuses another store before it is opened
        jobs = sorted(queue.campaign(name), key=lambda job: job.job_id)
    testbeds = tuple(dict.fromkeys(job.testbed for job in jobs))
    with open_store(location) as store:
        stored = {run.run_id: run for run in store.runs(only=[job.run_id for job in jobs])}
        sides, unreadable = sides_of(store, jobs, stored) if with_rows else ({}, {})
    runs = (campaign_run(job, stored.get(job.run_id), unreadable.get(job.run_id, "")) for job in jobs)
    return Campaign(name, testbeds, tuple(runs), tuple(campaign_rows(sides, testbeds)))


def campaign_run(job: QueuedJob, run: RunRecord | None, unreadable: str = "") -> CampaignRun:
    """Return a job of a campaign with what the store knows of its run."""
    return CampaignRun(
        plan=job.plan,
        testbed=job.testbed,
        repetition=job.repetition,
        run_id=job.run_id,
        state=job.state,
        trials_recorded=run.trials_recorded if run else 0,
        trials_planned=run.trials_planned if run else None,
        reason=job.reason,
        is_simulated=run is not None and run.is_simulated,
        unreadable=unreadable,
    )


def sides_of(
    store: Store, jobs: Iterable[QueuedJob], stored: dict[str, RunRecord]
) -> tuple[dict[tuple[str, str], list[Side]], dict[str, str]]:
    """Return the stored runs of each pair of plan and testbed as sides of a comparison, and the errors of the others.

    Workers can store values that lead to an error in a calculation. Such a run is left out; its id leads to its error.
    """
    found: dict[tuple[str, str], list[Side]] = {}
    unreadable: dict[str, str] = {}
    for job in jobs:
        if run := stored.get(job.run_id):
            place = (job.plan, job.testbed)
            try:
                side = side_of_run(run, store.trials(run.run_id, with_raw=False))
                campaign_rows({place: [side]}, [job.testbed])  # its medians can be calculated, too
            except UNREADABLE as error:
                unreadable[run.run_id] = error_text(error)
            else:
                found.setdefault(place, []).append(side)
    return found, unreadable
