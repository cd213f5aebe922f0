"""The archives that Linux unpacks into its first file system (initramfs).

The format is described in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

FOLDER_MODE = stat.S_IFDIR | 0o755
FILE_MODE = stat.S_IFREG | 0o644
PRIVATE_FILE_MODE = stat.S_IFREG | 0o600
PROGRAM_MODE = stat.S_IFREG | 0o755

TRAILER = "TRAILER!!!"


def archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return an archive in the format `newc` of paths with their mode and content; root owns all of them.

    One file may contain several archives in sequence: the kernel unpacks each of them.
    """
    inodes = enumerate(((*entries.items(), (TRAILER, (0, b"")))), start=1)
    return b"".join(_entry(inode, path, mode, content) for inode, (path, (mode, content)) in inodes)


def _entry(inode: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device and its minor, special device and its minor, name, checksum
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
