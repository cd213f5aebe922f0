"""A file that lists the commands that undo a run's changes to this machine's own network.

Each undo is written before the change is made. `tunnelbench clean` reads the file to undo the changes of a killed run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tunnelbench.host.command import run_command

JOURNAL_FILE = "changes"

OWN_PID = "{pid}"
"""Placeholder in an undo command for the process that runs it: a device returns to that process's namespace."""

WRITE_FILE = "{write}"
"""First word of an undo command that is no program: it writes the third word into the file that the second names."""

UndoCommand = Sequence[str]


class UndoJournal:
    """The commands that undo the changes of a run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL_FILE
        self._noted: set[str] = set()
        """Lines that the journal has already."""

    def note(self, *undo: UndoCommand) -> None:
        """Write the commands that undo a change into the journal, once; call this before the change.

        Each undo command must have no effect if there is nothing to undo.
        """
        line = _line(undo)
        if line in self._noted:
            return
        with self.path.open("a") as file:
            file.write(f"\n{line}\n")  # a full disk may have cut off the last line
        self._noted.add(line)

    def note_file(self, path: str, value: str) -> None:
        """Note the value that a file of the kernel has before a change."""
        self.note([WRITE_FILE, path, value])

    def has(self, *undo: UndoCommand) -> bool:
        """Return True if this object has written these commands into the journal."""
        return _line(undo) in self._noted

    def drop(self, *undo: UndoCommand) -> None:
        """Remove the commands of a change that was not made from the journal, in one step."""
        line = _line(undo)
        self._noted.discard(line)
        kept = [each for each in self.path.read_text().splitlines(keepends=True) if each.rstrip("\n") != line]
        draft = self.path.with_name(f"{JOURNAL_FILE}.new")
        draft.write_text("".join(kept))
        draft.replace(self.path)

    def entries(self) -> list[list[UndoCommand]]:
        """Return the undo commands of each change, the first change first.

        Ignores a line that is cut off: the change that it announces was not made.
        """
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                commands = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_list(commands, _is_command):
                found.append(commands)
        return found

    def undo_all(self) -> int:
        """Undo all changes, the last first, and return their number; does nothing when called twice."""
        entries = self.entries()
        for commands in reversed(entries):
            for command in commands:
                if command[0] == WRITE_FILE:
                    _write(*command[1:])
                    continue
                run_command([str(os.getpid()) if word == OWN_PID else word for word in command], check=False)
        self.path.unlink(missing_ok=True)
        self._noted.clear()
        return len(entries)


def _write(path: str, value: str) -> None:
    """Write a value into a file of the kernel, if there still is one: its device may have gone."""
    with suppress(OSError, ValueError):  # a journal may be damaged: a pipe would wait, and half a character is no text
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_TRUNC)
        with os.fdopen(file, "w") as opened:
            opened.write(value)


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    """Return True for a list that is not empty, each element of which fits."""
    return isinstance(value, list) and bool(value) and all(fits(each) for each in value)


def _is_command(value: Any) -> bool:
    """Return True for an undo command, with the two words that follow WRITE_FILE."""
    is_words = _is_list(value, lambda word: isinstance(word, str) and "\0" not in word)
    return is_words and (value[0] != WRITE_FILE or len(value) == len((WRITE_FILE, "path", "value")))


def _line(undo: Sequence[UndoCommand]) -> str:
    """Return the line of the journal for the commands that undo one change."""
    return json.dumps([list(command) for command in undo])
