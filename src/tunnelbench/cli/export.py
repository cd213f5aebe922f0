"""`tunnelbench export`: a stored run as one file to pass on."""

from __future__ import annotations

from pathlib import Path

import click

from tunnelbench.cli.output import emit, open_store, store_option
from tunnelbench.cli.report import write_whole
from tunnelbench.cli.telling import say
from tunnelbench.model.text import printable
from tunnelbench.report.exchange import export
from tunnelbench.report.exchange.strip import RAW

EXAMPLES = 3
LONGEST_EXAMPLE = 40


@click.command()
@click.argument("run")
@click.option("-o", "output", metavar="FILE", help="Write it into a file, whole or not at all.")
@store_option
def command(run: str, output: str | None, store_location: str | None) -> None:
    """Write RUN as one JSON file to pass on, without what names people, machines and networks.

    Addresses, host names, serial numbers, MAC addresses, user names, home folders, keys and the output of programs are
    left out; standard error says first how much of each. RUN: `last`, a run's id, or the beginning of one.
    """
    with open_store(store_location) as store:
        found = store.run(run)
        records, speeds = store.trials(found.run_id), store.cipher_speeds(found.run_id)
        soaks = len(store.soaks(found.run_id).all())
    exported = export(found, records, speeds)
    say(f"run {found.run_id}: {len(records)} trials; left out:" if exported.stripped else "nothing was left out")
    for kind, names in exported.stripped.items():
        count = sum(number for _, number in names)
        examples = ", ".join(printable(name)[:LONGEST_EXAMPLE] for name, _ in names[:EXAMPLES])
        kinds = "names of it" if kind == RAW else "different"
        say(f"  {kind}: {count} times, {len(names)} {kinds}, such as {examples}")
    if soaks:
        say(f"the series of {soaks} soak(s) are not in the file, only their trials: report --format series has them")
    say("look through the file before you pass it on: a name that looks like a word is not recognised")
    if output is None or output == "-":
        emit(exported.text)
    else:
        write_whole(Path(output), exported.text)
