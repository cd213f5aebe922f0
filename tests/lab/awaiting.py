"""Waiting for what a run in another process makes and takes away again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tunnelbench.host.host import RUN_FOLDER

LIMIT_S = 60


def await_folder(before: set[Path]) -> set[Path]:
    """The folders of runs that were not there before."""
    deadline = time.monotonic() + LIMIT_S
    while not (new := set(RUN_FOLDER.glob("[0-9]*")) - before):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return new


def await_machines(left: Callable[[str], Sequence[object]], mark: str, number: int) -> None:
    """Until `left` finds so many machines of the run with that mark."""
    deadline = time.monotonic() + LIMIT_S
    while len(left(mark)) != number:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def await_text(path: Path, text: str, limit_s: float = LIMIT_S) -> None:
    """Until a file holds that text."""
    deadline = time.monotonic() + limit_s
    while text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text()
        time.sleep(0.1)
