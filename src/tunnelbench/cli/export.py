"""`tunnelbench export`: write a stored run into one file to share."""

from __future__ import annotations

from pathlib import Path

import click

from tunnelbench.cli.common_options import emit, open_store, read_store_option
from tunnelbench.cli.completion import run_names
from tunnelbench.cli.report import write_whole
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.text import counted, printable
from tunnelbench.report.exchange import Exported, export
from tunnelbench.report.exchange.anonymise import RAW

EXAMPLES = 3
LONGEST_EXAMPLE = 40


@click.command()
@click.argument("run", default="last", shell_complete=run_names)
@click.option("-o", "output", metavar="FILE", help="Write to a file, completely or not at all.")
@read_store_option
def command(run: str, output: str | None, store_location: str | None) -> None:
    """Write RUN as one JSON file to share, without what identifies people, machines and networks.

    Addresses, host names, serial numbers, MAC addresses, user names, home folders, keys and the output of programs are
    left out. Standard error lists how often each was left out. RUN is `last`, a run's id, or the beginning of one.
    """
    with open_store(store_location) as store:
        found = store.run(run)
        records, speeds = store.trials(found.run_id), store.cipher_speeds(found.run_id)
        soaks = len(store.soaks(found.run_id).all())
    exported = export(found, records, speeds)
    say_left_out(exported, f"run {found.run_id}: {counted(len(records), 'trial')}")
    if soaks:
        say(f"the file has the trials of {counted(soaks, 'soak')} without series: report --format series writes those")
    say("read the file before you share it: a name that is an ordinary word is not recognised")
    if output is None or output == "-":
        emit(exported.text)
    else:
        write_whole(Path(output), exported.text)


def say_left_out(exported: Exported, what: str) -> None:
    """Print which names were removed from a file, with examples; `what` describes the file."""
    say(f"{what}; left out:" if exported.stripped else f"{what}; nothing was left out")
    for kind, names in exported.stripped.items():
        count = sum(number for _, number in names)
        examples = ", ".join(printable(name)[:LONGEST_EXAMPLE] for name, _ in names[:EXAMPLES])
        kinds = "names of it" if kind == RAW else "different"
        say(f"  {kind}: {counted(count, 'time')}, {len(names)} {kinds}, such as {examples}")
