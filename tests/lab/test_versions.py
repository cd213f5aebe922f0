"""A program that is replaced by another version while a run measures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.lab.bench import TUNNELBENCH

pytestmark = pytest.mark.lab

PLAN = """
rounds = 5
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "openvpn"
name = "OpenVPN"
mode = "static-key"
cipher = "AES-128-CBC"
auth = "SHA1"
"""


@pytest.mark.parametrize(
    ("program", "answer", "key"),
    [("openvpn", "OpenVPN", "router.openvpn"), ("iperf3", "iperf", "client.iperf3")],
)
def test_a_program_that_is_replaced_in_mid_run_is_reported_and_resume_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, answer: str, key: str
) -> None:
    version, wrapped, plan = tmp_path / "version", tmp_path / program, tmp_path / "plan.toml"
    version.write_text("2.6.90")
    says = f"case $1 in --version) echo {answer} $(cat {version}); exit 1;; esac"
    wrapped.write_text(f'#!/bin/sh\n{says}\nexec {shutil.which(program)} "$@"\n')
    wrapped.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    plan.write_text(PLAN)
    store = ["--store", str(tmp_path / "results.sqlite")]
    argv = [TUNNELBENCH, "run", str(plan), "--set", "quiet_wait_s=0", *store]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # A busy machine may give this process no time before the next trial begins: the second trial after is judged.
        figures = 0
        for line in process.stdout:
            if "OpenVPN" not in line or "Mbit/s" not in line:
                continue
            figures += 1
            if figures == 1:  # once: a program that asks during a second write would find an empty file
                version.write_text("2.7.90")
            if figures == 3:
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=60)
    shown = subprocess.run([TUNNELBENCH, "show", "last", "--json", *store], capture_output=True, text=True, check=True)
    trials = [trial for trial in json.loads(shown.stdout)["trials"] if trial["spec"]["tunnel"]["name"] == "OpenVPN"]
    for trial in trials:
        print(trial["outcome"], trial["reason"], trial["proof"] and trial["proof"]["versions"], trial["checks"])
    first, *_, last = [trial for trial in trials if trial["outcome"] == "measured"]
    assert [check for check in first["checks"] if check["name"] == "versions"] == []
    (check,) = [check for check in last["checks"] if check["name"] == "versions"]
    assert check["verdict"] == "doubtful"
    assert f"{key} was 2.6.90, and is 2.7.90 now" in check["reason"]
    argv = [TUNNELBENCH, "run", "--resume", "last", *store]
    resumed = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert resumed.returncode == 2, resumed.stderr
    assert "programs have changed since the run began" in resumed.stderr
    assert f"{key} was 2.6.90, and is 2.7.90 now" in resumed.stderr
    assert "--accept-versions" in resumed.stderr
    accepted = subprocess.run([*argv, "--accept-versions"], capture_output=True, text=True, check=False)
    assert accepted.returncode in {0, 3}, accepted.stderr
    argv = [TUNNELBENCH, "report", "last", "--full", *store]
    table = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert ("2.6.90, 2.7.90" in table) == (program == "openvpn")
