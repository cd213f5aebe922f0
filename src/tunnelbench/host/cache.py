"""The cache folder of TunnelBench: kernels, images of virtual routers, and facts about this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tunnelbench.host.trust import require_trusted_folder
from tunnelbench.model.errors import CannotHere

COMPLETE_FILE = "complete.json"
"""Name of the file that is written last into a folder of the cache: a folder without it is incomplete and not used."""

HINT = "set XDG_CACHE_HOME to a folder of yours"

FETCH_TIMEOUT_S = 900.0
"""Time limit for fetching packages, of which Debian's kernel has about 70 MB [s]."""


def cache_folder() -> Path:
    """Return the folder of the cache, below XDG_CACHE_HOME or the user's ~/.cache; it may not exist yet.

    Raises CannotHere if this is root and another user could put something into the cache: root starts kernels from it,
    and Python code that was compiled into it.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "tunnelbench"
    require_trusted_folder(folder, "the cache", HINT)
    return folder


def made_cache_folder() -> Path:
    """Return the folder of the cache, made if it did not exist. Raises CannotHere as `cache_folder`."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    return cache_folder()  # somebody else may have been faster


@contextmanager
def only_one_fetches(folder: Path) -> Iterator[None]:
    """Make a folder of the cache, and keep other processes from filling it while the block runs.

    Raises CannotHere if the folder cannot be used.
    """
    try:
        made_cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise CannotHere(f"{folder} cannot be used: {error.strerror}", HINT) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
