"""`tunnelbench report`: write a stored run as a table or a file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click

from tunnelbench.cli.common_options import (
    emit,
    emit_long,
    has_colour,
    open_store,
    read_store_option,
    terminal_width,
)
from tunnelbench.cli.completion import run_names
from tunnelbench.cli.page_file import show_page
from tunnelbench.cli.param_types import FiniteRange
from tunnelbench.cli.soak_reports import soak_reports
from tunnelbench.host.trust import KEPT_PERMISSIONS, held_for_writing
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.step import STEPS_KEY
from tunnelbench.model.text import printable
from tunnelbench.report.document import Style
from tunnelbench.report.formats import format_names, sheet_format_names
from tunnelbench.report.render import IMAGE_FORMATS, render, render_images, render_sheet
from tunnelbench.report.sheet import Sheet
from tunnelbench.store.store import LAST

CommandT = TypeVar("CommandT", bound=Callable[..., None])


def options_of(formats: Sequence[str]) -> Callable[[CommandT], CommandT]:
    """Return the options `format_name`, `as_json` and `output` of a verb that writes a result in these formats."""

    def with_options(function: CommandT) -> CommandT:
        for option in (
            click.option(
                "-o",
                "output",
                metavar="FILE",
                help="Write the result into a file, either the whole result or nothing.",
            ),
            click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
            click.option(
                "--format", "format_name", type=click.Choice(formats), help="Format of the result.  [default: terminal]"
            ),
        ):
            function = option(function)
        return function

    return with_options


format_options = options_of(sheet_format_names())
"""Decorator that gives a verb the options of all formats of a sheet."""


def chosen_format(format_name: str | None, *, as_json: bool) -> str:
    """Return the format that the options name. Raises WrongInput if they contradict each other."""
    if as_json and format_name not in {None, "json"}:
        raise WrongInput(f"--json and --format {format_name} contradict each other", "leave one of them out")
    return "json" if as_json else format_name or "terminal"


def write_text(text: str, output: str | None) -> None:
    """Write a text to the terminal, through a pager if it is long, or whole into a file."""
    if output is None or output == "-":
        emit_long(text)
    else:
        write_whole(Path(output), text)


def write_sheet(sheet: Sheet, format_name: str, output: str | None) -> None:
    """Write a sheet to the terminal, its text through a pager if it is long, or whole into a file."""
    if output is None or output == "-":
        to_screen = emit_long if format_name == "terminal" else emit
        to_screen(render_sheet(sheet, format_name, Style(terminal_width(), has_colour())))
    else:
        write_whole(Path(output), render_sheet(sheet, format_name))


@click.command()
@click.argument("run", default=LAST, shell_complete=run_names)
@options_of((*format_names(), *IMAGE_FORMATS))
@click.option("--full", is_flag=True, help="Print all figures, limits, costs and warnings, and leave out no row.")
@click.option(
    "--target-mbps",
    type=FiniteRange(min=0, min_open=True, max=1e6),
    metavar="N",
    help="Print which encrypted tunnel carries N Mbit/s with the most free CPU.",
)
@click.option("--allow-plaintext", is_flag=True, help="Recommend tunnels that do not encrypt, too.")
@click.option("--open", "opens_page", is_flag=True, help="Write the page here, and open it in the browser.")
@read_store_option
def command(
    run: str,
    format_name: str | None,
    output: str | None,
    target_mbps: float | None,
    store_location: str | None,
    *,
    as_json: bool,
    full: bool,
    allow_plaintext: bool,
    opens_page: bool,
) -> None:
    """Write the results of RUN: a run's id, the beginning of one, or `last`, the last run that ended (default).

    The terminal shows the answer on one screen; --full adds all that was measured. The format html is one page with
    tables and charts; png and svg are the charts alone, each a file in the folder that -o names.
    """
    name = chosen_format(format_name, as_json=as_json)
    if opens_page:
        if output is not None or name not in {"terminal", "html"}:
            raise WrongInput("--open writes a page into the current folder", "leave -o, --json and --format out")
        name = "html"
    if name in IMAGE_FORMATS and output in {None, "-"}:
        raise WrongInput(f"--format {name} makes several files, but no folder is named", "add -o DIR")
    with open_store(store_location) as store:
        found = store.run(run)
        if found.is_simulated and name in (*IMAGE_FORMATS, "series"):
            message = f"run {found.run_id} is simulated, and --format {name} has no place to say so"
            raise WrongInput(message, "choose another format")
        starts = (STEPS_KEY,) if full and name == "terminal" else ()
        records = store.trials(found.run_id, with_raw=name == "json" or starts)
        speeds, soaks = store.cipher_speeds(found.run_id), soak_reports(store, found.run_id)
        to_terminal = output is None or output == "-"
        if name in IMAGE_FORMATS and output is not None:
            images = render_images(
                found, records, name, target_mbps=target_mbps, speeds=speeds, soaks=soaks,
                allow_plaintext=allow_plaintext,
            )  # fmt: skip
            write_files(Path(output), images)
            return
        width, colour = (terminal_width(), has_colour()) if to_terminal else (None, False)
        text = render(
            found, records, name, width, colour=colour, target_mbps=target_mbps, speeds=speeds, soaks=soaks, full=full,
            allow_plaintext=allow_plaintext,
        )  # fmt: skip
    if opens_page:
        show_page(found.run_id, text)
    elif output is None or output == "-":
        (emit_long if name == "terminal" else emit)(text)
    else:
        write_whole(Path(output), text)


def write_files(folder: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a folder, which is created if it does not exist. Raises CannotHere if that fails."""
    is_new = False
    try:
        with held_for_writing(folder) as place:
            is_new = not place.exists()
            place.mkdir(exist_ok=True)
    except FileExistsError:
        raise WrongInput(f"{printable(str(folder))} is not a folder", "name another folder with -o") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotHere(
            f"the folder {printable(str(folder))} cannot be created: {why}", "name another folder with -o"
        ) from None
    try:
        for name, content in contents:
            write_whole(folder / name, content)
    except CannotHere:
        if is_new:
            with suppress(OSError), held_for_writing(folder) as place:
                place.rmdir()  # unless a file was written
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step, so that no program reads half of it. A file of one's own keeps its permissions, a link
    its target.

    Devices and pipes are written directly. Raises CannotHere if the file cannot be written, or if this is root and
    another user can write to the folder, or has made a link or a pipe of that name.
    """
    written = content.encode() if isinstance(content, str) else content
    try:
        with held_for_writing(path) as target:
            _replace(target, written)
    except FileNotFoundError:
        folder = path.parent
        with suppress(FileNotFoundError):  # the current folder was deleted
            folder = folder.absolute()
        message = f"{printable(str(path))} cannot be written: there is no folder {printable(str(folder))}"
        raise CannotHere(message, "create the folder, or name another file with -o") from None
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        raise CannotHere(f"{printable(str(path))} cannot be written: {why}", "name another file with -o") from None


def _replace(target: Path, content: bytes) -> None:
    """Write a file in one step, or into a device or a pipe; no link is followed."""
    try:
        found = target.lstat()
        mode, is_own = found.st_mode, found.st_uid == os.geteuid()
    except FileNotFoundError:
        mode, is_own = 0, False
    if mode and not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_NOFOLLOW), "wb") as stream:
            stream.write(content)
        return
    if mode and not os.access(target, os.W_OK):
        raise PermissionError(None, "it is write-protected")
    draft = target.with_name(f".{secrets.token_hex(8)}.draft")
    try:
        with draft.open("xb") as stream:  # "x" follows no link
            stream.write(content)
            if stat.S_ISREG(mode) and is_own:
                os.fchmod(stream.fileno(), mode & KEPT_PERMISSIONS)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
