"""Messages for people on standard error: best effort, for a terminal may go away and a disk be full in the night."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import IO

import click


def say(text: str, *, err: bool = True) -> bool:
    """Write a line; whether it could be written. Into a pipe that nobody empties it is not."""
    stream = sys.stderr if err else sys.stdout
    try:
        if not _is_writable(stream):
            return False
        click.echo(text, err=err)
    except OSError:
        with suppress(OSError, ValueError):
            send_to_nowhere(stream)
        return False
    return True


def send_to_nowhere(stream: IO[str]) -> None:
    """Drop what a stream that broke still holds: Python writes it when it ends, and would complain once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


PATIENCE_S = 1.0
"""For a reader that is slow."""


def _is_writable(stream: IO[str]) -> bool:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return True  # no file at all, as in tests
    return bool(select.select([], [descriptor], [], PATIENCE_S)[1])


def shout(text: str) -> None:
    """Write a line from a signal's handler: only where that cannot wait, or fail."""
    with suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stderr.fileno()
        _, writable, _ = select.select([], [descriptor], [], 0)
        if writable:
            os.write(descriptor, f"{text}\n".encode())
