"""Writes messages to standard error. Write errors are ignored: a terminal may close, or a disk may be full."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import IO

import click

from tunnelbench.model.errors import CannotHere, UserError
from tunnelbench.model.text import printable


def say(text: str, *, err: bool = True) -> bool:
    """Write a text without control characters. Returns False if that fails, for example into a full pipe."""
    stream = sys.stderr if err else sys.stdout
    try:
        if not _is_writable(stream):
            return False
        click.echo("\n".join(map(printable, text.split("\n"))), err=err)
    except OSError as error:
        with suppress(OSError, ValueError):
            send_to_nowhere(stream, error)
        return False
    return True


def report_error(error: UserError) -> None:
    """Write the sentence and the hint of an error."""
    say(f"tunnelbench: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


_lost: dict[int, str] = {}
"""Reasons why streams could not be written, by file descriptor; none for a pipe that its reader has closed."""


def send_to_nowhere(stream: IO[str], error: OSError) -> None:
    """Redirect a broken stream to /dev/null; else Python would write its buffer at exit, and report the error again."""
    if not isinstance(error, BrokenPipeError):
        _lost[stream.fileno()] = error.strerror or str(error)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def why_output_is_lost() -> str:
    """Return the reason why output was lost on standard output; empty if none was, or if the reader closed the pipe."""
    try:
        return _lost.get(sys.stdout.fileno(), "")
    except (OSError, ValueError, AttributeError):
        return ""  # not a file, as in tests


def lost_output(hint: str = "") -> CannotHere:
    """Return the error for output that could not be written."""
    return CannotHere(f"the output cannot be written: {why_output_is_lost()}", hint)


PATIENCE_S = 1.0
"""Longest wait for a slow reader of a pipe [s]."""


def _is_writable(stream: IO[str]) -> bool:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return True  # not a file, as in tests
    return bool(select.select([], [descriptor], [], PATIENCE_S)[1])


def shout(text: str) -> None:
    """Write a line from a signal handler, unless that would block."""
    with suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stderr.fileno()
        _, writable, _ = select.select([], [descriptor], [], 0)
        if writable:
            os.write(descriptor, f"{text}\n".encode())
