"""Reads exported runs from files, for the verbs that accept them."""

from __future__ import annotations

import sys

from tunnelbench.host.input_files import read_regular
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report.exchange import Imported, read
from tunnelbench.report.exchange.json_object import LARGEST_BYTES

RUN_FORMAT = "run"
"""Name of the format of exported runs."""


def read_exported(file: str) -> Imported:
    """Read the run in a file, or on standard input (`-`). Raises WrongInput, with the file's name, if it is no run."""
    try:
        return read(exported_content(file))
    except WrongInput as error:
        raise WrongInput(f"{printable(file)}: {error.message}", error.hint) from None


def exported_content(file: str) -> bytes:
    """Return the content of a file or of standard input, up to the largest run that is read."""
    return file_content(file, LARGEST_BYTES, "name a file that tunnelbench export wrote")


def file_content(file: str, limit_bytes: int, hint: str) -> bytes:
    """Return the content of a file or of standard input (`-`), cut off one byte after the limit.

    Raises WrongInput with the hint if it cannot be read.
    """
    try:
        if file == "-":
            return sys.stdin.buffer.read(limit_bytes + 1)
        return read_regular(file, limit_bytes)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"it cannot be read: {why.lower()}", hint) from None
