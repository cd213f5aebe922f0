"""`tunnelbench import`: a run that was measured elsewhere, stored beside one's own."""
# ruff: noqa: N999 - a verb's module has its name, and is never imported by a statement

from __future__ import annotations

import click

from tunnelbench.cli.output import open_store, store_option
from tunnelbench.cli.reading import read_exported
from tunnelbench.cli.telling import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable

SHOWN = 10


@click.command()
@click.argument("file")
@store_option
def command(file: str, store_location: str | None) -> None:
    """Store the run in FILE, as `tunnelbench export` wrote it, marked as imported; `-` is standard input.

    Its shape, its checksum and its figures are looked at first, and what was found is said. `report`, `compare` and
    `list runs` then know it; `last` stays the last run that was measured here.
    """
    found = read_exported(file)
    run = found.run
    with open_store(store_location, create=True) as store:
        try:
            store.add_run(run, found.records, found.speeds)
        except ValueError:
            raise WrongInput(
                f"{printable(file)}: it is stored already, as run {run.run_id}", f"tunnelbench report {run.run_id}"
            ) from None
    counting = sum(record.counts for record in found.records)
    say(f"checksum and shape are right: {len(found.records)} trials, {counting} of them count")
    if found.stripped:
        said = ", ".join(f"{printable(kind)} {count}" for kind, count in found.stripped.items())
        say(f"left out where it was exported: {said}")
    say(f"by whom it was measured is not known; written by TunnelBench {printable(found.written_by) or 'not known'}")
    for each in found.doubtful[:SHOWN]:
        say(f"doubtful: {printable(each)}")
    if len(found.doubtful) > SHOWN:
        say(f"and {len(found.doubtful) - SHOWN} more that are doubtful")
    if not found.doubtful:
        say("the audit found nothing wrong in its figures")
    click.echo(run.run_id)
