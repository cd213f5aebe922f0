"""Tunnels side by side, and a client that ends the tunnel itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.bench import check, make_plan, make_testbed, measure, processes_of

from tunnelbench.model.plan import Direction, Plan, Test, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

BOTH_WAYS = (Direction.OUT, Direction.IN)


def require_proven(record: TrialRecord) -> None:
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.proof is not None
    assert {found.reason for found in record.proof.checks if found.verdict is not Verdict.OK} == set()
    assert check(record, "outer-protocol-in-trial").verdict is Verdict.OK
    assert check(record, "merged-frames").verdict is Verdict.OK


def test_two_processes_share_out_the_flows_of_udp(testbed: NetnsTestbed) -> None:
    udp = UdpTraffic((1200,), BOTH_WAYS, (Test.RATE, Test.ECHO), rate=("2000",), duration_s=1.0, flows=16)
    tunnel = TunnelSpec("openvpn", "two", {"processes": 2})
    records = measure(testbed, Plan("lab", "", (tunnel,), None, rounds=1, udp=udp))
    assert len(records) == 4
    for record in records:
        assert record.outcome is Outcome.MEASURED, record.reason
        assert check(record, "sharing").verdict is Verdict.OK, check(record, "sharing").reason
        assert record.udp is not None
        assert record.udp.counts is not None
        assert record.udp.counts.received_packets == record.udp.counts.sent_packets
    one_flow = replace(udp, flows=1, tests=(Test.RATE,), direction=(Direction.OUT,))
    (record,) = measure(testbed, Plan("lab", "", (tunnel,), None, rounds=1, udp=one_flow))
    assert check(record, "sharing").verdict is Verdict.VOID
    assert check(record, "sharing").reason.endswith("more flows (udp.flows) share out better")


def test_two_processes_both_carry_packets(testbed: NetnsTestbed) -> None:
    tunnel = TunnelSpec("openvpn", "two", {"processes": 2, "outside": "ipv6"})
    (record,) = measure(testbed, make_plan(tunnel, streams=16))
    require_proven(record)
    assert record.proof is not None
    assert [found.verdict for found in record.proof.checks if found.name == "sharing"] == [Verdict.OK]
    assert check(record, "sharing").verdict is Verdict.OK, check(record, "sharing").reason
    assert record.tcp is not None
    assert set(record.tcp.window.program_cpu_s) == {"openvpn", "openvpn-2"}
    policy = testbed.router.run(["cat", "/proc/sys/net/ipv4/fib_multipath_hash_policy"]).stdout
    assert policy.strip() == "0", "it is as it was"
    assert "2001:2:" not in testbed.router.ip("addr").stdout


@pytest.mark.parametrize("kind", ["none", "openvpn"])
def test_a_road_warrior_ends_the_tunnel_itself_and_the_router_is_under_test(kind: str, tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        plan = make_plan(TunnelSpec(kind, kind), payload_bytes=(1200,), direction=BOTH_WAYS)
        for record in measure(testbed, plan):
            require_proven(record)
            assert record.proof is not None
            assert {name.split(".")[0] for name in record.proof.versions} == {"client", "router", "server"}
            assert {"route-client", "route-router"} <= {found.name for found in record.proof.checks}
            assert record.tcp is not None
            assert (record.tcp.window.daemon_cpu_s is None) is (kind == "none")
            assert record.tcp.counters.forwarded_packets > record.tcp.counters.data_packets * 0.9
        assert processes_of(testbed) == []


@pytest.mark.parametrize("kind", ["none", "vxlan", "openvpn"])
def test_a_tunnel_between_two_gateways_ends_before_the_server(kind: str, tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=GATEWAY_PAIR) as testbed:
        assert testbed.far_host.name == "gateway"
        (*records,) = measure(testbed, make_plan(TunnelSpec(kind, kind), payload_bytes=(1200,), direction=BOTH_WAYS))
        for record in records:
            require_proven(record)
            assert {
                found.reason for found in record.checks if found.verdict is Verdict.VOID and found.rule != 12
            } == set()
            assert check(record, "path-setup").verdict is Verdict.OK, check(record, "path-setup").reason
            assert record.tcp is not None
            has_cpu = not {*testbed.far_host.cpus} & {*testbed.client.cpus}
            assert (record.tcp.window.far_end_busy_share is not None) is has_cpu
            assert record.tcp.counters.forwarded_packets > record.tcp.counters.data_packets * 0.9
            # The gateway forwards each packet, and the server sees none of the tunnel.
            before, after = (
                record.raw[name]["far"]["devices"]["far"] for name in ("counters_before", "counters_after")
            )
            carried = sum(after[way] - before[way] for way in ("rx_packets", "tx_packets"))
            assert carried >= (record.tcp.counters.data_packets + record.tcp.counters.ack_packets) * 0.999
        assert "tun" not in testbed.server.ip("-o", "link").stdout
        assert processes_of(testbed) == []


def test_ipv6_goes_through_two_gateways_inside_and_outside(tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=GATEWAY_PAIR) as testbed:
        tunnel = TunnelSpec("openvpn", "six", {"inside": "ipv6", "outside": "ipv6"})
        (record,) = measure(testbed, make_plan(tunnel, payload_bytes=(1200,)))
        require_proven(record)
