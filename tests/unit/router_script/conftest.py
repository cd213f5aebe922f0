"""The script that runs on routers, under the shells and with the programs that a stock OpenWrt has."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "src" / "tunnelbench" / "data" / "router" / "tunnelbench-dut"

APPLETS = (
    "ash awk cat chmod cp cut df dirname dmesg du env expr find free grep head id kill less ln ls mkdir mkfifo mktemp "
    "mv pgrep pidof ps readlink rm rmdir sed seq sh sleep sort tail tee touch tr uname uniq wc which xargs"
)
"""Applets that OpenWrt's package/utils/busybox/Config-defaults.in builds, without `date`, because the script must not
ask for the time of day. OpenWrt does not build `setsid`, `timeout`, `nohup` and `stat`."""

SHELLS = {
    # Debian's static busybox finds its own applets first, setsid among them.
    "ash, setsid": ("ash", ""),
    "dash, start-stop-daemon": ("dash", "start-stop-daemon"),
    "dash, nothing to detach with": ("dash", ""),
}


WHOLE_SECONDS = "#!/usr/bin/dash\ncase $1 in *.*) exit 1 ;; esac\nexec /usr/bin/busybox sleep $1\n"
"""OpenWrt's sleep (FLOAT_DURATION is off in Config-defaults.in)."""


@dataclass
class Router:
    """A folder that stands for a router's /tmp, and the script on it."""

    tmp: Path
    environment: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.tmp / "tunnelbench-dut-test"

    def command(self, *arguments: object) -> list[str]:
        return [f"{self.environment['PATH']}/sh", str(SCRIPT), *map(str, arguments)]

    def run(self, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment, input=given, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def ok(self, *arguments: object, given: str = "") -> str:
        completed = self.run(*arguments, given=given)
        assert completed.returncode == 0, completed.stderr
        assert not completed.stderr
        return completed.stdout

    def lease(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("lease", "show"))
        return found

    def take(self, seconds: int = 60) -> None:
        self.ok("lease", "take", self.folder, "anna@laptop", seconds)

    def processes(self) -> dict[int, str]:
        """Process numbers and command lines of what runs because of this router."""
        mark = os.fsencode(self.tmp)
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found


def runs(pid: int) -> bool:
    """Return True if a process runs; a zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def make_router(base: Path, shell: str, more: str = "") -> Router:
    programs = base / "bin"
    programs.mkdir()
    (base / "tmp").mkdir()
    for name in f"{APPLETS} {more}".split():
        (programs / name).symlink_to("/usr/bin/busybox")
    if shell == "dash":
        (programs / "sh").unlink()
        (programs / "sh").symlink_to("/usr/bin/dash")
        (programs / "sleep").unlink()
        (programs / "sleep").write_text(WHOLE_SECONDS)
        (programs / "sleep").chmod(0o755)
    tmp = base / "tmp"
    return Router(tmp, {"PATH": str(programs), "TUNNELBENCH_DUT_ROOT": str(tmp), "TUNNELBENCH_DUT_UNDO_LIMIT_S": "1"})


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own: a script that writes to a wrong path leaves no file in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=SHELLS)
def router(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Router]:
    """One for each shell; afterwards nothing of it is left."""
    made = make_router(tmp_path, *SHELLS[request.param])
    yield made
    made.run("clean", "--force", "--all")
    assert list(made.tmp.iterdir()) == []
    assert eventually(lambda: not made.processes()), made.processes()
