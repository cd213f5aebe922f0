"""Programs of the user that a virtual machine gets at its boot, in place of Debian's or in addition to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from tunnelbench.host.trust import require_trusted
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import cpio

MOST_BYTES = 64_000_000
"""Largest size of all programs of one machine: they are kept in its memory, which is 256 MB."""

HANDED_FOLDER = "handed/programs"
"""Folder of the programs in the first file system."""

INSTALL_SCRIPT = """
cd /run/tunnelbench-boot/programs || exit 1
for name in *; do
    [ -f "$name" ] || continue # all are in their places already
    place=$(command -v "$name") || place=/usr/sbin/$name
    mv -f "$name" "$place" || exit 1
done
"""
"""Shell script that moves each program to the place of the program of the same name, or to /usr/sbin."""


def read_programs(folder: str) -> Mapping[str, bytes]:
    """Return the files of a folder by name.

    Raises CannotHere if it cannot be read, if it holds anything else, or if this is root and another user could change
    a file: a program of somebody else would make the figures of the virtual machine.
    """
    contents: dict[str, bytes] = {}
    try:
        for path in sorted(Path(folder).iterdir()):
            if not path.is_file() or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}", path.name):
                raise CannotHere(
                    f"the folder of programs {folder} contains {path.name!r}, which is no program",
                    "put only files there, named with letters, digits and . _ + -",
                )
            require_trusted(path, "the virtual machine's program")
            if sum(map(len, contents.values())) + path.stat().st_size > MOST_BYTES:
                raise CannotHere(f"the programs in {folder} have more than {MOST_BYTES / 1e6:.0f} MB", "strip them")
            contents[path.name] = path.read_bytes()
    except OSError as error:
        raise CannotHere(f"the folder of programs {folder} cannot be read: {error.strerror}") from None
    if not contents:
        raise CannotHere(f"the folder of programs {folder} is empty", "put the programs there")
    return contents


def programs_text(contents: Mapping[str, bytes]) -> str:
    """Return each program's name with the beginning of its SHA-256, so that two builds differ."""
    return ", ".join(f"{name} {sha256(content).hexdigest()[:12]}" for name, content in contents.items())


def handed_programs(contents: Mapping[str, bytes]) -> dict[str, tuple[int, bytes]]:
    """Return the entries of the programs in the archive that a machine gets at its boot."""
    if not contents:
        return {}
    files = {f"{HANDED_FOLDER}/{name}": (cpio.PROGRAM_MODE, content) for name, content in contents.items()}
    return {HANDED_FOLDER: (cpio.FOLDER_MODE, b""), **files}
