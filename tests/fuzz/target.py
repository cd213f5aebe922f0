"""A fuzz target: a function that takes any bytes, and the rules that each target holds to."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cpu_time import TooSlow, cpu_time_limit

from tunnelbench.model.errors import TrialFailed, UserError

SOURCE = "/tunnelbench/"
"""Part of the path of each file of the package."""

INPUT_LIMIT_S = 10.0
"""Largest CPU time of one input [s]. Usual inputs take some milliseconds: only a hang or a slow pattern exceeds it."""

LONGEST_INPUT_BYTES = 20_000

ANSWER_MARK = "\x1e"
"""Character that parts the texts of one input: programs, or both ends of a trial, print several."""


@dataclass(frozen=True)
class Target:
    """A function under test, with its seeds."""

    name: str
    take: Callable[[bytes], None]
    """Function that takes any bytes. It may raise only errors that become one sentence."""
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[str, ...] = ()
    """Words of the format, which a mutation may insert."""


@dataclass(frozen=True)
class Finding:
    """An input that broke a rule."""

    place: str
    """Kind of the error and the line of the package that raised it: findings with the same place are the same."""
    report: str
    data: bytes


def find(target: Target, data: bytes) -> Finding | None:
    """Return the finding of one input; None if the input was taken, or refused in one sentence."""
    try:
        with cpu_time_limit(INPUT_LIMIT_S):
            target.take(data)
    except (UserError, TrialFailed) as error:
        text = str(error)
        return None if text.strip() else Finding(f"an error without words: {_line(error)}", repr(error), data)
    except (Exception, TooSlow) as error:  # noqa: BLE001 - whatever comes out is the finding
        report = "".join(traceback.format_exception(error, limit=-12))
        return Finding(f"{type(error).__name__} at {_line(error)}", report, data)
    return None


def _line(error: BaseException) -> str:
    """Return the innermost line of the package in an error's traceback; of the target if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if SOURCE in frame.filename] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno} {own[-1].name}" if own else "an unknown line"


def same(first: object, second: object) -> None:
    """Raise AssertionError unless what was written and read again is as it was."""
    if first != second:
        raise AssertionError(f"not as it was: {first!r:.300} became {second!r:.300}")
