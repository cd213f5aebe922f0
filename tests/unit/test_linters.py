"""The linters, each as a test; one that is missing is skipped, and in CI a skip is a failure."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELLS = {"sh", "ash", "bash", "dash"}


def lint(program: str, *arguments: str, probe: tuple[str, ...] = ("--version",)) -> None:
    """Run a linter over the tree; its complaints become the failure."""
    beside_python = Path(sys.executable).with_name(program)
    found = str(beside_python) if beside_python.exists() else shutil.which(program)
    if found is None or subprocess.run([found, *probe], cwd=ROOT, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"linter missing: {' '.join((program, *probe))}")
    result = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        pytest.fail(f"{program} {' '.join(arguments)}\n{result.stdout}{result.stderr}", pytrace=False)


def tracked_files() -> list[Path]:
    """Files that are in git or about to be."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def is_shell_script(path: Path) -> bool:
    with path.open("rb") as file:
        first_line = file.readline(128)
    return first_line.startswith(b"#!") and first_line.decode().split("/")[-1].split()[-1] in SHELLS


def test_ruff_has_no_complaint() -> None:
    lint("ruff", "check", ".")


def test_python_is_formatted() -> None:
    lint("ruff", "format", "--check", ".")


def test_types_are_right() -> None:
    lint("mypy")


def test_imports_point_down() -> None:
    lint("lint-imports", "--no-cache", probe=("--help",))


def test_shell_scripts_pass_shellcheck() -> None:
    scripts = [str(path.relative_to(ROOT)) for path in tracked_files() if is_shell_script(path)]
    assert "scripts/install-debian" in scripts
    lint("shellcheck", *scripts)


def test_rust_is_formatted() -> None:
    lint("cargo", "fmt", "--check", probe=("fmt", "--version"))


def test_clippy_has_no_complaint() -> None:
    lint(
        "cargo", "clippy", "--quiet", "--locked", "--all-targets", "--", "-D", "warnings", probe=("clippy", "--version")
    )


def test_rust_tests_pass() -> None:
    lint("cargo", "test", "--quiet", "--locked")
