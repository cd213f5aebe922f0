"""The lock on a run in a store that is a file: a file next to the store, locked as long as the run is measured.

It is next to the store because each user who may measure into the store can make it there, and `clean`, as root, finds
it. The kernel frees the lock of a dead process. Nothing is read from the file or written to it.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tunnelbench.model.errors import CannotHere, MeasuredElsewhere

SAFE_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,79}")
"""Ids that become part of a file's name; the store may be another person's."""


def lock_path(store: Path, run_id: str) -> Path:
    """Return the path of the lock of a run. Raises ValueError if its id could lead to another folder."""
    if not SAFE_RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r:.80} is not the id of a run")
    found = Path(os.path.realpath(store))
    return found.with_name(f"{found.name}-run-{run_id}")


def lock_run(store: Path, run_id: str) -> Callable[[], None]:
    """Lock a run; returns the function that unlocks it and deletes the file.

    Raises MeasuredElsewhere if another process measures the run, and OSError if the file cannot be made.
    """
    path = lock_path(store, run_id)
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            message = f"another process measures run {run_id}"
            raise MeasuredElsewhere(message, f"wait until it ends; fuser {path} finds the process") from None
        if _is_at(path, descriptor):  # otherwise its last holder has just deleted it
            break
        os.close(descriptor)

    def unlock() -> None:
        if _is_at(path, descriptor):
            with suppress(OSError):
                path.unlink()
        os.close(descriptor)

    return unlock


def is_locked(store: Path, run_id: str) -> bool:
    """Return True if a process measures a run. Deletes the file that a killed run has left."""
    try:
        if not os.path.lexists(lock_path(store, run_id)):
            return False
        lock_run(store, run_id)()
    except MeasuredElsewhere:
        return True
    except (OSError, ValueError, CannotHere):  # it is no lock of ours
        return False
    return False


def _opened(path: Path) -> int:
    """Return a descriptor of a regular file that has no other name; it is not opened for writing."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)  # in /tmp, the kernel refuses O_CREAT for a file of another user
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise CannotHere(f"{path} is no regular file with one name", "move it away")
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False
