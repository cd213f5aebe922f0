"""`tunnelbench report`: a stored run as a table or a file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click

from tunnelbench.cli.finite import FiniteRange
from tunnelbench.cli.output import emit, has_colour, open_store, store_option, terminal_width
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report import FORMATS, render
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
@options_of(FORMATS)
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
    """Write the results of RUN: `last`, a run's id, or the beginning of one."""
    name = chosen_format(format_name, as_json=as_json)
    with open_store(store_location) as store:
        found = store.run(run)
        records = store.trials(found.run_id, with_raw=name == "json")
        speeds = store.cipher_speeds(found.run_id)
    if output is None or output == "-":
        emit(
            render(found, records, name, terminal_width(), colour=has_colour(), target_mbps=target_mbps, speeds=speeds)
        )
    else:
        write_whole(Path(output), render(found, records, name, target_mbps=target_mbps, speeds=speeds))


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it; an older one keeps its mode, a link its target.

    A device or a pipe is simply written to. Raises CannotHere where it cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8", newline="")
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(None, "it is write-protected")
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8", newline="")
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
