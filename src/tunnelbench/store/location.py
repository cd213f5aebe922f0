"""Where the store is unless the user says otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def default_path() -> Path:
    """`$XDG_DATA_HOME/tunnelbench/results.sqlite`; the specification has relative paths ignored."""
    named = Path(os.environ.get("XDG_DATA_HOME", ""))
    data_home = named if named.is_absolute() else Path.home() / ".local" / "share"
    return data_home / "tunnelbench" / "results.sqlite"
