"""The flag `--set key=value`, which changes one key of a plan or testbed for one run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any, NamedTuple

from tunnelbench.plan.errors import FileError, FileErrors
from tunnelbench.plan.key_positions import KeyPath
from tunnelbench.plan.messages import quoted

_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Override(NamedTuple):
    """A key and its new value."""

    flag: str
    """Flag as in the user's command line, for messages."""
    path: tuple[str, ...]
    value: Any


def parse_override(text: str) -> Override:
    """Read `tcp.duration_s=2`; a value that is not TOML becomes a string. Raises FileErrors."""
    flag = f"--set {text}"
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise _wrong(flag, "is written --set key=value, such as --set tcp.duration_s=2")
    if re.match(r"tunnel\b", key):
        raise _wrong(flag, "tunnels are changed in the plan file, not by --set")
    if not _KEY.fullmatch(key):
        raise _wrong(flag, f"{quoted(key)} is not a key; write it as tcp.duration_s")
    if not value.isprintable():
        raise _wrong(flag, "the value holds a character that cannot be printed")
    return Override(flag, tuple(key.split(".")), _value(flag, value))


def apply_overrides(
    data: dict[str, Any], overrides: Iterable[Override]
) -> tuple[dict[str, Any], dict[KeyPath, str], list[FileError]]:
    """Return changed data, the flags by the keys that they changed, and the errors; `data` stays unchanged.

    A later flag for the same key replaces an earlier one.
    """
    result = dict(data)
    flags: dict[KeyPath, str] = {}
    errors: list[FileError] = []
    for flag, path, value in overrides:
        table = result
        for depth, part in enumerate(path[:-1], start=1):
            if part not in table:
                flags[path[:depth]] = flag
            inner = table.get(part, {})
            if not isinstance(inner, dict):
                errors.extend(_wrong(flag, f"{part} is not a table").errors)
                break
            table[part] = dict(inner)
            table = table[part]
        else:
            table[path[-1]] = value
            flags[path] = flag
    return result, flags, errors


def _value(flag: str, value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        if value[0] in "[{\"'":
            raise _wrong(flag, f"{quoted(value)} is not a TOML value: quotes or brackets are not closed") from None
        return value


def _wrong(flag: str, message: str) -> FileErrors:
    return FileErrors([FileError(flag, None, None, "", message)])
