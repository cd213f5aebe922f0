"""Packet filters, MTUs, IPv6 and connections through a virtual router, proven as in namespaces.

`make test` leaves it out, because it takes some minutes; `make test-boards` runs it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TRIALS_OF_A_VIRTUAL_ROUTER, TUNNELBENCH
from tests.lab.test_malta import TESTBED

CONDITIONS = (
    TRIALS_OF_A_VIRTUAL_ROUTER
    + """
[[tunnel]]
kind = "none"
name = "{firewall}, rules {rules}"
firewall = "stateful"
rules = 10
[[tunnel]]
kind = "openvpn"
name = "{firewall}"
firewall = "stateful-nat"
[[tunnel]]
kind = "vxlan"
name = "mtu"
mtu = 1400
[[tunnel]]
kind = "vxlan"
name = "inside {inside}"
inside = "ipv6"
[[tunnel]]
kind = "openvpn"
name = "outside {outside}"
outside = "ipv6"
"""
)
CONNECTIONS = """
rounds = 1
[connections]
test = ["connect", "concurrent"]
rate = 20
duration_s = 5
most = 60
opening_rate = 20
[[tunnel]]
kind = "none"
name = "none, {firewall}"
firewall = ["none", "stateful"]
[[tunnel]]
kind = "openvpn"
"""
LIMIT_S = 900
"""Time limit for a run on an emulated machine [s]; a quiet machine needs a third of it."""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(LIMIT_S + 30)]


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    path = tmp_path / "testbed.toml"
    path.write_text(TESTBED + "quiet_wait_s = 0\n")
    return path


def trials_of(plan_text: str, testbed: Path) -> list[dict[str, Any]]:
    """Run a plan, and return its trials without those of the testers back to back."""
    plan = testbed.with_name("plan.toml")
    plan.write_text(plan_text)
    argv = [TUNNELBENCH, "run", str(plan), "--on", str(testbed), "--store", str(plan.with_suffix(".sqlite"))]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    return [
        trial
        for trial in json.loads(done.stdout)["trials"]
        if trial["spec"]["tunnel"]["name"] != "testers back to back"
    ]


def require_ok(trial: dict[str, Any], *names: str) -> None:
    """Require that a trial has figures, and that some of its checks are ok."""
    assert trial["outcome"] == "measured", trial["reason"]
    found = {check["name"]: check for check in trial["checks"]}
    assert {found[name]["verdict"] for name in names} == {"ok"}, [found[name] for name in names]


def test_filters_mtus_and_ipv6_are_proven(testbed: Path) -> None:
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in trials_of(CONDITIONS, testbed)}
    assert trials.keys() == {"no tunnel", "stateful, rules 10", "stateful-nat", "mtu", "inside ipv6", "outside ipv6"}
    for name, trial in trials.items():
        assert trial["proof"] is not None, trial["reason"]
        assert {check["verdict"] for check in trial["proof"]["checks"]} == {"ok"}, name
        require_ok(trial, "firewall", "fragments")
    for name, header_bytes in {"mtu": 40, "inside ipv6": 60}.items():
        tcp = trials[name]["tcp"]
        assert tcp["mss_bytes"] <= (1400 if name == "mtu" else 1450) - header_bytes, name
    proven = {check["name"]: check["reason"] for check in trials["outside ipv6"]["proof"]["checks"]}
    assert "IPv6" in proven["outer-protocol"]


def test_connections_are_counted_one_by_one(testbed: Path) -> None:
    for trial in trials_of(CONNECTIONS, testbed):
        counted = trial["udp"]["connections"]
        tried = 100 if trial["spec"]["test"] == "connect" else 60
        assert counted["established"] == counted["accepted"] == tried, trial["spec"]
        require_ok(trial, "offered", "packet-count")
