"""Runs on this machine: one at a time, each with a folder below RUN_FOLDER for as long as it lives.

The folder is the mark by which what a killed run left is known as ours: it is made before the first namespace and
deleted after the last.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.model.errors import CannotHere
from tunnelbench.run import now

STORE_NAME = "store"
"""The file in a run's folder that names its store: whoever cleans up tells that store, too."""

RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@contextmanager
def only_run_here(run_id: str) -> Iterator[None]:
    """Keep other runs off this machine while the block runs: two would measure each other.

    Raises CannotHere that says who measures, since when. The lock of a process that is gone is gone with it.
    """
    try:
        RUN_FOLDER.mkdir(mode=0o700, exist_ok=True)
        lock = (RUN_FOLDER / "lock").open("a+")
    except OSError as error:
        raise CannotHere(f"{RUN_FOLDER} cannot be used: {error.strerror}", "run it as root") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            message = f"another run measures on this machine already: {holder}"
            raise CannotHere(message, "wait until it ends; two at once would measure each other") from None
        lock.seek(0)
        lock.truncate()
        lock.write(f"run {run_id}, process {os.getpid()}, since {now()}\n")
        lock.flush()
        yield


def left_runs() -> list[str]:
    """Ids of the runs whose folder is there; when none is under way, each of them was killed."""
    if not RUN_FOLDER.is_dir():
        return []
    return sorted(entry.name for entry in RUN_FOLDER.iterdir() if entry.is_dir() and RUN_ID.fullmatch(entry.name))
