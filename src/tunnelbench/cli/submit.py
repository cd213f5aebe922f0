"""`tunnelbench submit`: submit a plan as jobs for racks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit, emit_json, json_option
from tunnelbench.cli.completion import plan_names
from tunnelbench.cli.plans import load_plan
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.run_lock import new_run_id
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import joined, printable
from tunnelbench.plan.schema import long_duration

if TYPE_CHECKING:
    from tunnelbench.racks.queue import Submission
    from tunnelbench.racks.schedule import Schedule


@click.command()
@click.argument("plan", shell_complete=plan_names)
@click.option("--on", "testbeds", metavar="NAME,NAME...", required=True, help="Testbeds, as their workers name them.")
@click.option("--repeat", "repetitions", type=click.IntRange(1, 10_000), default=1, help="Runs on each testbed.")
@click.option("--priority", type=click.IntRange(-1000, 1000), default=0, help="Jobs with a higher one come first.")
@click.option("--deadline", metavar="TIME", help="Do not begin a job later than this after it is due: 90m, 12h, 7d.")
@click.option("--every", "cron", metavar="CRON", help='Submit again and again: "0 2 * * *" is each night at 2 h UTC.')
@log_options
@json_option
@queue_option
def command(  # noqa: PLR0917 - click hands them over by name
    plan: str,
    testbeds: str,
    repetitions: int,
    priority: int,
    deadline: str | None,
    cron: str | None,
    location: str,
    *,
    as_json: bool,
) -> None:
    """Submit PLAN (a name or a file) as one job for each testbed and repetition.

    The text of the plan goes into the queue; the testbed file stays on the machine of the rack. A plan with an error is
    refused. With --every, a worker of the testbed makes the jobs at each time of the schedule, until
    `tunnelbench cancel --schedule` removes it.
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
        deadline_s=None if deadline is None else deadline_seconds(deadline),
    )
    if cron is not None:
        submit_schedules(submission, cron, location, as_json=as_json)
        return
    with JobQueue.open(location) as queue:
        unserved = queue.unserved(submission.testbeds)
        submitted = queue.submit(submission)
    if as_json:
        emit_json([{"job": job_id, "testbed": testbed, "run_id": run_id} for job_id, testbed, run_id in submitted])
    else:
        emit("".join(f"job {job_id}: run {run_id} on {testbed}\n" for job_id, testbed, run_id in submitted))
    say_unserved(unserved)


def say_unserved(testbeds: Sequence[str]) -> None:
    """Print which testbeds no worker has served so far: a name may be misspelt."""
    if testbeds:
        say(f"note: no worker has taken a job for {joined(testbeds)} yet")
        say("hint: on the rack, tunnelbench worker --testbed NAME")


def deadline_seconds(words: str) -> float:
    """Return a duration such as `12h` in seconds. Raises WrongInput."""
    try:
        return long_duration(words)
    except ValueError as error:
        raise WrongInput(f"--deadline: {error}", "such as --deadline 12h") from None


def submit_schedules(submission: Submission, cron: str, location: str, *, as_json: bool) -> None:
    """Store a schedule for each testbed, and print when each is due first."""
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only jobs need Procrastinate
    from tunnelbench.racks.schedule import add_schedules  # noqa: PLC0415 - the same

    with JobQueue.open(location) as queue:
        unserved = queue.unserved(submission.testbeds)
        made = add_schedules(queue, submission, cron)
    if as_json:
        emit_json([vars(schedule) | {"next_due": schedule.next_due.isoformat()} for schedule in made])
    else:
        emit("".join(f"{schedule_text(schedule)}\n" for schedule in made))
    say_unserved(unserved)


def schedule_text(schedule: Schedule) -> str:
    """Describe a schedule in one line."""
    times = f", {schedule.repetitions} times" if schedule.repetitions > 1 else ""
    due = schedule.next_due.astimezone(UTC)
    return printable(
        f'schedule {schedule.schedule_id}: {schedule.plan} on {schedule.testbed}{times}, every "{schedule.cron}" UTC, '
        f"next at {due:%Y-%m-%d %H:%M}"
    )
