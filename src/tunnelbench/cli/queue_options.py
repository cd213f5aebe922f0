"""Options of the verbs for jobs."""

from __future__ import annotations

import click

queue_option = click.option(
    "--store",
    "location",
    metavar="URL",
    required=True,
    help="Database of the results and jobs, such as postgresql:///?service=NAME, without a password.",
)

job_argument = click.argument("job_id", metavar="JOB", type=click.IntRange(1, 2**62))
