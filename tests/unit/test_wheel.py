"""The package as a stranger gets it: source archive, built and installed by pip into an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import tunnelbench

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tunnelbench"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the package and nothing else, made without a network.

    The build tool and the dependencies come from the environment of the tests through PYTHONPATH, where the
    package itself is not: an editable install is a .pth file, which PYTHONPATH does not follow.
    """
    folder = tmp_path_factory.mktemp("wheel")
    tools = Path(sys.executable).parent
    run(str(tools / "maturin"), "sdist", "--out", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", str(archive))
    return folder / "venv"


def run(*command: str) -> str:
    """Run a command to its end and return its output; anything but success fails the test with it."""
    tools = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "CARGO_NET_OFFLINE": "true",
    }
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}"
    return result.stdout


def test_the_wheel_holds_every_file_of_the_package(installed: Path) -> None:
    def files(package: Path) -> set[str]:
        return {
            str(path.relative_to(package))
            for path in package.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    (package,) = installed.glob("lib/python*/site-packages/tunnelbench")
    assert files(package) == files(SOURCE)


def test_both_programs_run_from_the_installed_wheel(installed: Path) -> None:
    version = tunnelbench.__version__
    assert run(str(installed / "bin" / "tunnelbench"), "--version") == f"tunnelbench {version}\n"
    assert run(str(installed / "bin" / "tunnelbench-engine"), "--version") == f"tunnelbench-engine {version}\n"


def test_the_package_and_the_crate_have_one_version(installed: Path) -> None:
    crate = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())
    assert tunnelbench.__version__ == crate["package"]["version"]
    metadata = run(str(installed / "bin" / "python"), "-m", "pip", "show", "tunnelbench")
    assert f"Version: {tunnelbench.__version__}\n" in metadata


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
