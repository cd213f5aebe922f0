"""Packet filters, MTUs, IPv6 and connections through a virtual router, proven as in namespaces.

`make test` leaves it out, because it takes some minutes; `make test-boards` runs it.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TRIALS_OF_A_VIRTUAL_ROUTER, TUNNELBENCH, check, measure
from tests.lab.test_malta import TESTBED

from tunnelbench.model.plan import ConnectionTraffic, Plan, Test, TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.image import find_image
from tunnelbench.testbed.qemu import QemuTestbed
from tunnelbench.tunnel import virtual_router_packages

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
JUMBO = """
rounds = 1
[tcp]
payload_bytes = 8948
direction = "out"
duration_s = 3
interval_s = 0.5
[[tunnel]]
kind = "none"
name = "no tunnel"
[[tunnel]]
kind = "vxlan"
"""
TRACKED_AT_MOST = 60
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


def test_cables_with_jumbo_frames_carry_them(testbed: Path) -> None:
    testbed.write_text(f"{testbed.read_text()}[link]\nmtu_bytes = 9000\n")
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in trials_of(JUMBO, testbed)}
    assert trials.keys() == {"no tunnel", "vxlan"}
    for name, overhead_bytes in {"no tunnel": 0, "vxlan": 50}.items():
        require_ok(trials[name], "fragments")
        assert trials[name]["tcp"]["mss_bytes"] == 8948 - overhead_bytes, name


def test_a_tracker_that_holds_60_connections_is_found_at_60(short_path: Path) -> None:
    find_image(MALTA, virtual_router_packages(), print)
    spec = TestbedSpec("lab", "qemu", board=MALTA.name, speed_mips=62.5, quiet_wait_s=0)
    traffic = ConnectionTraffic(tests=(Test.CONCURRENT,), most=120, opening_rate=20.0)
    plan = Plan("lab", "", (TunnelSpec("none", "tracked", {"firewall": "stateful"}),), None, 1, connections=traffic)
    with QemuTestbed(spec, f"test-{secrets.token_hex(3)}", short_path) as bed:
        bed.router.shell(f"modprobe nf_conntrack && echo {TRACKED_AT_MOST} >/proc/sys/net/netfilter/nf_conntrack_max")
        (record,) = measure(bed, plan)
    assert record.udp is not None, record.reason
    counts = record.udp.connections
    assert counts is not None
    assert counts.begun == 120
    assert counts.shows_limit
    assert counts.tracked == TRACKED_AT_MOST
    assert counts.tracked_before is not None
    # The list has entries of others: the connection with the controller, and pings.
    assert TRACKED_AT_MOST - counts.tracked_before.entries <= counts.open_max <= TRACKED_AT_MOST
    assert counts.accepted == counts.established == counts.open_max
    assert check(record, "tracked").verdict is Verdict.OK


def test_connections_are_counted_one_by_one(testbed: Path) -> None:
    for trial in trials_of(CONNECTIONS, testbed):
        counted = trial["udp"]["connections"]
        tried = 100 if trial["spec"]["test"] == "connect" else 60
        assert counted["established"] == counted["accepted"] == tried, trial["spec"]
        require_ok(trial, "offered", "packet-count")
