"""Errors of a file or of a `--set` flag, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan.key_positions import KeyPath, Located
from tunnelbench.plan.messages import key_text


@dataclass(frozen=True)
class FileError:
    """One error; its text is `file:line:column: key: message`."""

    file: str
    """File as the user named it, or the whole flag, such as `--set tcp.duration_s=2`."""
    line: int | None
    """Line from 1; an error of the whole file is on line 1. None: the error is in a flag."""
    column: int | None
    """Column from 1 [characters]; None: the error is in a flag."""
    key: str
    """Dotted path with blocks counted from 1, such as `tunnel[2].cipher`; `TOML` for syntax, `file` for the file."""
    message: str
    """Text that says what is wrong, and what would be right."""

    def __str__(self) -> str:
        if self.line is None:  # the text of the flag names the key
            return printable(f"{self.file}: {self.message}")
        return printable(f"{self.file}:{self.line}:{self.column}: {self.key}: {self.message}")


class FileErrors(WrongInput):
    """All errors of a file, in the order of its lines; errors of flags come last."""

    def __init__(self, errors: Iterable[FileError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: (error.line is None, error.line or 0, error.column or 0)))
        super().__init__("\n".join(str(error) for error in self.errors))


def whole_file_error(file: str, message: str, line: int = 1, column: int = 1) -> FileError:
    """Return an error that belongs to no key."""
    return FileError(file, line, column, "file", message)


@dataclass
class Faults:
    """The errors of one file, each with its position."""

    file: str
    located: Located
    flags: Mapping[KeyPath, str] = field(default_factory=dict)
    """Flags by the key that they set."""
    errors: dict[FileError, None] = field(default_factory=dict)
    """Errors as an ordered set, because combinations of options share errors."""

    def add(self, path: KeyPath, message: str) -> None:
        """Add an error at the key, or at the nearest table around it if the file has no such key."""
        self.errors[self._place(path, message)] = None

    def extend(self, errors: Iterable[FileError]) -> None:
        """Add errors that have a position already."""
        self.errors.update(dict.fromkeys(errors))

    def line_of(self, path: KeyPath) -> int:
        """Return the line of a key; 1 if the file has no such key."""
        position = self.located.position(path)
        return position.line if position else 1

    def _place(self, path: KeyPath, message: str) -> FileError:
        around = [path[:length] for length in range(len(path), 0, -1)]
        for place in around:  # flags first: the file still has the value that a flag replaced
            if flag := self.flags.get(place):
                return FileError(flag, None, None, key_text(path), message)
        for place in around:
            if position := self.located.position(place):
                return FileError(self.file, position.line, position.column, key_text(path), message)
        return FileError(self.file, 1, 1, key_text(path) or "file", message)
