"""A build of OpenVPN with a slower cipher path, on the virtual router: its planted work is found in the counts.

One trial of each build is too little for a verdict; tests/lab/builds_under_load.py has enough of them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TRIALS_OF_A_VIRTUAL_ROUTER, TUNNELBENCH
from tests.lab.slower_build import instructions_per_byte, put_slower, put_usual

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

TUNNEL = """
[[tunnel]]
kind = "openvpn"
name = "{name}"
program = "/usr/sbin/openvpn-{name}"
cipher = "AES-128-GCM"
"""
PLANTED_PER_BYTE = 40.0
"""Instructions that the slower build adds for each byte of the packets in the tunnel: much more than the 3 to 9 by
which one OpenVPN differs from second to second."""


def test_the_work_that_a_slower_build_adds_is_counted(tmp_path: Path) -> None:
    router, gateway = tmp_path / "router", tmp_path / "gateway"
    put_usual(router, "openvpn-usual")
    put_slower(router, "openvpn-slower", PLANTED_PER_BYTE)
    for name in ("usual", "slower"):
        put_usual(gateway, f"openvpn-{name}")
    plan = tmp_path / "plan.toml"
    plan.write_text(TRIALS_OF_A_VIRTUAL_ROUTER + "".join(TUNNEL.format(name=name) for name in ("usual", "slower")))
    argv = [TUNNELBENCH, "run", str(plan), "--on", "malta", "--json", "--store", str(tmp_path / "store.sqlite")]
    settings = (f"programs={router}", f"far_programs={gateway}", "quiet_wait_s=0")
    done = subprocess.run(
        [*argv, *(f"--set={each}" for each in settings)], check=False, capture_output=True, text=True, timeout=800
    )
    assert done.returncode in {0, 3}, done.stderr  # 3: beside other tests each trial may be late
    trials: dict[str, list[Any]] = {"usual": [], "slower": []}
    for trial in json.loads(done.stdout)["trials"]:
        if trial["tcp"] is not None and (found := trials.get(trial["spec"]["tunnel"]["name"])) is not None:
            found.append(trial["tcp"])
    usual, slower = instructions_per_byte(trials["usual"]), instructions_per_byte(trials["slower"])
    assert slower - usual == pytest.approx(PLANTED_PER_BYTE, rel=0.3)
