"""Options and output functions that the verbs share. Results go to standard output, messages to standard error."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tunnelbench.cli.stderr_messages import lost_output, say, send_to_nowhere, why_output_is_lost
from tunnelbench.host.command import page
from tunnelbench.host.parsing import UNREADABLE
from tunnelbench.measure.clock_check import now
from tunnelbench.model.errors import CannotHere, UserError
from tunnelbench.model.json_types import plain
from tunnelbench.model.testbed import Link
from tunnelbench.model.text import LONGEST_REASON, harmless, printable
from tunnelbench.report.text import UNFOLDED_WIDTH
from tunnelbench.store.location import default_path

if TYPE_CHECKING:
    from tunnelbench.store.store import Store

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON, for programs.")


store_option = click.option(
    "--store",
    "store_location",
    metavar="PATH|URL",
    help="Store of the results: a file, or postgresql://USER@HOST/NAME.  [default: a file in your home folder]",
)


def read_store_option(verb: Callable[..., None]) -> Callable[..., None]:
    """Add `--store` to a verb that only reads a store.

    A store that the user names may be another person's, whose checksums agree with whatever it holds. An error in a
    calculation is then no bug, and becomes CannotHere. In the user's own store, it stays as it is.
    """

    @wraps(verb)
    def guarded(*arguments: Any, store_location: str | None, **options: Any) -> None:
        try:
            verb(*arguments, store_location=store_location, **options)
        except UNREADABLE as error:
            if store_location is None:
                raise
            raise forged("the store that --store names", error) from error

    return store_option(guarded)


def forged(store: str, error: Exception) -> CannotHere:
    """Return the error for a store, named in words, whose values lead to an error in a calculation."""
    return CannotHere(
        f"{store} holds values that no run has ({error_text(error)})",
        "ask its author for a file of tunnelbench export; if you measured the run yourself, report a bug",
    )


def error_text(error: Exception) -> str:
    """Return the kind and the message of an error in a calculation with stored values."""
    return printable(f"{type(error).__name__}: {error}")[:LONGEST_REASON]


def emit(text: str, hint: str = "") -> None:
    """Write a result to standard output; characters that its encoding lacks become `?`.

    Of escape sequences only colours pass: no text of a program or a file can control a terminal.
    A pipe that its reader has closed is no error. Raises CannotHere, with the hint, when the result, or an
    earlier part of the output, cannot be written.
    """
    try:
        click.echo(harmless(text).encode(sys.stdout.encoding or "utf-8", "replace"), nl=False)
    except OSError as error:
        send_to_nowhere(sys.stdout, error)
    if why_output_is_lost():
        raise lost_output(hint)


PAGER = "less"
NO_PAGERS = ("", "cat")
"""Values of PAGER that mean that no pager is wanted."""
PAGER_OPTIONS = "-FRX"
"""Options of `less`: end at once if the text fits on the screen, pass colours, and leave the text on the screen."""


def emit_long(text: str) -> None:
    """Write a result as `emit` does, through a pager if it is longer than the terminal.

    PAGER names another pager, with its options, and `cat` or an empty value means none. Root uses `less` in its secure
    mode alone. Without such a program the text is written as it is.
    """
    size = shutil.get_terminal_size()
    wanted = os.environ.get("PAGER", PAGER)
    pager = PAGER if os.geteuid() == 0 and wanted not in NO_PAGERS else wanted
    is_short = text.count("\n") < size.lines
    words = _words(pager)
    program = shutil.which(words[0]) if words else None
    if is_short or program is None or pager in NO_PAGERS or not is_interactive():
        emit(text)
        return
    settings = {"LESS": os.environ.get("LESS", PAGER_OPTIONS), "LESSSECURE": "1"}
    page([program, *words[1:]], harmless(text), settings)


def is_interactive() -> bool:
    """Return True if both standard input and standard output are a terminal."""
    return sys.stdout.isatty() and sys.stdin.isatty()


def _words(command: str) -> list[str]:
    """Return the words of a command as a shell splits them; none if a quote is not closed."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def emit_json(value: Any) -> None:
    """Write dataclasses, mappings and sequences as JSON."""
    emit(json.dumps(plain(value), indent=2, allow_nan=False) + "\n")


NARROWEST = 40
"""Width of a report on a terminal that is narrower [columns]."""


def terminal_width() -> int | None:
    """Return the number of columns; None if the output goes to a file or a pipe and COLUMNS is not set.

    It is at least NARROWEST: no sentence can be folded to a terminal of a few columns.
    """
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return min(max(shutil.get_terminal_size().columns, NARROWEST), UNFOLDED_WIDTH)


def has_colour() -> bool:
    """Return True if the output may have colours (no-color.org, force-color.org)."""
    if os.environ.get("FORCE_COLOR") and not os.environ.get("NO_COLOR"):
        return True
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def duration_text(seconds: float) -> str:
    """Return a duration as `45 s`, `4 min` or `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"


def link_text(link: Link) -> str:
    """Describe a testbed's link, such as `100 Mbit/s, 20 ms on each cable`, with an MTU that is not the usual one."""
    mtu = f", MTU of {link.mtu_bytes} bytes" if link.mtu_bytes != Link.mtu_bytes else ""
    return f"{speed_text(link)}{mtu}"


def speed_text(link: Link) -> str:
    """Describe the rate and the delay of a testbed's link."""
    rate = "as fast as the machine"
    if link.rate_out_mbps is not None or link.rate_in_mbps is not None:
        out, back = (
            f"{rate_mbps:g} Mbit/s" if rate_mbps else "any rate"
            for rate_mbps in (link.rate_out_mbps, link.rate_in_mbps)
        )
        rate = out if out == back else f"{out} out, {back} in"
    delay = f", {link.delay_ms:g} ms on each cable" if link.delay_ms else ""
    return f"{rate}{delay}"


def open_store(location: Path | str | None, *, create: bool = False, marks_killed: bool = True) -> Store:
    """Open the store at a path, a URL or the default path; report an upgrade on standard error.

    On a server, mark the runs as killed whose controllers were killed, on any machine, and report them.
    """
    from tunnelbench.store.store import Store  # noqa: PLC0415 - 0.2 s, and few verbs open a store

    store = Store.open(location or default_path(), create=create)
    if store.change:
        say(f"tunnelbench: {store.change}")
    if marks_killed and is_server(store.name):
        with suppress(UserError):  # this user may only read
            for run_id in store.mark_abandoned(now()):
                say(f"run {run_id} was killed; tunnelbench run --resume {run_id} on its machine measures the rest")
    return store


def is_server(location: Path | str) -> bool:
    """Return True if a store is on a database server, which other machines may also use."""
    return "://" in str(location) and not str(location).startswith("sqlite")


def is_store_missing(location: Path | str) -> bool:
    """Return True if there is no store at a path; False for the URL of a database."""
    try:
        return "://" not in str(location) and not Path(location).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False  # opening the store reports the error
