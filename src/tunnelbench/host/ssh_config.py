"""The files of an SSH configuration, and whether root can use them (ssh_config(5))."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tunnelbench.host.input_files import read_regular
from tunnelbench.host.trust import require_trusted, require_trusted_folder
from tunnelbench.model.errors import CannotHere

INCLUDE = re.compile(r'\s*"?include["\s=]+(?P<paths>.*)', re.IGNORECASE)
"""A line that includes other files. ssh accepts a quoted keyword, and `=` after it."""

NOT_FOLLOWED = re.compile(r"[$%\\\0]")
"""Characters of an included path that only ssh interprets (variables, and escaped characters of a pattern), and NUL."""

CONFIG_LIMIT_BYTES = 1_000_000
"""Largest size of one file of an SSH configuration."""


def require_trusted_config(config: str | Path) -> None:
    """Raises CannotHere if this is root and another user could change an SSH configuration or a file that it includes.

    ssh itself looks only at the configuration in ~/.ssh. A file that cannot be read is left to ssh, which names it.
    """
    if os.geteuid() != 0:
        return
    waiting, seen = [Path(config)], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        require_trusted(path, "the SSH configuration")
        with suppress(OSError):
            for pattern in _included(path):
                waiting += map(Path, _matching(pattern, path))


def _included(path: Path) -> Iterator[str]:
    """Yield the path or pattern of each file that a file includes. Raises OSError, and CannotHere for other faults."""
    content = read_regular(path, CONFIG_LIMIT_BYTES)
    if len(content) > CONFIG_LIMIT_BYTES:
        raise CannotHere(f"the SSH configuration {path} is larger than {CONFIG_LIMIT_BYTES:,} bytes", "make it smaller")
    for number, line in enumerate(os.fsdecode(content).split("\n"), start=1):
        if found := INCLUDE.match(line):
            try:
                words = shlex.split(found["paths"], comments=True)
            except ValueError:
                raise _unreadable(path, f"line {number}") from None
            yield from words


def _matching(pattern: str, path: Path) -> list[str]:
    """Return the files that match a pattern of an included path. Raises CannotHere if another user could add one."""
    if NOT_FOLLOWED.search(pattern):
        raise _unreadable(path, f'the included file "{pattern}"')
    path_of_user = pattern if pattern.startswith(("/", "~")) else f"~/.ssh/{pattern}"
    pattern = os.path.expanduser(path_of_user)  # noqa: PTH111 - Path.expanduser raises if there is no such user
    if wildcard := re.search(r"[*?\[]", pattern):
        folder = Path(pattern[: wildcard.start()] + "*").parent
        require_trusted_folder(folder, "the SSH configuration in", "let only root write to it, or include other files")
        return glob.glob(pattern)  # noqa: PTH207 - like glob(7), it leaves out hidden files
    return [pattern]


def _unreadable(path: Path, what: str) -> CannotHere:
    return CannotHere(
        f"TunnelBench cannot tell which files the SSH configuration {path} includes ({what}), and this is root",
        "include files by their plain paths",
    )
