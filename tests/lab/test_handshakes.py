"""Tunnels that the clients of one server set up again and again, while the packets of another client flow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.lab.bench import make_testbed, measure, processes_of

from tunnelbench.model.plan import Direction, Plan, Test, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.model.udp import HandshakeCounts, UdpCounts
from tunnelbench.tunnel import openvpn

pytestmark = pytest.mark.lab

SERVERS_WORK_S = 0.05
"""More than the time that a server itself works for one handshake [s]."""

PACED_SCRIPT = f"""\
[ "$1" = 0 ] && {sys.executable} -c 'import time; time.sleep({{delay_s:g}} - time.time() % {{delay_s:g}})'
exit 0
"""
"""Holds OpenVPN's server until the next multiple of a time, so that its own work for a handshake does not count."""


def set_up(
    tmp_path: Path, tunnel: TunnelSpec, duration_s: float, rate: str = "200"
) -> tuple[TrialRecord, HandshakeCounts, UdpCounts]:
    """Measure one trial, and check that nothing of it is left."""
    udp = UdpTraffic((100,), (Direction.OUT,), (Test.HANDSHAKE,), (rate,), duration_s=duration_s)
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        (record,) = measure(testbed, Plan("lab", "", (tunnel,), None, 1, udp=udp))
        devices = testbed.client.ip("-o", "link").stdout
        assert "tun" not in devices
        assert "wg" not in devices
        assert processes_of(testbed) == []
    assert record.outcome is Outcome.MEASURED, record.reason
    assert {found.reason for found in record.checks if found.verdict is Verdict.VOID and found.rule != 12} == set()
    assert record.udp is not None
    assert record.udp.handshakes is not None
    assert record.udp.counts is not None
    return record, record.udp.handshakes, record.udp.counts


@pytest.mark.alone
@pytest.mark.parametrize(("script_s", "duration_s"), [(1.0, 20.0), (0.25, 8.0)])
def test_a_server_that_is_held_to_so_many_handshakes_is_measured_with_so_many(
    script_s: float, duration_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold an OpenVPN server up at each handshake, so that it makes exactly 1 or 4 per second."""
    monkeypatch.setattr(openvpn, "SLOW_SCRIPT", PACED_SCRIPT)
    options = {"clients": 1, "handshakes": 4, "script_delay_ms": round(script_s * 1000)}
    # At a higher rate, the packets that wait for the server fill its socket, and those of handshakes are lost.
    _, handshakes, _ = set_up(tmp_path, TunnelSpec("openvpn", "held", options), duration_s, "20")
    print(handshakes)
    assert handshakes.per_s == pytest.approx(1 / script_s, rel=0.05)
    assert handshakes.failed == 0


@pytest.mark.alone
def test_a_servers_own_work_comes_on_top_of_its_script_and_traffic_waits(tmp_path: Path) -> None:
    script_s = 0.25
    options = {"clients": 1, "handshakes": 4, "script_delay_ms": round(script_s * 1000)}
    _, handshakes, counts = set_up(tmp_path, TunnelSpec("openvpn", "slow", options), 8.0, "20")
    assert handshakes.per_s is not None
    assert 1 / (script_s + SERVERS_WORK_S) <= handshakes.per_s <= 1.05 / script_s
    assert handshakes.failed == 0
    assert counts.longest_gap_s is not None
    assert counts.longest_gap_s >= script_s, "the server forwards nothing while its script runs"


@pytest.mark.parametrize("kind", ["openvpn", "wireguard-go"])
def test_each_client_sets_up_its_tunnel_again_and_again(kind: str, tmp_path: Path) -> None:
    record, handshakes, counts = set_up(tmp_path, TunnelSpec(kind, kind, {"clients": 1, "handshakes": 4}), 5.0)
    print(handshakes, [f"{c.name} {c.verdict} {c.reason}" for c in record.checks])
    assert handshakes.finished > 4
    assert handshakes.failed == 0
    assert (handshakes.memory is None) is (kind == "wireguard-go")
    if handshakes.memory is not None:
        assert handshakes.memory.open_bytes > handshakes.memory.before_bytes > 0
    assert handshakes.setup_p50_s is not None
    assert handshakes.setup_max_s is not None
    assert 0 < handshakes.setup_p50_s <= handshakes.setup_max_s
    assert counts.received_packets > 0
