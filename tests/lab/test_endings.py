"""However a run ends, the machine is as it was, and no packet of it has left the testbed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.lab.machine import changed_since, snapshot

pytestmark = pytest.mark.lab

TUNNELBENCH = str(Path(sys.executable).parent / "tunnelbench")
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
OF_THE_TESTBED = "net 198.18.0.0/15 or port 655 or port 1194 or port 51820 or port 4789 or port 5201"
"""Addresses of the testbed and ports of its tunnels: none of these belongs on a device of the machine's own."""


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
            time.sleep(1.5)  # OpenVPN comes up, its keys lie in its folder
            process.send_signal(ending)
        process.communicate(timeout=110)
        if ending == signal.SIGKILL:
            subprocess.run([TUNNELBENCH, "clean", "--store", store], check=True, capture_output=True)
    assert process.returncode in {0, 3, 130, 143, -signal.SIGKILL}
    assert changed_since(before) == set()
