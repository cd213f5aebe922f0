"""A router behind SSH with two CPUs, of which the plan uses one or both; `make test-boards` runs this."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.rig import plan
from tests.lab.switched_router import ENTER, SLOW_S, SSH_PORT, TESTBED, on_router, switched_router

from tunnelbench.qemu.boards import PC_X86_64

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 5
interval_s = 0.5
streams = 8
[[tunnel]]
kind = "vxlan"
name = "VXLAN, CPUs {cpus}"
cpus = [1, 2]
"""
STATE = "cat /sys/devices/system/cpu/online; for f in /proc/irq/*/smp_affinity; do echo $f $(cat $f); done"
ROUTER = f'host = "root@127.0.0.1"\nport = {SSH_PORT}'


def test_a_router_has_one_or_two_cpus_as_the_plan_says_and_both_afterwards(
    lab: None, store: str, tmp_path: Path
) -> None:
    tunnelbench = str(Path(sys.executable).with_name("tunnelbench"))
    with switched_router(tmp_path, PC_X86_64, "-smp", "2") as config:

        def state() -> str:
            return subprocess.run(on_router(config, STATE), check=True, capture_output=True, text=True).stdout

        testbed = tmp_path / "two-cpus.toml"
        testbed.write_text(TESTBED.format(config=config, more="", router=ROUTER))
        before = state()
        argv = [*ENTER, tunnelbench, "run", plan(tmp_path, PLAN), "--on", str(testbed), "--store", store, "--json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SLOW_S, check=False)
        assert done.returncode in {0, 3}, done.stderr  # 3: the router and the testers share this machine's CPUs
        assert before.startswith("0-1\n")
        assert state() == before
    trials = {trial["spec"]["tunnel"]["name"]: trial["tcp"] for trial in json.loads(done.stdout)["trials"]}
    assert {
        name: trials[name]["window"]["router_cpu"]["cpus"] for name in ("no tunnel", "VXLAN, CPUs 1", "VXLAN, CPUs 2")
    } == {
        "no tunnel": [0],
        "VXLAN, CPUs 1": [0],
        "VXLAN, CPUs 2": [0, 1],
    }
