"""A change of keys in mid-traffic: the gap that it makes is measured, and a trial without such a change is void."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import check, make_testbed, measure, void_checks

from tunnelbench.model.plan import Direction, Plan, Test, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel.openvpn import OpenVpn

pytestmark = pytest.mark.lab

HELD_S = 0.5
RATE_PPS = 200
"""A rate at which the server's socket holds all packets that come while the script runs. At 500 packets/s it overflows:
where OpenVPN's own packet of the handshake is among the lost, its repetition makes a gap of 1.5 s."""
RENEGOTIATION_S = 2
OPENVPN: dict[str, str | int] = {"cipher": "AES-128-GCM", "reneg_sec": RENEGOTIATION_S}


def rekey_plan(tunnel: TunnelSpec, direction: Direction = Direction.OUT, duration_s: float = 4.0) -> Plan:
    udp = UdpTraffic((100,), (direction,), (Test.REKEY,), (str(RATE_PPS),), duration_s=duration_s, interval_s=1.0)
    return Plan("rekey", "", (tunnel,), None, rounds=1, udp=udp)


def rekeyed(testbed: NetnsTestbed, options: dict[str, str | int], direction: Direction) -> UdpMeasurement:
    (record,) = measure(testbed, rekey_plan(TunnelSpec("openvpn", "OpenVPN", options), direction))
    assert record.udp is not None, record.reason
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.udp.rekeys, check(record, "rekeys")
    return record.udp


@pytest.mark.alone
@pytest.mark.parametrize("direction", list(Direction))
def test_a_rekey_that_is_held_back_shows_as_a_gap_of_that_time(testbed: NetnsTestbed, direction: Direction) -> None:
    counts = rekeyed(testbed, {**OPENVPN, "script_delay_ms": round(HELD_S * 1000)}, direction).counts
    assert counts is not None
    assert counts.longest_gap_s == pytest.approx(HELD_S + 1 / RATE_PPS, abs=0.02), "a gap ends with the next packet"
    assert counts.longest_gap_start_s is not None
    # A change of keys near the end of the window holds packets back beyond it. The receiver still waits for them.
    # The first packet may be what makes an idle OpenVPN notice that a change of keys is due.
    assert 0 <= counts.longest_gap_start_s < counts.duration_s
    arrivals = [(interval.sent_packets, interval.received_packets) for interval in counts.intervals]
    expected = "the server's socket keeps what comes meanwhile"
    assert counts.path_lost_packets < 0.01 * counts.sent_packets, f"{expected}: {arrivals}"


def test_without_a_script_a_rekey_makes_a_shorter_gap(testbed: NetnsTestbed) -> None:
    counts = rekeyed(testbed, OPENVPN, Direction.OUT).counts
    assert counts is not None
    assert counts.longest_gap_s is not None
    assert 1 / RATE_PPS <= counts.longest_gap_s < HELD_S


@pytest.mark.parametrize("kind", ["openvpn", "vxlan"])
def test_a_trial_without_a_change_of_keys_is_void(testbed: NetnsTestbed, kind: str) -> None:
    (record,) = measure(testbed, rekey_plan(TunnelSpec(kind, kind)))
    assert "rekeys" in void_checks(record)
    assert "reported no change of keys" in check(record, "rekeys").reason


def test_without_a_tunnel_there_is_a_gap_to_compare_with(testbed: NetnsTestbed) -> None:
    (record,) = measure(testbed, rekey_plan(TunnelSpec("none", "no tunnel")))
    assert record.udp is not None, record.reason
    assert record.udp.counts is not None
    assert record.udp.counts.longest_gap_s is not None
    assert record.udp.counts.longest_gap_s >= 1 / RATE_PPS
    assert "rekeys" not in void_checks(record)


def test_tinc_reports_its_changes_of_keys(testbed: NetnsTestbed) -> None:
    tinc = TunnelSpec("tinc", "tinc", {"key_expire_s": 1})
    # tinc 1.0 looks for keys that have expired every five to six seconds (PingTimeout).
    (record,) = measure(testbed, rekey_plan(tinc, duration_s=8.0))
    assert record.udp is not None, record.reason
    assert record.udp.rekeys


def timed_beside_others(tmp_path: Path, options: dict[str, str | int], direction: Direction) -> TrialRecord:
    """Time the first of two clients of a server while the second one changes its keys."""
    server = TunnelSpec("openvpn", "server", {**OPENVPN, "clients": 2, "others_rekey": True, **options})
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        (record,) = measure(testbed, rekey_plan(server, direction))
    assert record.outcome is Outcome.MEASURED, record.reason
    assert "client-2/" in check(record, "rekeys").reason, "the server's log names the client"
    return record


def gap_of_another_client_s(tmp_path: Path, options: dict[str, str | int], direction: Direction) -> float:
    record = timed_beside_others(tmp_path, options, direction)
    assert {found.reason for found in record.checks if found.verdict is Verdict.VOID and found.rule != 12} == set()
    assert check(record, "kept-keys").verdict is Verdict.OK
    assert record.udp is not None
    assert record.udp.rekeys
    assert record.udp.counts is not None
    assert record.udp.counts.longest_gap_s is not None
    return record.udp.counts.longest_gap_s


@pytest.mark.alone
@pytest.mark.parametrize("direction", list(Direction))
def test_a_rekey_of_another_client_that_is_held_back_stops_the_first_one(tmp_path: Path, direction: Direction) -> None:
    gap_s = gap_of_another_client_s(tmp_path, {"script_delay_ms": round(HELD_S * 1000)}, direction)
    assert HELD_S - 0.01 <= gap_s <= HELD_S + 0.03


def test_without_a_script_a_rekey_of_another_client_makes_a_short_gap(tmp_path: Path) -> None:
    assert 1 / RATE_PPS <= gap_of_another_client_s(tmp_path, {}, Direction.OUT) < HELD_S / 5


def test_a_trial_in_which_the_timed_client_changes_its_keys_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_changes_of_all(*arguments: Any) -> str:
        return written(*arguments).replace("reneg-sec 0\n", f"reneg-sec {RENEGOTIATION_S}\n")

    written = OpenVpn._config
    monkeypatch.setattr(OpenVpn, "_config", with_changes_of_all)
    record = timed_beside_others(tmp_path, {}, Direction.OUT)
    assert "kept-keys" in void_checks(record)
    assert "client-1/" in check(record, "kept-keys").reason
