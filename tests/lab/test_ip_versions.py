"""IPv6 inside and outside the tunnel: trials are proven and counted as those of IPv4, and nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.bench import check, make_plan, make_testbed, measure
from tests.lab.test_topologies import require_proven

from tunnelbench.model.frames import ethernet_bytes, tcp_packet_bytes
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import Direction, Plan, Test, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.model.testbed import ROAD_WARRIOR, Link
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

BOTH_WAYS = (Direction.OUT, Direction.IN)
BOTH_VERSIONS = {"inside": "ipv6", "outside": "ipv6"}
INSIDE = [
    TunnelSpec("none", "no tunnel", {"inside": "ipv6"}),
    TunnelSpec("vxlan", "VXLAN", {"inside": "ipv6"}),
    TunnelSpec("tinc", "tinc", BOTH_VERSIONS),
]


def left_over(testbed: NetnsTestbed) -> list[str]:
    """Return the addresses and routes of IPv6 that the hosts have, but for those of the kernel's own."""
    found = []
    for host in testbed.hosts:
        found += [line for line in host.ip("-6", "-o", "addr").stdout.splitlines() if "2001:2:" in line]
        found += [line for line in host.ip("-6", "route").stdout.splitlines() if "2001:2:" in line]
        assert host.read("/proc/net/snmp6")
        forwarding = host.run(["cat", "/proc/sys/net/ipv6/conf/all/forwarding"]).stdout.strip()
        found += [f"{host.name} forwards"] if forwarding != "0" else []
    return found


@pytest.mark.parametrize("tunnel", INSIDE, ids=lambda tunnel: tunnel.kind)
def test_tcp_over_ipv6_is_measured_as_tcp_over_ipv4_and_nothing_stays(
    testbed: NetnsTestbed, tunnel: TunnelSpec
) -> None:
    for record in measure(testbed, make_plan(tunnel, payload_bytes=(1200,), direction=BOTH_WAYS, duration_s=2)):
        require_proven(record)
        assert record.tcp is not None
        assert record.tcp.mss_bytes == 1200
        largest = ethernet_bytes(tcp_packet_bytes(1200, IpVersion.IPV6.header_bytes))
        assert f"one segment makes {largest}" in check(record, "merged-frames").reason
        mean_bytes = record.tcp.counters.data_bytes / record.tcp.counters.data_packets
        assert largest * 0.98 < mean_bytes <= largest  # some devices count no Ethernet header
        assert record.tcp.counters.forwarded_packets >= record.tcp.counters.data_packets
        for name in ("router-losses", "retransmits", "path-setup", "firewall"):
            assert check(record, name).verdict is Verdict.OK, check(record, name).reason
    assert left_over(testbed) == []


def test_udp_over_ipv6_is_counted_packet_by_packet_both_ways(testbed: NetnsTestbed) -> None:
    udp = UdpTraffic((500,), BOTH_WAYS, (Test.RATE, Test.ECHO), rate=("100",), duration_s=2.0)
    plan = Plan("lab", "", (TunnelSpec("vxlan", "VXLAN", BOTH_VERSIONS),), None, rounds=1, udp=udp)
    for record in measure(testbed, plan):
        assert record.outcome is Outcome.MEASURED, record.reason
        assert record.udp is not None
        assert record.udp.counts is not None
        assert record.udp.counts.sent_packets == record.udp.counts.received_packets == 200
        for name in ("packet-count", "merged-frames", "outer-protocol-in-trial", "proof-after"):
            assert check(record, name).verdict is Verdict.OK, check(record, name).reason
    assert left_over(testbed) == []


def test_a_cable_carries_less_payload_in_longer_headers(tmp_path: Path) -> None:
    limits = []
    with make_testbed(tmp_path, Link(rate_out_mbps=20, rate_in_mbps=20)) as testbed:
        for options in ({}, {"inside": "ipv6"}, BOTH_VERSIONS):
            (record,) = measure(testbed, make_plan(TunnelSpec("vxlan", "VXLAN", options), payload_bytes=(1200,)))
            require_proven(record)
            assert check(record, "physical-limit").verdict is Verdict.OK, check(record, "physical-limit").reason
            assert record.tcp is not None
            assert record.tcp.physical_limit_bps is not None
            assert record.tcp.throughput_bps > record.tcp.physical_limit_bps * 0.9
            limits.append(record.tcp.physical_limit_bps)
    on_wire = [1200 + 52 + 50 + 38, 1200 + 72 + 50 + 38, 1200 + 72 + 70 + 38]
    assert limits == pytest.approx([20e6 * 1200 / length for length in on_wire], rel=0.002), "and the burst"


@pytest.mark.parametrize("kind", ["none", "wireguard-go"])
def test_a_road_warriors_traffic_may_be_ipv6(kind: str, tmp_path: Path) -> None:
    with make_testbed(tmp_path, topology=ROAD_WARRIOR) as testbed:
        options = {"inside": "ipv6"} if kind == "none" else BOTH_VERSIONS
        plan = make_plan(TunnelSpec(kind, kind, options), payload_bytes=(1200,), direction=BOTH_WAYS)
        for record in measure(testbed, plan):
            require_proven(record)
        assert left_over(testbed) == []
