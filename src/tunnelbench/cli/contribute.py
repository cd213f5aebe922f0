"""`tunnelbench contribute`: check a run and write it for the results of the project, or check contributed files."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from tunnelbench.cli.common_options import emit, open_store, read_store_option
from tunnelbench.cli.completion import run_names
from tunnelbench.cli.contributed_files import changed_files, check_files, shipped_highest
from tunnelbench.cli.export import say_left_out
from tunnelbench.cli.plans import planned_trials
from tunnelbench.cli.report import write_whole
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.trust import held_for_writing
from tunnelbench.model.errors import CannotHere, ExitCode, WrongInput
from tunnelbench.model.result import RunRecord
from tunnelbench.model.text import counted, printable
from tunnelbench.report.contribution.judge import LARGEST_FILE_BYTES, objections
from tunnelbench.report.contribution.place import RESULTS, file_of
from tunnelbench.report.contribution.pull_request import body, title
from tunnelbench.report.exchange import export, read
from tunnelbench.report.site.gather import LONGEST_DEVICE_NAME
from tunnelbench.tunnel import compresses, encrypts

TEXT_FILE = "pull-request.md"

SHOWN_REASONS = 20
BOARD = "router_board"
"""Fact of a run that names the board of its router."""


@click.command()
@click.argument("names", metavar="[RUN | PATH...]", nargs=-1, shell_complete=run_names)
@click.option("--to", "folder", metavar="FOLDER", default=".", show_default=True,
              help="Clone of the project; the file goes into its folder results/.")  # fmt: skip
@click.option("--text", "text_file", metavar="FILE", help="Write the text of the pull request here.  [default: "
              f"{TEXT_FILE} in FOLDER]")  # fmt: skip
@click.option("--device", metavar="NAME", help="Board of the router, if the router did not report it.")
@click.option(
    "--check", "is_check", is_flag=True, help="Check contributed files; PATH is a file or the folder results/."
)
@click.option("--published", metavar="FOLDER", help="With --check: refuse changes of the files in this results/.")
@read_store_option
def command(  # noqa: PLR0917 - click hands them over by name
    names: tuple[str, ...],
    folder: str,
    text_file: str | None,
    device: str | None,
    is_check: bool,
    published: str | None,
    store_location: str | None,
) -> None:
    """Check RUN, and write it as FOLDER/results/DEVICE/RUN.json with the text of a pull request.

    RUN is `last`, a run's id, or the beginning of one. A run is refused if a tunnel has no proof, a row has fewer than
    three trials that count, background load ended many trials, or the router is not known. The file has no addresses,
    host names and keys, as with `tunnelbench export`.

    With --check, each file must be a run in its place that passes all these checks; the exit status is 1 otherwise.
    """
    if is_check:
        check(names or (RESULTS,), published)
    elif published is not None:
        raise WrongInput("--published is an option of --check", "tunnelbench contribute --check results")
    elif len(names) > 1:
        raise WrongInput("only one run can be contributed at once", "tunnelbench contribute --check checks files")
    else:
        contribute(names[0] if names else "last", Path(folder), text_file, device, store_location)


def contribute(name: str, folder: Path, text_file: str | None, device: str | None, store_location: str | None) -> None:
    """Check a stored run, write its file and the text of the pull request, and print that text."""
    with open_store(store_location) as store:
        run = store.run(name)
        records, speeds = store.trials(run.run_id), store.cipher_speeds(run.run_id)
    if device is not None:
        run = named(run, device)
    exported = export(run, records, speeds)
    content = exported.text.encode()
    if len(content) > LARGEST_FILE_BYTES:
        message = f"run {run.run_id} cannot be contributed: its file has {len(content)} bytes"
        raise WrongInput(message, f"at most {LARGEST_FILE_BYTES} are accepted: contribute a run of fewer trials")
    try:
        found = read(content)
    except WrongInput as error:
        message = f"run {run.run_id} cannot be contributed: {printable(error.message)}"
        raise WrongInput(message, "measure again; if you measured this run yourself, report a bug") from None
    if reasons := objections(found, encrypts, compresses, shipped_highest(), planned_trials):
        say(f"run {run.run_id} cannot be contributed:")
        say_reasons(reasons)
        sys.exit(ExitCode.CHECK_FAILED)
    place = f"{RESULTS}/{file_of(found.run, found.original_id)}"
    path = folder / place
    text = body(found, place)
    for each in (path.parent.parent, path.parent):
        make_folder(each)
    write_whole(path, content)
    beside = Path(text_file) if text_file else folder / TEXT_FILE
    write_whole(beside, text)
    say_left_out(exported, f"{path}: {counted(len(records), 'trial')}")
    say("read the file before you share it: a name that is an ordinary word is not recognised")
    say("next, in a clone of your fork:")
    named_in_shell = shlex.quote(title(found))
    commands = (
        f"git switch -c {run.run_id}",
        f"git add {place}",
        f"git commit -m {named_in_shell}",
        "git push -u origin HEAD",
        f"gh pr create --title {named_in_shell} --body-file {shlex.quote(str(beside))}",
    )
    for line in commands:
        say(f"  {line}")
    emit(text)


def named(run: RunRecord, device: str) -> RunRecord:
    """Return a run with the board of its router. Raises WrongInput if the run names another one."""
    known = run.host_facts.get(BOARD)
    if known and known != device:
        raise WrongInput(f"--device {printable(device)}: the router is {printable(str(known))}", "leave --device out")
    if "router_kernel" not in run.host_facts:
        raise WrongInput("--device: the router of this run is not a machine of its own", "leave --device out")
    if not device.isprintable() or not device.strip() or len(device) > LONGEST_DEVICE_NAME:
        message = f"--device: not a name of at most {LONGEST_DEVICE_NAME} characters"
        raise WrongInput(message, 'such as --device "TP-Link TL-WR841N v9"')
    return replace(run, host_facts={**run.host_facts, BOARD: device})


def make_folder(folder: Path) -> None:
    """Make a folder if it does not exist. Raises CannotHere if that fails, or if root must not write there."""
    try:
        with held_for_writing(folder) as place:
            place.mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "name the folder of a clone with --to"
        raise CannotHere(f"{printable(str(folder))} cannot be made: {why}", hint) from None


def check(paths: tuple[str, ...], published: str | None) -> None:
    """Check contributed files, and print a line for each reason to refuse one."""
    checked, refused = check_files([Path(path) for path in paths])
    if published is not None:
        refused += changed_files([Path(path) for path in paths], Path(published))
    for name, reasons in refused:
        for reason in reasons[:SHOWN_REASONS]:
            emit(f"refused: {printable(name)}: {reason}\n")
        if len(reasons) > SHOWN_REASONS:
            emit(f"refused: {printable(name)}: and {len(reasons) - SHOWN_REASONS} more reasons\n")
    say(f"{counted(checked, 'file')} checked, {counted(len(refused), 'path')} refused")
    if refused:
        sys.exit(ExitCode.CHECK_FAILED)


def say_reasons(reasons: list[str]) -> None:
    """Print why a run is refused, at most SHOWN_REASONS lines."""
    for reason in reasons[:SHOWN_REASONS]:
        say(f"  {reason}")
    if len(reasons) > SHOWN_REASONS:
        say(f"  and {len(reasons) - SHOWN_REASONS} more reasons")
