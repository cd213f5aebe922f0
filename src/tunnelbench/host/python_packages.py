"""Commands that add an optional Python package to the environment in which TunnelBench is installed."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

CHARTS = "vl-convert-python"
GUEST = "virtme-ng"
LABGRID = "labgrid"
POSTGRESQL = "psycopg[binary]"
RACKS = "procrastinate"
SERVE = ("starlette", "uvicorn")
"""Packages of the extras of pyproject.toml.

Hints name these packages and not `tunnelbench[...]`: in a package index, that name may belong to another author.
"""


def install_hint(*packages: str) -> str:
    """Return the command that installs packages next to TunnelBench: by pip, or by uv where there is no pip."""
    if find_spec("pip"):
        return shlex.join([sys.executable, "-m", "pip", "install", *packages])
    of_clone = Path(sys.prefix).parent / ".cache/uv/bin/uv"  # scripts/install-debian puts it there
    uv = "uv" if shutil.which("uv") or not of_clone.is_file() else str(of_clone)
    return shlex.join([uv, "pip", "install", "--python", sys.executable, *packages])
