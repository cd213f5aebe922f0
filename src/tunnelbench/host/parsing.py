"""Errors of parsers: any program, kernel or router may print something else than expected."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tunnelbench.host.command import CommandFailed
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.text import printable

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that parsing raises for unexpected text or JSON."""

MOST = 2**64
"""Bound of a figure: the counters of a kernel have at most 64 bits."""

LONGEST_DETAIL = 120


class UnexpectedOutput(CommandFailed):
    """A text of a program, a kernel or a router is not in the expected form."""

    def __init__(self, what: str, error: Exception) -> None:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        CannotHere.__init__(
            self,
            printable(f"{what} is not in the expected form ({detail[:LONGEST_DETAIL]})"),
            "compare the program's version with those in docs/tunnels.md",
        )
        self.output = ""


@contextmanager
def parsing(what: str) -> Iterator[None]:
    """Raise UnexpectedOutput, with the source of the text, if the block or the decorated function cannot parse it."""
    try:
        yield
    except UNREADABLE as error:
        raise UnexpectedOutput(what, error) from None


def json_of(text: str, kind: type[Any]) -> Any:
    """Return a JSON document of a type, with finite numbers of at most 64 bits.

    Raises one of UNREADABLE if the text holds no such document.
    """
    found = json.loads(text, parse_constant=number, parse_float=number, parse_int=whole)
    if not isinstance(found, kind):
        raise TypeError(f"{found!r:.40} is no {kind.__name__}")
    json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is an error
    return found


def whole(value: object) -> int:
    """Return a whole number of at most 64 bits, given as text or as a number. Raises ValueError if it is none."""
    if isinstance(value, str):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= MOST:
        raise ValueError(f"{value!r:.40} is not a whole number")
    return value


def count(value: object) -> int:
    """Return a whole number of at least 0. Raises ValueError as `whole`."""
    if (found := whole(value)) < 0:
        raise ValueError(f"{found} is below 0")
    return found


def number(value: object) -> float:
    """Return a finite number below 2^64, given as text or as a number. Raises ValueError if it is none."""
    found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    if not abs(found) < MOST:
        raise ValueError(f"{value!r:.40} is not a number")
    return found
