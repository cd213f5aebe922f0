"""Files that `make docs` writes from the adapters for a release; until then they may lack new tunnels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tunnelbench.tunnel import adapters

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
UNRELEASED = re.compile(r"\A[^#]*# [^#]*## \S+ - unreleased\n")
"""The beginning of a CHANGELOG.md whose newest version is not released."""


def faults(kinds: Sequence[str], expected: Sequence[str], changelog: str) -> list[str]:
    """Return the faults of a file that names `kinds` of the `expected` ones; one may be missing before a release."""
    unknown = [f"there is no {kind}" for kind in kinds if kind not in adapters()]
    missing = [f"{kind} is missing" for kind in expected if kind not in kinds]
    return unknown if UNRELEASED.match(changelog) else unknown + missing
