"""`tunnelbench worker`: run the jobs for the testbeds of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.completion import testbed_names
from tunnelbench.cli.queue_options import queue_option
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.trust import require_trusted
from tunnelbench.model.errors import WrongInput
from tunnelbench.plan import read_testbed
from tunnelbench.testbed import KINDS


@click.command()
@click.option(
    "--testbed", "references", metavar="NAME|FILE", multiple=True, required=True, shell_complete=testbed_names,
    help="Testbed of this machine; a file serves jobs for its name without .toml.",
)  # fmt: skip
@click.option("--until-empty", is_flag=True, help="End when no job waits.")
@log_options
@queue_option
def command(references: tuple[str, ...], location: str, *, until_empty: bool) -> None:
    """Take jobs for the testbeds of this machine, one at a time, until a signal ends the worker.

    A job whose worker is gone continues here if its testbed is one of these. A job that fails is tried three times.
    """
    from tunnelbench.racks.queue import JobQueue, require_testbed_name  # noqa: PLC0415 - only jobs need Procrastinate
    from tunnelbench.racks.worker import RackWorker, run_worker  # noqa: PLC0415 - the same

    testbeds: dict[str, str] = {}
    for reference in references:
        is_file = "/" in reference or reference.endswith(".toml")
        if is_file:  # it is read again for each job, and may name programs and hosts
            require_trusted(Path(reference).absolute(), "the testbed file")
        read_testbed(reference, KINDS)
        name = Path(reference).name.removesuffix(".toml")
        require_testbed_name(name)
        if name in testbeds:
            raise WrongInput(f"--testbed names {name} twice", "give each testbed a name of its own")
        testbeds[name] = str(Path(reference).absolute()) if is_file else reference
    with JobQueue.open(location):
        pass  # a wrong URL or a database without a queue is an error at once
    say(f"worker for {', '.join(testbeds)}")
    run_worker(RackWorker(location, testbeds, say), until_empty=until_empty)
