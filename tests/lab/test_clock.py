"""A clock that is set in mid-run, for the controller and all programs that it starts (libfaketime)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

pytestmark = pytest.mark.lab

TUNNELBENCH = str(Path(sys.executable).parent / "tunnelbench")
PLAN = """
rounds = 2
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 3
[[tunnel]]
kind = "openvpn"
cipher = "AES-128-GCM"
"""


@pytest.fixture
def library() -> str:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        pytest.skip("no libfaketime (package faketime)")
    return str(found[0])


@pytest.mark.parametrize("jump", ["+7200s", "-7200s"])
def test_a_clock_that_jumps_makes_one_trial_void_and_the_run_goes_on(tmp_path: Path, library: str, jump: str) -> None:
    plan, offset = tmp_path / "plan.toml", tmp_path / "offset"
    plan.write_text(PLAN)
    offset.write_text("+0s\n")
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    store = ["--store", str(tmp_path / "results.sqlite")]
    argv = [TUNNELBENCH, "run", str(plan), *store, "--set", "quiet_wait_s=0"]
    with subprocess.Popen(argv, stdout=PIPE, stderr=PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert any("back to back" in line for line in process.stdout)
        time.sleep(2)  # the baseline is being measured
        offset.write_text(f"{jump}\n")
        _, errors = process.communicate(timeout=110)
    assert process.returncode == 0, errors
    shown = subprocess.run([TUNNELBENCH, "show", "last", "--json", *store], capture_output=True, text=True, check=True)
    run = json.loads(shown.stdout)
    steps = {
        trial["spec"]["sequence"]: next(check for check in trial["checks"] if check["name"] == "clock")
        for trial in run["trials"]
    }
    void = [sequence for sequence, check in steps.items() if check["verdict"] == "void"]
    assert void == [1]
    assert f"set by {jump[:-1]}.0 s" in steps[1]["reason"]
    assert {trial["outcome"] for trial in run["trials"]} == {"measured"}
