"""A build of the packet engine obeys no settings that another user has put into a folder above the clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "scripts" / "rust"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project in a folder with planted settings, which make cargo start a program that leaves a file `started`."""
    settings = tmp_path / ".cargo" / "config.toml"
    settings.parent.mkdir()
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\ntouch {tmp_path}/started\nexec "$@"\n')
    wrapper.chmod(0o755)
    settings.write_text(f'[build]\nrustc-wrapper = "{wrapper}"\n')
    project = tmp_path / "clone"
    (project / "src").mkdir(parents=True)
    (project / "Cargo.toml").write_text('[package]\nname = "empty"\nversion = "0.1.0"\nedition = "2021"\n')
    (project / "src" / "main.rs").write_text("fn main() {}\n")
    return project


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")
@pytest.mark.parametrize("tool", ["cargo", "rustc"])
def test_no_settings_above_a_clone_are_obeyed(clone: Path, tool: str) -> None:
    path = os.environ.get("RUST_PATH", os.environ["PATH"])
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(clone / "target"),
        "RUST_PATH": path,
        "PATH": f"{FOLDER}{os.pathsep}{path}",
    }
    (clone.parent / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "none-of-that-name"\n')
    words = ["build", "--quiet", "--offline"] if tool == "cargo" else ["--version"]
    done = subprocess.run([tool, *words], cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (clone / "target").exists() == (tool == "cargo")
    assert not (clone.parent / "started").exists()


def test_make_and_the_installer_use_the_tools_that_obey_no_such_settings() -> None:
    assert "export PATH := $(CURDIR)/scripts/rust:$(PATH)" in (ROOT / "Makefile").read_text()
    assert "PATH=$PWD/scripts/rust:$PATH" in (ROOT / "scripts" / "install-debian").read_text()


def test_uv_takes_the_clone_for_no_member_of_a_workspace_above_it() -> None:
    assert "workspace" in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
