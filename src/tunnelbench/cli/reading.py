"""Exported runs from files, for the verbs that take them."""

from __future__ import annotations

import sys
from pathlib import Path

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report.exchange import Imported, read
from tunnelbench.report.exchange.reading import LARGEST_BYTES


def read_exported(file: str) -> Imported:
    """The run in a file, or in standard input as `-`. WrongInput, which names the file, where it is none."""
    try:
        return read(exported_content(file))
    except WrongInput as error:
        raise WrongInput(f"{printable(file)}: {error.message}", error.hint) from None


def exported_content(file: str) -> bytes:
    """What is in a file, or standard input; no more than is read of a run."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(LARGEST_BYTES + 1)
        with Path(file).open("rb") as stream:
            return stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"it cannot be read: {why.lower()}", "name a file that tunnelbench export wrote") from None
