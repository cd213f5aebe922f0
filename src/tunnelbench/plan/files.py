"""Reads the text of plan and testbed files, either shipped with the package or named by a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from tunnelbench.host.input_files import read_regular
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.shipped import shipped_folder, shipped_names
from tunnelbench.model.text import printable
from tunnelbench.plan.errors import FileErrors, whole_file_error
from tunnelbench.plan.messages import did_you_mean, quoted

LARGEST_TOML_BYTES = 1 << 20


class Source(NamedTuple):
    """The text of a file and its names."""

    name: str
    """Name of the plan or testbed. A user's file never has the name of a shipped one."""
    file: str
    """File as the user named it."""
    text: str


def read_plan_source(reference: str, shipped_tunnels: Mapping[str, Sequence[Mapping[str, Any]]]) -> Source:
    """Return the text of a plan by its shipped name or its path. Raises WrongInput, FileErrors.

    `shipped_tunnels` are further `[[tunnel]]` entries of shipped plans, by the plan's name.
    """
    source = _read_reference(reference, "plans")
    blocks = [f"\n[[tunnel]]\n{tomli_w.dumps(entry)}" for entry in shipped_tunnels.get(reference, ())]
    return source._replace(text=source.text + "".join(blocks))


def read_testbed_source(reference: str) -> Source:
    """Read a testbed by its shipped name or its path. Raises WrongInput, FileErrors."""
    return _read_reference(reference, "testbeds")


def read_path(path: str) -> Source:
    """Read the file at a path. Raises FileErrors if it is missing, not readable, too large or not text."""
    try:
        data = read_regular(path, LARGEST_TOML_BYTES)
    except FileNotFoundError as error:
        raise FileErrors([whole_file_error(path, "there is no such file")]) from error
    except IsADirectoryError as error:
        raise FileErrors([whole_file_error(path, "is a directory, not a file")]) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise FileErrors([whole_file_error(path, f"cannot be read: {reason.lower()}")]) from error
    name = Path(path).name
    return Source(name if name.endswith(".toml") else f"./{name}", path, _decode(data, path))


def _read_reference(reference: str, kind: str) -> Source:
    if "/" in reference or reference.endswith(".toml"):
        return read_path(reference)
    shipped = shipped_names(kind)
    if reference not in shipped:
        raise WrongInput(
            printable(f"no {kind[:-1]} {quoted(reference)} is shipped{did_you_mean(reference, shipped)}"),
            f"Shipped are {', '.join(shipped)}; a file of your own is named by a path with a / or the ending .toml.",
        )
    file = f"{reference}.toml"
    return Source(reference, file, _decode((shipped_folder(kind) / file).read_bytes(), file))


def _decode(data: bytes, file: str) -> str:
    if len(data) > LARGEST_TOML_BYTES:
        raise FileErrors([whole_file_error(file, "is larger than 1 MiB, which no plan or testbed needs")])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text (byte 0x{data[error.start]:02x})"
        raise FileErrors([whole_file_error(file, message, *_place(data[: error.start]))]) from error
    if "\0" in text:
        raise FileErrors([whole_file_error(file, "holds a NUL byte", *_place(data[: data.index(0)]))])
    text = text.removeprefix("\ufeff")  # Windows editors put it at the start of UTF-8 files
    if not text.strip():
        raise FileErrors([whole_file_error(file, "is empty")])
    return text


def _place(before: bytes) -> tuple[int, int]:
    """Return line and column of the byte that follows these bytes."""
    text = before.decode("utf-8")
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
