"""The archives that Linux unpacks into its first file system.

The format is in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

FOLDER = stat.S_IFDIR | 0o755
FILE = stat.S_IFREG | 0o644
PRIVATE_FILE = stat.S_IFREG | 0o600
PROGRAM = stat.S_IFREG | 0o755

END = "TRAILER!!!"


def archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """An archive, in the format `newc`, of paths with their mode and content, all of them root's.

    Archives may follow one another in one file: the kernel unpacks each.
    """
    inodes = enumerate(((*entries.items(), (END, (0, b"")))), start=1)
    return b"".join(_entry(inode, path, mode, content) for inode, (path, (mode, content)) in inodes)


def _entry(inode: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device and its minor, special device and its minor, name, checksum
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
