"""What is wrong in a file or a `--set` flag, one line each, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan.locate import KeyPath, Located
from tunnelbench.plan.wording import key_text


@dataclass(frozen=True)
class FileError:
    """One fault; its text is `file:line:column: key: what is wrong`."""

    file: str
    """The file as the user named it, or the whole flag, such as `--set tcp.duration_s=2`."""
    line: int | None
    """From 1; a fault of the file as a whole is on line 1. None: the fault is in a flag."""
    column: int | None
    """In characters, from 1; None: the fault is in a flag."""
    key: str
    """Dotted path with blocks counted from 1, such as `tunnel[2].cipher`; `TOML` or `file` where no key is at fault."""
    message: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        if self.line is None:  # the flag's text holds the key
            return printable(f"{self.file}: {self.message}")
        return printable(f"{self.file}:{self.line}:{self.column}: {self.key}: {self.message}")


class FileErrors(WrongInput):
    """Everything that is wrong, in the order of the file, flags last."""

    def __init__(self, errors: Iterable[FileError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: (error.line is None, error.line or 0, error.column or 0)))
        super().__init__("\n".join(str(error) for error in self.errors))


def whole_file_error(file: str, message: str, line: int = 1, column: int = 1) -> FileError:
    """A fault that belongs to no key."""
    return FileError(file, line, column, "file", message)


@dataclass
class Faults:
    """Collects the faults of one file and gives each its place."""

    file: str
    located: Located
    flags: Mapping[KeyPath, str] = field(default_factory=dict)
    """The flag that set a key, by the key."""
    partial: bool = False
    """Lines were left out because they are no TOML: nothing can be said about what is missing."""
    errors: dict[FileError, None] = field(default_factory=dict)
    """An ordered set: many combinations of options share a fault."""

    def add(self, path: KeyPath, message: str, *, needs_whole_file: bool = False) -> None:
        """Note a fault once at the key, or where there is no such key, at the nearest table around it."""
        if needs_whole_file and self.partial:
            return
        self.errors[self._place(path, message)] = None

    def extend(self, errors: Iterable[FileError]) -> None:
        """Note faults that have their place already."""
        self.errors.update(dict.fromkeys(errors))

    def line_of(self, path: KeyPath) -> int:
        """Line of a key of the file; 1 where it is not in the file."""
        position = self.located.position(path)
        return position.line if position else 1

    def _place(self, path: KeyPath, message: str) -> FileError:
        around = [path[:length] for length in range(len(path), 0, -1)]
        for place in around:  # flags first: what a flag replaced is still in the file, and not at fault
            if flag := self.flags.get(place):
                return FileError(flag, None, None, key_text(path), message)
        for place in around:
            if position := self.located.position(place):
                return FileError(self.file, position.line, position.column, key_text(path), message)
        return FileError(self.file, 1, 1, key_text(path) or "file", message)
