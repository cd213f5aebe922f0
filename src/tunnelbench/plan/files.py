"""Files as they come: shipped with the package, or named by a path."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan.errors import FileErrors, whole_file_error
from tunnelbench.plan.wording import did_you_mean, quoted

LARGEST_FILE_BYTES = 1 << 20


class Source(NamedTuple):
    """The text of a file and what it is called."""

    name: str
    """Name of the plan or testbed: the file's without its ending."""
    file: str
    """The file as the user named it."""
    text: str


def shipped_plans() -> list[str]:
    """Names of the plans that come with the package, sorted."""
    return _shipped("plans")


def shipped_testbeds() -> list[str]:
    """Names of the testbeds that come with the package, sorted."""
    return _shipped("testbeds")


def read_plan_source(reference: str) -> Source:
    """Text of a plan by its shipped name or its path; raises WrongInput, FileErrors."""
    return _read_reference(reference, "plans")


def read_testbed_source(reference: str) -> Source:
    """Text of a testbed by its shipped name or its path; raises WrongInput, FileErrors."""
    return _read_reference(reference, "testbeds")


def read_path(path: str) -> Source:
    """Text of the file at a path; raises FileErrors where it is missing, not readable, too large or not text."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise FileErrors([whole_file_error(path, "there is no such file")]) from error
    except IsADirectoryError as error:
        raise FileErrors([whole_file_error(path, "is a directory, not a file")]) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise FileErrors([whole_file_error(path, f"cannot be read: {reason.lower()}")]) from error
    return Source(Path(path).name.removesuffix(".toml"), path, _decode(data, path))


def _folder(kind: str) -> Traversable:
    return files("tunnelbench") / "data" / kind


def _shipped(kind: str) -> list[str]:
    names = (entry.name for entry in _folder(kind).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _read_reference(reference: str, kind: str) -> Source:
    if "/" in reference or reference.endswith(".toml"):
        return read_path(reference)
    shipped = _shipped(kind)
    if reference not in shipped:
        raise WrongInput(
            printable(f"no {kind[:-1]} {quoted(reference)} is shipped{did_you_mean(reference, shipped)}"),
            f"Shipped are {', '.join(shipped)}; a file of your own is named by a path with a / or the ending .toml.",
        )
    file = f"{reference}.toml"
    return Source(reference, file, _decode((_folder(kind) / file).read_bytes(), file))


def _decode(data: bytes, file: str) -> str:
    if len(data) > LARGEST_FILE_BYTES:
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
    """Line and column of what follows these bytes."""
    text = before.decode("utf-8")
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
