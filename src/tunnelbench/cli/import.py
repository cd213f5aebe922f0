"""`tunnelbench import`: store a run that was measured on another machine."""
# ruff: noqa: N999 - a verb's module has its name, and is never imported by a statement

from __future__ import annotations

import click

from tunnelbench.cli.common_options import emit, open_store, store_option
from tunnelbench.cli.run_files import read_exported
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import counted, printable

SHOWN = 10


@click.command()
@click.argument("file")
@store_option
def command(file: str, store_location: str | None) -> None:
    """Store the run in FILE, a file from `tunnelbench export`, and mark it as imported; `-` is standard input.

    TunnelBench first checks the shape, the checksum and the figures, and prints the findings. `report`, `compare` and
    `list runs` can then use the run. `last` remains the last run that this machine measured.
    """
    found = read_exported(file)
    run = found.run
    with open_store(store_location, create=True) as store:
        try:
            store.add_run(run, found.records, found.speeds)
        except ValueError:
            raise WrongInput(
                f"{printable(file)}: this run is already stored as {run.run_id}", f"tunnelbench report {run.run_id}"
            ) from None
    counting = sum(record.counts for record in found.records)
    say(
        f"checksum and shape are correct: {counted(len(found.records), 'trial')}, {counting} of them with valid figures"
    )
    if found.stripped:
        said = ", ".join(f"{printable(kind)} {count}" for kind, count in found.stripped.items())
        say(f"left out by the export: {said}")
    say(f"the author is unknown; written by TunnelBench {printable(found.written_by) or 'of unknown version'}")
    for each in found.doubtful[:SHOWN]:
        say(f"doubtful: {printable(each)}")
    if len(found.doubtful) > SHOWN:
        say(f"and {len(found.doubtful) - SHOWN} more doubtful figures")
    if not found.doubtful:
        say("the audit found no error in the figures")
    emit(f"{run.run_id}\n")
