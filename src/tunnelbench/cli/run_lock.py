"""Allows one run at a time on this machine, and gives each run a folder below RUN_FOLDER while it lasts.

The folder is made before the first namespace and deleted after the last, so `clean` can find what a killed run left.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tunnelbench.host.command import remove_tree
from tunnelbench.host.host import RUN_FOLDER, make_private, unusable
from tunnelbench.host.preflight import is_in_use
from tunnelbench.measure.clock_check import now
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.text import printable

STORE_NAME = "store"
"""File in a run's folder that names its store: `clean` marks the run there as killed."""

RUN_ID_PATTERN = re.compile(r"\d{8}-\d{6}-(?:[0-9a-f]{6}){1,2}")
"""Ids that `run` makes: date, time and twelve random hexadecimal digits (six in earlier ones). Imported runs differ."""


def new_run_id() -> str:
    """Return an id for a new run, which matches RUN_ID_PATTERN.

    With 24 random bits three of 10,000 jobs that are submitted within a second would share an id; 48 bits make that as
    unlikely as one in five million.
    """
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(6)}"


@contextmanager
def only_run_here(run_id: str, *, waits: bool = False) -> Iterator[None]:
    """Keep other runs off this machine while the block runs: two runs would disturb each other's figures.

    Raises CannotHere, which says which run has the lock and since when, or waits for its end if `waits`. The kernel
    frees the lock of a dead process.
    """
    make_private(RUN_FOLDER)
    try:
        descriptor = os.open(RUN_FOLDER / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise unusable(RUN_FOLDER / "lock", error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CannotHere(f"{RUN_FOLDER / 'lock'} is no regular file", "move it away")
    with os.fdopen(descriptor, "rb+", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            holder = lock.read().decode("utf-8", "replace").strip() or "unknown"
            message = f"another run is measuring on this machine: {holder}"
            raise CannotHere(message, "wait until it ends; two runs would disturb each other's figures") from None
        with suppress(OSError):  # no room there: the lock holds, but a second run cannot name the first
            lock.truncate(0)
            lock.write(f"run {printable(run_id)}, process {os.getpid()}, since {now()}\n".encode())
        yield


def left_runs() -> list[str]:
    """Return the ids of the runs that have a folder, or something else of that name.

    While the caller has the lock, each of them was killed or kept. Folders that a program marks as its own, such as
    that of `doctor`, are left out while the program runs.
    """
    if not RUN_FOLDER.is_dir():
        return []
    entries = [entry for entry in RUN_FOLDER.iterdir() if RUN_ID_PATTERN.fullmatch(entry.name)]
    return sorted(entry.name for entry in entries if not is_in_use(entry))


def remove_run_folder(folder: Path, keep: str = "") -> None:
    """Delete a run's folder with all its content, or all its content except the file `keep`.

    A link is deleted, and its target stays. Raises CannotHere, and deletes nothing, if something is mounted in it:
    deleting would reach the content of the file system that is mounted there.
    """
    try:
        if mounts := mounts_in(folder):
            raise CannotHere(f"{mounts[0]} is a mount point in the folder of a run", f"umount {mounts[0]}")
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            return
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            elif entry.name != keep:
                entry.unlink()
        if not keep:
            folder.rmdir()
    except OSError as error:
        place = printable(os.fsdecode(error.filename or folder))
        raise CannotHere(f"{place} cannot be deleted: {error.strerror}", "delete it yourself") from None


def mounts_in(folder: Path) -> list[str]:
    """Return the mount points at or below a folder (proc(5), mountinfo, fifth field)."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()]
    names = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point) for point in points]
    return [name for name in names if name == str(folder) or name.startswith(f"{folder}/")]
