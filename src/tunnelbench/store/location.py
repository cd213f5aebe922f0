"""The default place of the store, in the folder of the user's data."""

from __future__ import annotations

import os
from pathlib import Path


def default_path() -> Path:
    """Return `$XDG_DATA_HOME/tunnelbench/results.sqlite`.

    A relative XDG_DATA_HOME is ignored, as the XDG Base Directory Specification asks for.
    """
    named = Path(os.environ.get("XDG_DATA_HOME", ""))
    data_home = named if named.is_absolute() else Path.home() / ".local" / "share"
    return data_home / "tunnelbench" / "results.sqlite"


def make_private_folders(directory: Path) -> None:
    """Make a folder and the missing folders above it, which only their user can read (mode 0700)."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
