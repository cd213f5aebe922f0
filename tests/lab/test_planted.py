"""A router that is slower on purpose is distinguished from an equal one, on a machine with a varying speed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TUNNELBENCH

SLOWER_BY = float(os.environ.get("TUNNELBENCH_PLANTED", "0.6"))
"""Added work as a share of the router's own; `make test-planted` adds less, in more rounds."""
ROUNDS = int(os.environ.get("TUNNELBENCH_PLANTED_ROUNDS", "12"))

pytestmark = [pytest.mark.lab, pytest.mark.alone, pytest.mark.timeout(3000)]

# The kernel counts CPU time at clock ticks, 250 or 1000 times a second. Neither the rate of the packets nor that of the
# planted work is in step with the ticks: else the count would depend on the phase.
# The offered rate is fixed, so that the router has the same work in each round. At full load, a slower router processes
# larger batches, which makes each packet cheaper: a part of the added work would not be visible.
PLAN = """
rounds = {rounds}
[udp]
payload_bytes = 1300
direction = "in"
test = "rate"
rate = 4937
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
    while time.monotonic() < started + {share} * 0.0073:
        pass
    time.sleep(0.0073 * (1 - {share}))
"""
"""Uses a share of its CPU with real-time priority, until the program that started it has ended."""


def planted(folder: Path, share: float) -> Path:
    """Return an OpenVPN that starts a program which uses a share of the router's CPU."""
    burner, program, real = folder / "burner.py", folder / "openvpn-planted", shutil.which("openvpn")
    burner.write_text(BURNER.format(share=share))
    program.write_text(
        f'#!/bin/sh\ncase "$1 $2" in "--config "*router*) {sys.executable} {burner} & ;; esac\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    return program


def tunnelbench(*argv: str | Path) -> str:
    done = subprocess.run([TUNNELBENCH, *map(str, argv)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def make_plan(path: Path, rounds: int, **programs: str) -> Path:
    tunnels = [TUNNEL.format(name=name, program=program) for name, program in programs.items()]
    path.write_text(PLAN.format(rounds=rounds) + "".join(tunnels))
    return path


def busy_share(store: Path) -> float:
    """Return the share of time that the router is busy with the tunnel alone, 0 to 1."""
    found = json.loads(tunnelbench("report", "last", "--store", store, "--format", "json"))
    (share,) = [row["figures"]["router_busy_share"] for row in found["udp_rows"] if row["tunnel"]["name"] == "usual"]
    return float(share["median"])


def test_a_planted_slowdown_is_found_and_one_that_is_not_there_is_not(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    tunnelbench("run", make_plan(tmp_path / "alone.toml", 2, usual="openvpn"), "--store", store)
    slow = planted(tmp_path, SLOWER_BY * busy_share(store))
    plan = make_plan(tmp_path / "plan.toml", ROUNDS, usual="openvpn", same="openvpn", slower=str(slow))
    tunnelbench("run", plan, "--store", store)

    def cpu_per_packet(name: str) -> dict[str, Any]:
        found = json.loads(tunnelbench("compare", "last#usual", f"last#{name}", "--store", store, "--json"))
        return next(row for row in found["rows"] if row["figure"] == "CPU s/Mpackets")

    same, slower = cpu_per_packet("same"), cpu_per_packet("slower")
    print(
        f"planted {SLOWER_BY:.0%}: {slower['ratio']}, p {slower['p']}; nothing planted: {same['ratio']}, p {same['p']}"
    )
    assert same["verdict"] not in {"dearer", "cheaper"}
    # Where too many trials were void for a test, all the others must say so.
    assert slower["verdict"] == ("dearer" if slower["p"] is not None else "higher")
