"""A clock that is set in mid-run, for the controller and all programs that it starts."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.lab.awaiting import await_traffic
from tests.lab.bench import TUNNELBENCH

pytestmark = pytest.mark.lab

PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 2
[[tunnel]]
kind = "openvpn"
cipher = "AES-128-GCM"
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "wall_clock.so"
    source = Path(__file__).with_name("wall_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(path), str(source)], check=True)
    return path


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_a_clock_that_jumps_makes_one_trial_void_and_the_run_goes_on(
    tmp_path: Path, library: Path, jump_s: int
) -> None:
    plan, offset = tmp_path / "plan.toml", tmp_path / "offset"
    plan.write_text(PLAN)
    offset.write_bytes(struct.pack("q", 0))
    environment = {**os.environ, "LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(offset)}
    store = ["--store", str(tmp_path / "results.sqlite")]
    argv = [TUNNELBENCH, "run", str(plan), *store, "--set", "quiet_wait_s=0"]
    with subprocess.Popen(argv, stdout=PIPE, stderr=PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert any("back to back" in line for line in process.stdout)
        await_traffic(process.pid)  # of the baseline
        with offset.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("q", jump_s))
        _, errors = process.communicate(timeout=110)
    assert process.returncode in {0, 3}, errors  # 3: on a machine that others use, no figure may count
    shown = subprocess.run([TUNNELBENCH, "show", "last", "--json", *store], capture_output=True, text=True, check=True)
    run = json.loads(shown.stdout)
    steps = {
        trial["spec"]["sequence"]: next(check for check in trial["checks"] if check["name"] == "clock")
        for trial in run["trials"]
    }
    void = [sequence for sequence, check in steps.items() if check["verdict"] == "void"]
    assert void == [1]
    assert f"set by {jump_s:+}.0 s" in steps[1]["reason"]
    assert {trial["outcome"] for trial in run["trials"]} == {"measured"}
