"""What the verbs share: their options, and how a result is written. Results go to standard output, messages do not."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from tunnelbench.cli.telling import send_to_nowhere
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Link
from tunnelbench.report.formats.json import plain
from tunnelbench.store import Store, default_path

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON, for programs.")
store_option = click.option(
    "--store",
    "store_location",
    metavar="PATH|URL",
    help="Where the results are: a file, or postgresql://USER@HOST/NAME.  [default: where `run` keeps them]",
)


def emit(text: str) -> None:
    """Write a result to standard output; what its encoding does not have becomes `?`.

    A reader that has seen enough and closed the pipe is no error. CannotHere where it cannot be written.
    """
    try:
        click.echo(text.encode(sys.stdout.encoding or "utf-8", "replace"), nl=False)
    except OSError as error:
        send_to_nowhere(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise CannotHere(f"the output cannot be written: {error.strerror}") from None


def emit_json(value: Any) -> None:
    """Write dataclasses, mappings and sequences as JSON."""
    emit(json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


def terminal_width() -> int | None:
    """Columns to draw in; None: nobody said how many, for it goes into a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def has_colour() -> bool:
    """Whether escape sequences are welcome (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def duration_text(seconds: float) -> str:
    """A duration for people, such as `45 s`, `4 min` or `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"


def link_text(link: Link) -> str:
    """A testbed's link in words, such as `100 Mbit/s, 20 ms`."""
    rate = "as fast as the machine"
    if link.rate_out_mbps is not None or link.rate_in_mbps is not None:
        out, back = (
            f"{rate_mbps:g} Mbit/s" if rate_mbps else "any rate"
            for rate_mbps in (link.rate_out_mbps, link.rate_in_mbps)
        )
        rate = out if out == back else f"{out} out, {back} in"
    delay = f", {link.delay_ms:g} ms on each cable" if link.delay_ms else ""
    return f"{rate}{delay}"


def open_store(location: Path | str | None, *, create: bool = False) -> Store:
    """The store at a path, a URL or where it is by default; says so on standard error where it was migrated."""
    store = Store.open(location or default_path(), create=create)
    if store.change:
        click.echo(f"tunnelbench: {store.change}", err=True)
    return store


def is_server(location: Path | str) -> bool:
    """Whether a store is on a database server, which other machines use, too."""
    return "://" in str(location) and not str(location).startswith("sqlite")


def is_store_missing(location: Path | str) -> bool:
    """Whether no results have been kept there yet; a database URL is always tried."""
    try:
        return "://" not in str(location) and not Path(location).expanduser().exists()
    except PermissionError:
        return False  # opening it says so in words
