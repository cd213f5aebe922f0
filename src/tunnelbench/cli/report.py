"""`tunnelbench report`: a stored run as a table or a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click

from tunnelbench.cli.finite import FiniteRange
from tunnelbench.cli.output import emit, has_colour, open_store, store_option, terminal_width
from tunnelbench.cli.soaks import soak_reports
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report import FORMATS, IMAGE_FORMATS, render, render_images
from tunnelbench.report.document import Style
from tunnelbench.report.sheet import SHEET_FORMATS, Sheet, render_sheet

CommandT = TypeVar("CommandT", bound=Callable[..., None])


def options_of(formats: Sequence[str]) -> Callable[[CommandT], CommandT]:
    """The options `format_name`, `as_json` and `output` of a verb that writes a result in these formats."""

    def with_options(function: CommandT) -> CommandT:
        for option in (
            click.option("-o", "output", metavar="FILE", help="Write it into a file, whole or not at all."),
            click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
            click.option(
                "--format", "format_name", type=click.Choice(formats), help="How to write it.  [default: terminal]"
            ),
        ):
            function = option(function)
        return function

    return with_options


format_options = options_of(SHEET_FORMATS)
"""Of every verb that writes a sheet."""


def chosen_format(format_name: str | None, *, as_json: bool) -> str:
    """The format that the options name; WrongInput where they contradict each other."""
    if as_json and format_name not in {None, "json"}:
        raise WrongInput(f"--json and --format {format_name} contradict each other", "leave one of them out")
    return "json" if as_json else format_name or "terminal"


def write_sheet(sheet: Sheet, format_name: str, output: str | None) -> None:
    """Write a sheet to the terminal or whole into a file."""
    if output is None or output == "-":
        emit(render_sheet(sheet, format_name, Style(terminal_width(), has_colour())))
    else:
        write_whole(Path(output), render_sheet(sheet, format_name))


@click.command()
@click.argument("run")
@options_of((*FORMATS, *IMAGE_FORMATS))
@click.option(
    "--target-mbps",
    type=FiniteRange(min=0, min_open=True, max=1e6),
    metavar="N",
    help="Say whether N Mbit/s go through each tunnel, and with what headroom.",
)
@store_option
def command(
    run: str,
    format_name: str | None,
    output: str | None,
    target_mbps: float | None,
    store_location: str | None,
    *,
    as_json: bool,
) -> None:
    """Write the results of RUN: `last`, a run's id, or the beginning of one.

    The format html is one page with tables and charts; png and svg are the charts alone, each a file in the folder that
    -o names.
    """
    name = chosen_format(format_name, as_json=as_json)
    if name in IMAGE_FORMATS and output in {None, "-"}:
        raise WrongInput(f"--format {name} makes several files, and no folder is named", "add -o DIR")
    with open_store(store_location) as store:
        found = store.run(run)
        records = store.trials(found.run_id, with_raw=name == "json")
        speeds, soaks = store.cipher_speeds(found.run_id), soak_reports(store, found.run_id)
        to_terminal = output is None or output == "-"
        if name in IMAGE_FORMATS and output is not None:
            images = render_images(found, records, name, target_mbps=target_mbps, speeds=speeds, soaks=soaks)
            write_files(Path(output), images)
            return
        width, colour = (terminal_width(), has_colour()) if to_terminal else (None, False)
        text = render(found, records, name, width, colour=colour, target_mbps=target_mbps, speeds=speeds, soaks=soaks)
    if output is None or output == "-":
        emit(text)
    else:
        write_whole(Path(output), text)


def write_files(folder: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a folder, which is made if need be; CannotHere where that cannot be done."""
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise WrongInput(f"{printable(str(folder))} is no folder", "name another with -o") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotHere(f"the folder {printable(str(folder))} cannot be made: {why}", "name another") from None
    for name, content in contents:
        write_whole(folder / name, content)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that nobody ever sees half of it; an older one keeps its mode, a link its target.

    A device or a pipe is simply written to. Raises CannotHere where it cannot be written.
    """
    written = content.encode() if isinstance(content, str) else content
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(written)
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(None, "it is write-protected")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            draft.write_bytes(written)
            if target.exists():
                shutil.copymode(target, draft)
            draft.replace(target)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
    except FileNotFoundError:
        message = (
            f"{printable(str(path))} cannot be written: there is no folder {printable(str(path.absolute().parent))}"
        )
        raise CannotHere(message, "make the folder, or name another file") from None
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        raise CannotHere(f"{printable(str(path))} cannot be written: {why}", "name another file") from None
