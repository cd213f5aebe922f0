"""A router that was made slower on purpose is told from one that was not, on a machine whose speed wanders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SLOWER_BY = float(os.environ.get("TUNNELBENCH_PLANTED", "0.25"))
"""`make test-planted` plants less, in more rounds."""
# Two rounds more than the test needs: a trial of a busy machine may be void.
ROUNDS = int(os.environ.get("TUNNELBENCH_PLANTED_ROUNDS", "10"))

pytestmark = [pytest.mark.lab, pytest.mark.alone, pytest.mark.timeout(3000)]

TUNNELBENCH = str(Path(sys.executable).parent / "tunnelbench")
PLAN = """
rounds = {rounds}
[tcp]
payload_bytes = 1448
direction = "in"
duration_s = 1
interval_s = 0.5
"""
TUNNEL = """
[[tunnel]]
kind = "openvpn"
name = "{name}"
mode = "static-key"
cipher = "AES-128-CBC"
auth = "SHA1"
program = "{program}"
"""
BURNER = """\
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
parent = os.getppid()
while os.getppid() == parent:
    started = time.monotonic()
    while time.monotonic() < started + {share} * 0.01:
        pass
    time.sleep(0.01 * (1 - {share}))
"""
"""Takes its share of the CPU that it is on before everybody else, until the program that started it has gone."""


def planted(folder: Path) -> Path:
    """An OpenVPN that shares the router's CPU with something of its own."""
    burner, program, real = folder / "burner.py", folder / "openvpn-planted", shutil.which("openvpn")
    burner.write_text(BURNER.format(share=SLOWER_BY))
    program.write_text(
        f'#!/bin/sh\ncase "$1 $2" in "--config "*router*) {sys.executable} {burner} & ;; esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    return program


def tunnelbench(*argv: str | Path) -> str:
    return subprocess.run([TUNNELBENCH, *map(str, argv)], check=True, capture_output=True, text=True).stdout


def test_a_planted_slowdown_is_found_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.toml", tmp_path / "store.sqlite"
    programs = {"usual": "openvpn", "the same": "openvpn", "slower": str(planted(tmp_path))}
    tunnels = [TUNNEL.format(name=name, program=program) for name, program in programs.items()]
    plan.write_text(PLAN.format(rounds=ROUNDS) + "".join(tunnels))
    tunnelbench("run", plan, "--store", store)

    def cpu_per_packet(name: str) -> dict[str, Any]:
        found = json.loads(tunnelbench("compare", "last#usual", f"last#{name}", "--store", store, "--json"))
        return next(row for row in found["rows"] if row["figure"] == "CPU s/Mpackets")

    same, slower = cpu_per_packet("the same"), cpu_per_packet("slower")
    print(
        f"planted {SLOWER_BY:.0%}: {slower['ratio']}, p {slower['p']}; nothing planted: {same['ratio']}, p {same['p']}"
    )
    assert same["verdict"] not in {"dearer", "cheaper"}
    # Where too many trials were void for a test, all the others must say so.
    assert slower["verdict"] == ("dearer" if slower["p"] is not None else "higher")
