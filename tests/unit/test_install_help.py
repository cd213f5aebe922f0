"""The script that installs manual pages and completion scripts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install-help"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_whatever_the_umask_others_read_what_is_installed_and_cannot_write_to_it(tmp_path: Path, umask: int) -> None:
    program, prefix = tmp_path / "tunnelbench", tmp_path / "prefix"
    program.write_text('#!/bin/sh\nif [ "$1" = man ]; then touch "$3/tunnelbench.1"; else echo "complete $2"; fi\n')
    program.chmod(0o755)
    before = os.umask(umask)
    try:
        subprocess.run([SCRIPT, program, prefix], check=True)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in prefix.rglob("*") if path.is_file()}
    assert modes == dict.fromkeys(("tunnelbench.1", "tunnelbench", "_tunnelbench", "tunnelbench.fish"), 0o644)
    assert {path.stat().st_mode & 0o777 for path in prefix.rglob("*") if path.is_dir()} == {0o755}
