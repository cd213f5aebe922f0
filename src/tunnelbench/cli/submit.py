"""`tunnelbench submit`: submit a plan as jobs for racks."""

from __future__ import annotations

from pathlib import Path

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit, emit_json, json_option
from tunnelbench.cli.completion import plan_names
from tunnelbench.cli.plans import load_plan
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.run_lock import new_run_id


@click.command()
@click.argument("plan", shell_complete=plan_names)
@click.option("--on", "testbeds", metavar="NAME,NAME...", required=True, help="Testbeds, as their workers name them.")
@click.option("--repeat", "repetitions", type=click.IntRange(1, 10_000), default=1, help="Runs on each testbed.")
@click.option("--priority", type=click.IntRange(-1000, 1000), default=0, help="Jobs with a higher one come first.")
@log_options
@json_option
@queue_option
def command(plan: str, testbeds: str, repetitions: int, priority: int, location: str, *, as_json: bool) -> None:
    """Submit PLAN (a name or a file) as one job for each testbed and repetition.

    The text of the plan goes into the queue; the testbed file stays on the machine of the rack. A plan with an error is
    refused.
    """
    loaded = load_plan(plan)
    from tunnelbench.racks.queue import JobQueue, Submission  # noqa: PLC0415 - only jobs need Procrastinate

    submission = Submission(
        plan_name=Path(loaded.plan.name).name,
        plan_text=loaded.text,
        testbeds=testbeds.split(","),
        repetitions=repetitions,
        priority=priority,
        expected_s=loaded.plan.expected_duration_s(),
        new_run_id=new_run_id,
    )
    with JobQueue.open(location) as queue:
        submitted = queue.submit(submission)
    if as_json:
        emit_json([{"job": job_id, "testbed": testbed, "run_id": run_id} for job_id, testbed, run_id in submitted])
    else:
        emit("".join(f"job {job_id}: run {run_id} on {testbed}\n" for job_id, testbed, run_id in submitted))
