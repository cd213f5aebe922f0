"""`tunnelbench cancel`: cancel a job of a rack, or remove a schedule."""

from __future__ import annotations

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput

NUMBER_TYPE = click.IntRange(1, 2**62)


@click.command()
@click.argument("job_id", metavar="[JOB]", type=NUMBER_TYPE, required=False)
@click.option("--schedule", "schedule_id", type=NUMBER_TYPE, metavar="NUMBER", help="Remove a schedule; its jobs stay.")
@log_options
@queue_option
def command(job_id: int | None, schedule_id: int | None, location: str) -> None:
    """Cancel JOB, a number of `tunnelbench jobs`.

    The worker stops a running job within seconds; its stored trials stay in the store.
    """
    if (job_id is None) == (schedule_id is None):
        raise WrongInput("name a job, or a schedule with --schedule", "tunnelbench jobs lists both")
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only the verbs for jobs need Procrastinate
    from tunnelbench.racks.schedule import remove_schedule  # noqa: PLC0415 - the same

    with JobQueue.open(location) as queue:
        if job_id is not None:
            queue.cancel(job_id)
            say(f"job {job_id} is cancelled", err=False)
        elif schedule_id is not None:
            remove_schedule(queue, schedule_id)
            say(f"schedule {schedule_id} is removed", err=False)
