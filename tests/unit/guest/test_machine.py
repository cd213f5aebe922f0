"""Tests of the preparation of a guest on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.guest import machine


@pytest.mark.parametrize("folder", ["/", "the current folder"])
def test_no_python_module_of_the_current_folder_is_used_for_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    for name in ("logging", "pydantic", "shlex"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'used')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    # Two safeguards, each alone: programs start in /, and Python takes no modules from where it starts.
    monkeypatch.setattr("tunnelbench.host.command.START_FOLDER", "/" if folder == "/" else str(tmp_path))
    monkeypatch.setattr(machine, "PYTHON", machine.PYTHON[:1] if folder == "/" else machine.PYTHON)
    machine._compile_worker(tmp_path / "cache")
    assert not (tmp_path / "used").exists()
