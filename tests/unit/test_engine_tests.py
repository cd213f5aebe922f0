"""The packet engine's own tests, which Rust's cargo runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")
def test_the_packet_engine_passes_its_tests() -> None:
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--locked"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}{done.stderr}", pytrace=False)
