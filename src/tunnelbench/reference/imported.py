"""The published results that the user imported, in a folder next to the default store.

Each has the same two files as a published result that ships. Their names begin with `imported-`, which no other
published result has.
"""

from __future__ import annotations

import re
from pathlib import Path

from tunnelbench.host.input_files import read_regular
from tunnelbench.host.trust import require_trusted_folder
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.reference import IMPORTED_PREFIX
from tunnelbench.store.location import default_path, make_private_folders

NAME = re.compile(rf"{IMPORTED_PREFIX}[a-z0-9](?:[a-z0-9.-]{{0,58}}[a-z0-9])?")
LARGEST_IMPORTED_BYTES = 16 << 20
"""Largest file of an imported result [bytes]."""


def imported_folder() -> Path:
    """Return the folder of the imported results, which may not exist."""
    return default_path().with_name("references")


def imported_names() -> list[str]:
    """Return the names of the imported results, sorted."""
    try:
        found = {path.name for path in imported_folder().iterdir()}
    except OSError:
        return []
    names = (name.removesuffix(".csv") for name in found if name.endswith(".csv"))
    return sorted(name for name in names if NAME.fullmatch(name) and f"{name}.toml" in found)


def imported_texts(name: str) -> tuple[str, str]:
    """Return the description and the table of an imported result. Raises WrongInput if they cannot be read."""
    return _text(imported_folder() / f"{name}.toml"), _text(imported_folder() / f"{name}.csv")


def _text(path: Path) -> str:
    try:
        content = read_regular(path, LARGEST_IMPORTED_BYTES)
        if len(content) > LARGEST_IMPORTED_BYTES:
            raise WrongInput(
                f"{path} is larger than {LARGEST_IMPORTED_BYTES >> 20} MiB", "delete it, and import it again"
            )
        return content.decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"{path} cannot be read: {why}", "delete it, and import it again") from None


def named(wanted: str) -> str:
    """Return the name of an imported result for the words of a user or of a file's name."""
    letters = re.sub(r"[^a-z0-9]+", "-", wanted.lower().removeprefix(IMPORTED_PREFIX))[:60].strip("-")
    return f"{IMPORTED_PREFIX}{letters or 'result'}"


def made_folder() -> Path:
    """Return the folder of the imported results, which is made if it does not exist.

    Raises CannotHere if it cannot be made, or if this is root and another user could change it.
    """
    folder = imported_folder()
    hint = "set XDG_DATA_HOME to a folder that only you can write to"
    try:
        make_private_folders(folder)
    except OSError as error:
        raise CannotHere(f"{folder} cannot be made: {error.strerror or error}", hint) from None
    require_trusted_folder(folder, "the folder", hint)
    return folder
