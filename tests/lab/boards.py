"""Virtual routers of every board, with a virtual gateway: each proves tunnels of the kernel and of user space.

`make test` leaves it out, because each board takes some minutes; `make test-boards` runs it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.lab.bench import TRIALS_OF_A_VIRTUAL_ROUTER, TUNNELBENCH

from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.plan import read_testbed, shipped_testbeds
from tunnelbench.testbed import KINDS

PLAN = (
    TRIALS_OF_A_VIRTUAL_ROUTER
    + """
[[tunnel]]
kind = "gre"
[[tunnel]]
kind = "wireguard"
[[tunnel]]
kind = "tinc"
[[tunnel]]
kind = "openvpn"
"""
)
TUNNELS = {"none", "gre", "wireguard", "tinc", "openvpn"}
OF_A_ROAD_WARRIOR = {"none", "tinc", "openvpn"}
"""Tunnels that need nothing of this machine's kernel, on which the client of a road warrior runs."""
LIMIT_S = 900
"""Time limit for the build of two images and a run [s]; a quiet machine needs a quarter of it."""
TESTBEDS = [name for name in shipped_testbeds() if read_testbed(name, KINDS).testbed.board]

pytestmark = [pytest.mark.lab, pytest.mark.timeout(LIMIT_S + 30)]


@pytest.mark.parametrize("testbed", TESTBEDS)
def test_a_board_proves_its_tunnels(testbed: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    argv = [TUNNELBENCH, "run", str(plan), "--on", testbed, "--store", str(tmp_path / "results.sqlite")]
    done = subprocess.run(
        [*argv, "--set", "quiet_wait_s=0", "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    found = {trial["spec"]["tunnel"]["name"]: trial for trial in json.loads(done.stdout)["trials"]}
    del found["testers back to back"]
    trials = {trial["spec"]["tunnel"]["kind"]: trial for trial in found.values()}
    assert trials.keys() == TUNNELS
    is_road_warrior = read_testbed(testbed, KINDS).testbed.topology == ROAD_WARRIOR
    for kind in OF_A_ROAD_WARRIOR if is_road_warrior else TUNNELS:
        proof = trials[kind]["proof"]
        assert proof is not None, trials[kind]["reason"]
        assert {check["verdict"] for check in proof["checks"]} == {"ok"}, kind
