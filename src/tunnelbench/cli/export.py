"""`tunnelbench export`: write a stored run into one file to share, or into files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tunnelbench.cli.common_options import emit, open_store, read_store_option
from tunnelbench.cli.completion import run_names
from tunnelbench.cli.report import write_files, write_whole
from tunnelbench.cli.run_files import RUN_FORMAT
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.text import are, counted, printable
from tunnelbench.report.exchange import Exported, export
from tunnelbench.report.exchange.anonymise import RAW
from tunnelbench.report.exchange.bencher import bencher_metrics
from tunnelbench.report.exchange.flent_files import flent_files, is_exported

FLENT, BENCHER = "flent", "bencher"
EXAMPLES = 3
LONGEST_EXAMPLE = 40


@click.command()
@click.argument("run", default="last", shell_complete=run_names)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([RUN_FORMAT, FLENT, BENCHER]),
    default=RUN_FORMAT,
    help="run: for import and site; flent: data files of Flent; bencher: JSON for Bencher.  [default: run]",
)
@click.option("-o", "output", metavar="FILE", help="Write to a file, or with --format flent into a folder.")
@read_store_option
def command(run: str, format_name: str, output: str | None, store_location: str | None) -> None:
    """Write RUN as one JSON file to share, without what identifies people, machines and networks.

    Addresses, host names, serial numbers, MAC addresses, user names, home folders, keys and the output of programs are
    left out. Standard error lists how often each was left out. RUN is `last`, a run's id, or the beginning of one.

    Other programs get figures alone: --format flent writes a file for each TCP trial into the folder that -o names, and
    --format bencher writes the medians of all rows.
    """
    if format_name == FLENT and output in {None, "-"}:
        raise WrongInput(f"--format {FLENT} makes several files, but no folder is named", "add -o DIR")
    with open_store(store_location) as store:
        found = store.run(run)
        records, speeds = store.trials(found.run_id), store.cipher_speeds(found.run_id)
        soaks = len(store.soaks(found.run_id).all())
    if found.is_simulated and format_name != RUN_FORMAT:
        message = f"run {found.run_id} is simulated, and --format {format_name} has no place to say so"
        raise WrongInput(message, "leave --format out")
    if format_name == FLENT and output is not None:
        write_flent(found, records, Path(output))
        return
    if format_name == BENCHER:
        write_to(output, bencher_metrics(found, records))
        return
    exported = export(found, records, speeds)
    say_left_out(exported, f"run {found.run_id}: {counted(len(records), 'trial')}")
    if soaks:
        say(f"the file has the trials of {counted(soaks, 'soak')} without series: report --format series writes those")
    say("read the file before you share it: a name that is an ordinary word is not recognised")
    write_to(output, exported.text)


def write_to(output: str | None, text: str) -> None:
    """Write a text to a file, or to standard output (`-`, or no file)."""
    if output is None or output == "-":
        emit(text)
    else:
        write_whole(Path(output), text)


def say_left_out(exported: Exported, what: str) -> None:
    """Print which names were removed from a file, with examples; `what` describes the file."""
    say(f"{what}; left out:" if exported.stripped else f"{what}; nothing was left out")
    for kind, names in exported.stripped.items():
        count = sum(number for _, number in names)
        examples = ", ".join(printable(name)[:LONGEST_EXAMPLE] for name, _ in names[:EXAMPLES])
        kinds = "names of it" if kind == RAW else "different"
        say(f"  {kind}: {counted(count, 'time')}, {len(names)} {kinds}, such as {examples}")


def write_flent(run: RunRecord, records: Sequence[TrialRecord], folder: Path) -> None:
    """Write a file of Flent for each TCP trial into a folder. Raises WrongInput if there is none."""
    files = list(flent_files(run, records))
    if not files:
        raise WrongInput(f"run {run.run_id} has no TCP trial with a series that counts", "tunnelbench report shows why")
    write_files(folder, files)
    left_out = sum(not is_exported(record) for record in records)
    more = f"; {left_out} other trials {are(left_out)} left out" if left_out else ""
    say(f"{counted(len(files), 'file')} of Flent in {printable(str(folder))}{more}")
