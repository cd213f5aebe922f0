"""Archives that the kernel unpacks when it starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tunnelbench.qemu import cpio


def test_an_archive_is_unpacked_by_another_program_with_its_modes_and_contents(tmp_path: Path) -> None:
    made = cpio.archive(
        {
            "folder": (cpio.FOLDER_MODE, b""),
            "folder/odd": (cpio.FILE_MODE, b"12345"),
            "folder/key": (cpio.PRIVATE_FILE_MODE, b"secret"),
            "init": (cpio.PROGRAM_MODE, b"#!/bin/sh\n"),
        }
    )
    subprocess.run(["busybox", "cpio", "-i"], input=made, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "folder/odd").read_bytes() == b"12345"
    assert (tmp_path / "folder/key").stat().st_mode == cpio.PRIVATE_FILE_MODE
    assert (tmp_path / "init").stat().st_mode == cpio.PROGRAM_MODE


def test_each_part_of_an_archive_begins_at_a_multiple_of_four_bytes() -> None:
    made = cpio.archive({"a": (cpio.FILE_MODE, b"x"), "bb": (cpio.FILE_MODE, b"yy")})
    starts = [place for place in range(len(made)) if made.startswith(b"070701", place)]
    assert len(starts) == 3
    assert all(place % 4 == 0 for place in (*starts, len(made)))
