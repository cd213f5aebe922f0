"""Comparison of builds on a virtual router: one with a slower cipher path is found, and an equal one is a tie.

`make test` leaves it out, because each round brings three tunnels up on a slow router; `make test-builds` runs it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TUNNELBENCH
from tests.lab.slower_build import put_slower, put_usual

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

# A test of pairs needs eight rounds in which no trial is void.
PLAN = """
rounds = 8
[udp]
payload_bytes = 1300
direction = "out"
test = "rate"
rate = 250
duration_s = 3
interval_s = 0.5
"""
TUNNEL = """
[[tunnel]]
kind = "openvpn"
name = "{name}"
program = "/usr/sbin/openvpn-{name}"
cipher = "AES-128-GCM"
"""
INSTRUCTIONS_PER_BYTE = 8.0
"""Work that the slower build adds: about 5 % of what OpenVPN executes on this router for a packet of 1300 bytes."""


def compared(store: Path, name: str) -> dict[str, Any]:
    """Return the comparison of the instructions per packet of one build with the usual one."""
    argv = [TUNNELBENCH, "compare", "last#usual", f"last#{name}", "--store", str(store), "--json"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return next(row for row in rows if row["figure"] == "instructions/packet")


def test_a_build_with_a_slower_cipher_path_is_found_and_an_equal_build_is_a_tie(tmp_path: Path) -> None:
    ends = {"programs": tmp_path / "router", "far_programs": tmp_path / "gateway"}
    for folder in ends.values():
        for name in ("usual", "same"):
            put_usual(folder, f"openvpn-{name}")
    put_slower(ends["programs"], "openvpn-slower", INSTRUCTIONS_PER_BYTE)
    put_usual(ends["far_programs"], "openvpn-slower")
    plan, store = tmp_path / "plan.toml", tmp_path / "store.sqlite"
    plan.write_text(PLAN + "".join(TUNNEL.format(name=name) for name in ("usual", "same", "slower")))
    settings = [f"--set={key}={folder}" for key, folder in ends.items()]
    argv = [TUNNELBENCH, "run", str(plan), "--on", "malta", "--set=quiet_wait_s=0", *settings, "--store", str(store)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    same, slower = compared(store, "same"), compared(store, "slower")
    print(f"slower: {slower['ratio']}, p {slower['p']}; same: {same['ratio']}, p {same['p']}")
    assert same["verdict"] == "tie"
    assert slower["verdict"] == ("dearer" if slower["p"] is not None else "higher")
    assert slower["ratio"]["value"] == pytest.approx(1.05, abs=0.015)
