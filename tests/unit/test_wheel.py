"""The package as a user gets it: a wheel, built from the source archive and installed into an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.unit.builders import make_records, make_run

import tunnelbench
from tunnelbench.report.exchange import export

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tunnelbench"


def build(folder: Path) -> Path:
    """Build the source archive, and from it the wheel, as `make wheel` does, but without a network.

    The build tool comes from the environment of the tests through PYTHONPATH.
    """
    tools = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "CARGO_NET_OFFLINE": "true",
    }
    run(str(tools / "maturin"), "sdist", "--out", str(folder), environment=environment)
    (archive,) = folder.glob("*.tar.gz")
    run(sys.executable, "-m", "venv", str(folder / "builder"))
    wheel = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run(str(folder / "builder" / "bin" / "pip"), *wheel, str(archive), environment=environment)
    (path,) = folder.glob("*.whl")
    return path


def install(wheel: Path, folder: Path) -> Path:
    """Return an environment that holds the wheel and the packages that it declares, and nothing else."""
    run(sys.executable, "-m", "venv", str(folder))
    (packages,) = folder.glob("lib/python*/site-packages")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in with_their_own(declared):
        for file in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            (packages / file).symlink_to(str(distribution(name).locate_file(file)))
    run(str(folder / "bin" / "pip"), "install", "--no-index", "--no-deps", str(wheel))
    return folder


def with_their_own(requirements: list[str]) -> set[str]:
    """Return the names of packages that meet these requirements, and of all that these packages need."""
    names: set[str] = set()
    waiting = [*requirements]
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name not in names and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            names.add(wanted.name)
            waiting += distribution(wanted.name).requires or ()
    return names


def run(*command: str, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output. A command that fails makes the test fail with its output."""
    if environment is None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return result.stdout


def files(package: Path) -> set[str]:
    """Return the paths of a package's files, without those that Python compiled."""
    paths = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(package)) for path in paths}


@pytest.mark.timeout(900)  # it builds the engine
def test_the_wheel_works_in_a_clean_environment_with_every_file_and_the_engine(tmp_path: Path) -> None:
    installed = install(build(tmp_path), tmp_path / "venv")  # the build takes long, so one test checks all
    (package,) = installed.glob("lib/python*/site-packages/tunnelbench")
    assert files(package) == files(SOURCE)
    assert "No broken requirements" in run(str(installed / "bin" / "pip"), "check")
    version = tunnelbench.__version__
    program = str(installed / "bin" / "tunnelbench")
    assert run(program, "--version") == f"tunnelbench {version}\n"
    engine = str(installed / "bin" / "tunnelbench-engine")
    assert run(engine, "--version") == f"tunnelbench-engine {version}\n"
    find = "from tunnelbench.traffic.engine import locate; print(locate())"
    assert run(str(installed / "bin" / "python"), "-c", find) == f"{engine}\n"
    assert "108 in 3 rounds" in run(program, "show", "plan:quick")
    store = ("--store", str(tmp_path / "results.sqlite"))
    (tmp_path / "run.json").write_text(export(make_run(), make_records(1)).text)
    run(program, "import", str(tmp_path / "run.json"), *store)
    (run_id,) = (each["run_id"] for each in json.loads(run(program, "list", "runs", "--json", *store)))
    for name in ("terminal", "html", "csv"):
        assert "openvpn AES-128-GCM" in run(program, "report", run_id, "--format", name, *store)


def test_the_package_and_the_crate_have_one_version() -> None:
    crate = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())
    assert tunnelbench.__version__ == crate["package"]["version"]


def test_the_lock_file_names_the_public_index_only() -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text())
    registries = {source for package in locked["package"] if (source := package["source"].get("registry"))}
    files = [
        file["url"]
        for package in locked["package"]
        for file in (*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ()))
    ]
    assert registries == {"https://pypi.org/simple"}
    assert all(url.startswith("https://files.pythonhosted.org/") for url in files)
