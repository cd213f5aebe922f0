"""Processes of QEMU that belong to runs, by the names of their machines."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MACHINE_PREFIX = "tunnelbench-"
"""Beginning of a machine's name; the mark of its run follows, so that `clean` finds the process."""


def name_option(name: str) -> str:
    """Return the value of QEMU's option -name for a machine; its threads get names, too."""
    return f"{MACHINE_PREFIX}{name},debug-threads=on"


def machine_processes(name: str) -> list[int]:
    """List the processes of QEMU whose machine has a name that matches a regular expression."""
    wanted = re.compile(name_option(name).encode())
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"-name" in words and any(wanted.fullmatch(word) for word in words):
                found.append(int(process.name))
    return found
