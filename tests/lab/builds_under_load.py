"""Comparison of builds on a virtual router, beside two programs that use a CPU each.

A build that is 5 % slower is found each time, and an equal build is a tie.

`make test` leaves it out, because each comparison measures two runs on the virtual router; `make test-builds` runs it,
and tests/lab/test_builds.py is a short version.
Throughput and instructions per packet are compared, as in examples/plans/two-builds.toml.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TUNNELBENCH
from tests.lab.slower_build import instructions_per_byte, put_slower, put_usual

TIMES = int(os.environ.get("TUNNELBENCH_BUILDS", "5"))
"""Number of comparisons of each kind."""
SLOWER_BY = 0.05
"""Work that the slower build adds, as a share of the instructions of a packet of the usual build."""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(TIMES * 1200 + 600)]

PLAN = """
rounds = 6
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 4
interval_s = 0.5
[[tunnel]]
kind = "openvpn"
name = "build"
program = "/usr/sbin/openvpn-build"
cipher = "AES-128-GCM"
"""
BURNER = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Uses a CPU until the program that started it has ended."""
COMPARED = {"Mbit/s": "slower", "instructions/packet": "dearer"}
"""Verdict on each figure if B is the slower build."""


@pytest.fixture(scope="module", autouse=True)
def load() -> Iterator[None]:
    """Two busy loops, each in a session of its own, so that each gets as much CPU time as a user's program would."""
    with ExitStack() as stack:
        for _ in range(2):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURNER], start_new_session=True))
            stack.callback(burner.terminate)
        yield


class Builds:
    """Runs of two builds into one store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "store.sqlite"
        (folder / "plan.toml").write_text(PLAN)
        put_usual(folder / "usual", "openvpn-build")

    def add_slower(self, instructions_per_byte: float) -> None:
        put_slower(self._folder / "slower", "openvpn-build", instructions_per_byte)

    def tunnelbench(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [TUNNELBENCH, *words, "--store", str(self._store)]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=600)

    def run(self, build: str) -> tuple[str, list[dict[str, Any]]]:
        """Measure a build; returns the id of the run, and its trials through the tunnel that count."""
        places = (f"--set=programs={self._folder / build}", f"--set=far_programs={self._folder / 'usual'}")
        plan = str(self._folder / "plan.toml")
        done = self.tunnelbench("run", plan, "--on", "malta", *places, "--set=quiet_wait_s=0", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        trials = [trial for trial in found["trials"] if trial["spec"]["tunnel"]["kind"] == "openvpn"]
        return found["run"]["run_id"], [trial["tcp"] for trial in trials if trial["outcome"] == "measured"]

    def compare(self, a: str, b: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """Return the exit status of `--fail-on-regression 3`, and the rows of the tunnel by figure."""
        status = self.tunnelbench("compare", a, b, "--fail-on-regression", "3").returncode
        return status, {row["figure"]: row for row in self._rows(a, b)}

    def _rows(self, a: str, b: str) -> list[dict[str, Any]]:
        found = json.loads(self.tunnelbench("compare", a, b, "--json").stdout)["rows"]
        return [row for row in found if row["tunnel"] == "build" and row["figure"] in COMPARED]


def test_a_slower_build_is_found_each_time_and_an_equal_build_is_a_tie(tmp_path: Path) -> None:
    builds = Builds(tmp_path)
    first, trials = builds.run("usual")
    usual = [first]
    builds.add_slower(SLOWER_BY * instructions_per_byte(trials))
    for _ in range(TIMES):
        slower, _ = builds.run("slower")
        usual.append(builds.run("usual")[0])
        status, rows = builds.compare(usual[-2], slower)
        print("slower", status, {figure: (row["ratio"], row["p"], row["verdict"]) for figure, row in rows.items()},
              flush=True)  # fmt: skip
        same_status, same_rows = builds.compare(usual[-2], usual[-1])
        print("equal", same_status, {figure: (row["ratio"], row["verdict"]) for figure, row in same_rows.items()},
              flush=True)  # fmt: skip
        assert status == 1
        assert {figure: row["verdict"] for figure, row in rows.items()} == COMPARED
        assert same_rows.keys() == COMPARED.keys()
        assert same_status == 0
        assert {row["verdict"] for row in same_rows.values()} == {"tie"}
