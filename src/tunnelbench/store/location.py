"""The default place of the store."""

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
