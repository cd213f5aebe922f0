"""`tunnelbench cancel`: cancel a job of a rack."""

from __future__ import annotations

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.queue_options import job_argument, queue_option
from tunnelbench.cli.stderr_messages import say


@click.command()
@job_argument
@log_options
@queue_option
def command(job_id: int, location: str) -> None:
    """Cancel JOB, a number of `tunnelbench jobs`.

    The worker stops a running job within seconds; its stored trials stay in the store.
    """
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only the verbs for jobs need Procrastinate

    with JobQueue.open(location) as queue:
        queue.cancel(job_id)
    say(f"job {job_id} is cancelled", err=False)
