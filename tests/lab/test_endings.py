"""However a run ends, the machine is as it was, and no packet of it has left the testbed."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.lab.awaiting import programs_of, until
from tests.lab.bench import SHORT_TRIALS, TUNNELBENCH
from tests.lab.machine import changed_since, snapshot

pytestmark = pytest.mark.lab

PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = ["in", "out"]
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "vxlan"
[[tunnel]]
kind = "wireguard-go"
[[tunnel]]
kind = "openvpn"
cipher = "AES-128-GCM"
[[tunnel]]
kind = "tinc"
name = "refused"
cipher = "bf-cbc"
digest = "sha1"
[[tunnel]]
kind = "openvpn-dco"
"""
OF_THE_TESTBED = (
    "net 198.18.0.0/15 or port 655 or port 1194 or (port 51820 and not host 127.0.0.1) or port 4789 or port 5201"
)
"""Addresses of the testbed and ports of its tunnels: none of these belongs on a device of the machine's own.

A socket of any program may get port 51820 on the loopback device: it is in the kernel's range of free ports.
"""


@contextmanager
def nothing_gets_out(folder: Path) -> Iterator[None]:
    """Watch all devices of the machine's own namespace while the block runs."""
    log = folder / "tcpdump.log"
    argv = ["tcpdump", "-i", "any", "-n", "-l", "--immediate-mode", OF_THE_TESTBED]
    with log.open("w") as output, subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT) as watching:
        try:
            while "listening on" not in log.read_text():
                assert watching.poll() is None, log.read_text()
                time.sleep(0.01)
            yield
        finally:
            watching.send_signal(signal.SIGINT)
            watching.wait(10)
    assert "\n0 packets captured" in log.read_text(), log.read_text()


KEPT_PLAN = f"""{SHORT_TRIALS}[[tunnel]]
kind = "openvpn"
name = "kept"
cipher = "AES-128-GCM"
program = "PROGRAM"
"""
DYING_ON_THE_ROUTER = """#!/bin/sh
case "$*" in *--config*/router/*) echo no luck; exit 1 ;; esac
exec openvpn "$@"
"""


def test_keep_leaves_a_failed_tunnel_up_until_clean_removes_it(tmp_path: Path) -> None:
    plan, program, store = tmp_path / "plan.toml", tmp_path / "wrapped", str(tmp_path / "results.sqlite")
    program.write_text(DYING_ON_THE_ROUTER)
    program.chmod(0o755)
    plan.write_text(KEPT_PLAN.replace("PROGRAM", str(program)))
    before = snapshot()
    argv = [TUNNELBENCH, "run", str(plan), "--keep", "--store", store, "--set", "quiet_wait_s=0"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == 3, done.stderr
        assert "a trial is refused, and --keep ends the run" in done.stderr
        assert "`tunnelbench clean` removes them" in done.stderr
        (enter,) = re.findall(r"^  server: (ip netns exec tb-\S+-server) sh$", done.stderr, re.MULTILINE)
        assert "wan" in subprocess.run([*enter.split(), "ip", "link"], stdout=PIPE, text=True, check=True).stdout
        logs = [Path(name) for name in re.findall(r"^  (/run/tunnelbench/\S+\.log)$", done.stderr, re.MULTILINE)]
        assert "no luck\n" in [path.read_text() for path in logs]
        inside = subprocess.run([*enter.split(), "ip", "netns", "identify"], stdout=PIPE, text=True, check=True)
        pids = subprocess.run(["ip", "netns", "pids", inside.stdout.strip()], stdout=PIPE, text=True, check=True)
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids.stdout.split()]
        assert "openvpn" in names, "the daemon that did not fail is there, too"
    finally:
        cleaned = subprocess.run([TUNNELBENCH, "clean", "--store", store], capture_output=True, text=True, check=True)
    assert "namespace tb-" in cleaned.stdout
    assert changed_since(before) == set()


def test_keep_keeps_nothing_of_a_run_without_a_failure(tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.toml", str(tmp_path / "results.sqlite")
    plan.write_text(f'{SHORT_TRIALS}[[tunnel]]\nkind = "vxlan"\n')
    argv = [TUNNELBENCH, "run", str(plan), "--keep", "--store", store, "--set", "quiet_wait_s=0"]
    before = snapshot()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in {0, 3}, done.stderr
    assert "--keep ends the run" not in done.stderr
    assert changed_since(before) == set()


@pytest.mark.parametrize(
    ("ending", "testbed"),
    [
        ("by itself", "netns"),
        ("by itself", "netns-100m"),
        (signal.SIGINT, "netns-100m"),
        (signal.SIGTERM, "netns"),
        (signal.SIGHUP, "netns"),
        (signal.SIGKILL, "netns-100m"),
    ],
    ids=str,
)
def test_the_machine_is_as_it_was_and_no_packet_has_left_the_testbed(
    tmp_path: Path, ending: signal.Signals | str, testbed: str
) -> None:
    plan, store = tmp_path / "plan.toml", str(tmp_path / "results.sqlite")
    plan.write_text(PLAN)
    argv = [TUNNELBENCH, "run", str(plan), "--on", testbed, "--store", store, "--set", "quiet_wait_s=0"]
    before = snapshot()
    with nothing_gets_out(tmp_path), subprocess.Popen(argv, stdout=PIPE, stderr=PIPE, text=True) as process:
        if isinstance(ending, signal.Signals):
            assert process.stdout is not None
            assert any("wireguard-go" in line for line in process.stdout), "it did not come that far"
            until(lambda: any("openvpn --config" in line for line in programs_of(process.pid)), "OpenVPN with its keys")
            process.send_signal(ending)
        process.communicate(timeout=110)
        if ending == signal.SIGKILL:
            subprocess.run([TUNNELBENCH, "clean", "--store", store], check=True, capture_output=True)
    assert process.returncode in {0, 3, 130, 143, -signal.SIGKILL}
    assert changed_since(before) == set()
