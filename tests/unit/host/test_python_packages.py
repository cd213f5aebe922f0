"""The hint for a missing Python package is a command that works in the environment of the program."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.unit.test_repository import imported_modules

from tunnelbench.host import python_packages
from tunnelbench.host.python_packages import CHARTS, GUEST, LABGRID, POSTGRESQL, RACKS, SERVE, install_hint

ROOT = Path(__file__).parents[3]


def test_the_packages_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {name: wanted[0].partition(">=")[0] for name, wanted in extras.items()}
    assert names == {
        "charts": CHARTS,
        "guest": GUEST,
        "labgrid": LABGRID,
        "postgresql": POSTGRESQL,
        "racks": RACKS,
        "serve": SERVE[0],
    }
    assert [wanted.partition(">=")[0] for wanted in extras["serve"]] == list(SERVE)


def test_the_extra_racks_alone_brings_what_the_package_racks_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    always, racks = (
        {name for each in wanted for name in distributions(each)}
        for wanted in (project["dependencies"], project["optional-dependencies"]["racks"])
    )
    imported = {
        module.partition(".")[0]
        for path in (ROOT / "src" / "tunnelbench" / "racks").glob("*.py")
        for module in imported_modules(path.read_text())
    }
    found = {name.replace("_", "-") for name in imported - sys.stdlib_module_names - {"tunnelbench"}}
    assert "croniter" in found
    assert found <= always | racks
    assert not racks & always


def distributions(requirement: str) -> list[str]:
    """Return the name of a required package, and those of its extras with that name in front: `psycopg-pool`."""
    name, _, extras = re.split("[<>=!]", requirement)[0].rstrip("]").partition("[")
    return [name, *(f"{name}-{extra}" for extra in extras.split(",") if extra)]


def test_where_there_is_pip_it_is_the_pip_of_the_same_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    monkeypatch.setattr(python_packages, "find_spec", lambda _name: True)
    monkeypatch.setattr(sys, "executable", python)
    hint = install_hint(POSTGRESQL)
    assert hint == f"{python} -m pip install 'psycopg[binary]'"
    dry = [*shlex.split(hint)[:4], "--dry-run", "--no-index", "no-such-package"]
    result = subprocess.run(dry, capture_output=True, text=True, check=False)
    assert "No matching distribution" in result.stderr  # pip took the command


def test_without_pip_it_is_uv_from_the_path_or_of_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(python_packages, "find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "executable", "/a b/python")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_hint(GUEST) == "uv pip install --python '/a b/python' virtme-ng"
    uv = tmp_path / ".cache" / "uv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.touch()
    assert install_hint(GUEST) == f"{uv} pip install --python '/a b/python' virtme-ng"
    (tmp_path / "uv").touch(mode=0o755)
    assert install_hint(GUEST) == "uv pip install --python '/a b/python' virtme-ng"
