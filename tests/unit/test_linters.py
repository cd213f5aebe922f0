"""The linters, each as a test; one that is missing is skipped, and in CI a skip is a failure."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SHELLS = {"sh", "ash", "bash", "dash"}
LINTERS = {
    "ruff check .": "ruff --version",
    "ruff format --check .": "ruff --version",
    "mypy": "mypy --version",
    "lint-imports --no-cache": "lint-imports --help",
    "actionlint": "actionlint -version",
    "zizmor --offline --quiet .github/workflows": "zizmor --version",
    "cargo fmt --check": "cargo fmt --version",
    "cargo clippy --quiet --locked --all-targets -- -D warnings": "cargo clippy --version",
}
"""The command of each linter, and a command that fails where the linter is not installed."""


def lint(command: str, probe: str, *files: str) -> None:
    """Run a linter over the tree; its complaints become the failure."""
    program, *arguments = command.split()
    beside_python = Path(sys.executable).with_name(program)
    found = str(beside_python) if beside_python.exists() else shutil.which(program)
    if found is None or run(found, *probe.split()[1:]).returncode != 0:
        pytest.skip(f"linter missing: {probe}")
    result = run(found, *arguments, *files)
    if result.returncode != 0:
        pytest.fail(f"{command}\n{result.stdout}{result.stderr}", pytrace=False)


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def tracked_files() -> list[Path]:
    """Files that are in git or about to be."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def is_shell_script(path: Path) -> bool:
    with path.open("rb") as file:
        first_line = file.readline(128)
    return first_line.startswith(b"#!") and first_line.decode().split("/")[-1].split()[-1] in SHELLS


@pytest.mark.parametrize("command", LINTERS)
def test_a_linter_has_no_complaint(command: str) -> None:
    lint(command, LINTERS[command])


def test_shell_scripts_pass_shellcheck() -> None:
    scripts = [str(path.relative_to(ROOT)) for path in tracked_files() if is_shell_script(path)]
    assert "scripts/install-debian" in scripts
    lint("shellcheck", "shellcheck --version", *scripts)


def test_pre_commit_runs_the_same_linters() -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = {hook["entry"].removeprefix(".venv/bin/") for repo in configuration["repos"] for hook in repo["hooks"]}
    assert entries == {*LINTERS, "shellcheck"}
