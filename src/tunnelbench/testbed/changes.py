"""Changes of this machine's own network, noted before they are made, so that whoever comes later can undo them.

The list is a file in the run's folder: `tunnelbench clean` undoes what a killed run has left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tunnelbench.host.command import run_command

FILE = "changes"

HERE = "{pid}"
"""In a command stands for the process that runs it: its network namespace is where a device goes back to."""

Command = Sequence[str]


class Changes:
    """What is to be undone in the folder of a run, the last change first."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def note(self, *undo: Command) -> None:
        """Before a change: the commands that undo it, in order. Each does no harm where there is nothing to undo."""
        with self.path.open("a") as file:
            file.write(json.dumps([list(command) for command in undo]) + "\n")

    def left(self) -> list[list[Command]]:
        """What has been noted, the first change first; a line that was not written to its end was not acted on."""
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
        return found

    def undo_all(self) -> int:
        """Undo everything; returns how many changes there were. Does no harm when called twice."""
        entries = self.left()
        for commands in reversed(entries):
            for command in commands:
                run_command([str(os.getpid()) if word == HERE else word for word in command], check=False)
        self.path.unlink(missing_ok=True)
        return len(entries)
