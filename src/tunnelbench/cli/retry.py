"""`tunnelbench retry`: let a failed or cancelled job wait again."""

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
    """Let JOB, which has failed three times or was cancelled, wait again.

    It continues its run, and measures no trial twice.
    """
    from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only the verbs for jobs need Procrastinate

    with JobQueue.open(location) as queue:
        queue.retry(job_id)
    say(f"job {job_id} waits", err=False)
