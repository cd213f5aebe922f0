"""Reading of files that a user names."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str, limit_bytes: int) -> bytes:
    """Return the content of a file, cut off one byte after the limit.

    Raises OSError if it cannot be read or is no regular file: opening a FIFO would wait for a writer for ever, and a
    device may have no end. Raises ValueError if there is a NUL in the name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is a pipe or a device, not a regular file")
        return stream.read(limit_bytes + 1)
