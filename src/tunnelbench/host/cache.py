"""What can be had again: kernels, images, and what was found out about this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tunnelbench.model.errors import CannotHere


def cache_folder() -> Path:
    """Where it is kept: below XDG_CACHE_HOME, or else the user's ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "tunnelbench"


@contextmanager
def only_one_fetches(folder: Path) -> Iterator[None]:
    """Make a folder of the cache, and keep other processes from filling it while the block runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise CannotHere(
            f"{folder} cannot be used: {error.strerror}", "set XDG_CACHE_HOME to a folder of yours"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
