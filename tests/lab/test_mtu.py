"""MTU and fragments: what is cut inside and outside the tunnel is counted as the kernels count it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.bench import TRIES, check, make_testbed, measure

from tunnelbench.host.procfs import parse_snmp, parse_snmp6
from tunnelbench.model.plan import Direction, OptionValue, Plan, Test, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, Link
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

BOTH_WAYS = (Direction.OUT, Direction.IN)
PACKETS = 200
OPENVPN: dict[str, OptionValue] = {"cipher": "AES-128-GCM", "mssfix": 0}
OUTSIDE = [
    TunnelSpec("openvpn", "outer fragments", {**OPENVPN, "tun_mtu": 1500}),
    TunnelSpec("openvpn", "outer fragments over IPv6", {**OPENVPN, "tun_mtu": 1500, "outside": "ipv6"}),
]
INSIDE = [
    TunnelSpec("vxlan", "inner fragments", {"mtu": 1000}),
    TunnelSpec("vxlan", "inner fragments that the router tracks", {"mtu": 1000, "firewall": "stateful"}),
    TunnelSpec("vxlan", "inner fragments of IPv6", {"mtu": 1300, "inside": "ipv6"}),
]


def plan_of(tunnel: TunnelSpec, payload_bytes: int) -> Plan:
    udp = UdpTraffic((payload_bytes,), BOTH_WAYS, (Test.RATE,), rate=(str(PACKETS // 2),), duration_s=2.0)
    return Plan("lab", "", (tunnel,), None, rounds=1, udp=udp)


def created(testbed: NetnsTestbed) -> int:
    """Return the fragments that the kernels of all hosts have made so far."""
    total = 0
    for host in testbed.hosts:
        text = host.read("/proc/net/snmp")
        total += parse_snmp(text)["Ip.FragCreates"] + parse_snmp6(host.read("/proc/net/snmp6"))["Ip6.FragCreates"]
    return total


def trials(testbed: NetnsTestbed, tunnel: TunnelSpec, payload_bytes: int) -> list[TrialRecord]:
    for _ in range(TRIES):
        found = measure(testbed, plan_of(tunnel, payload_bytes))
        # Beside other tests, the sender may be too late at its end to send the last packet.
        if all(record.udp and record.udp.counts and record.udp.counts.sent_packets == PACKETS for record in found):
            break
    for record in found:
        assert record.outcome is Outcome.MEASURED, record.reason
        assert record.udp is not None
        assert record.udp.counts is not None
        assert record.udp.counts.received_packets == record.udp.counts.sent_packets == PACKETS
        for name in ("packet-count", "outer-protocol-in-trial", "proof-after"):
            assert check(record, name).verdict is Verdict.OK, check(record, name).reason
    return found


@pytest.mark.parametrize("tunnel", OUTSIDE, ids=lambda tunnel: tunnel.name)
def test_packets_of_the_tunnel_that_exceed_the_cable_are_two_fragments_each(
    testbed: NetnsTestbed, tunnel: TunnelSpec
) -> None:
    for record in trials(testbed, tunnel, 1472):
        assert record.udp is not None
        counters = record.udp.counters
        assert counters is not None
        assert (counters.outer_fragments, counters.inner_fragments) == (2 * PACKETS, 0)
        assert (counters.fragments_created, counters.reassembled) == (2 * PACKETS, PACKETS)
        said = f"{2 * PACKETS} fragments made, {PACKETS} packets put together again; "
        assert check(record, "fragments").reason.startswith(
            f"{said}0 fragments arrived inside the tunnel and {2 * PACKETS} outside"
        )


@pytest.mark.parametrize("tunnel", INSIDE, ids=lambda tunnel: tunnel.name)
def test_packets_that_exceed_the_tunnel_are_cut_before_it_as_the_kernels_count(
    testbed: NetnsTestbed, tunnel: TunnelSpec
) -> None:
    for record in trials(testbed, tunnel, 1400):
        assert record.udp is not None
        counters = record.udp.counters
        assert counters is not None
        assert (counters.outer_fragments, counters.inner_fragments) == (0, 2 * PACKETS)
        # A router that tracks connections puts them together, too, and cuts them again.
        times = 2 if "firewall" in tunnel.options else 1
        assert (counters.fragments_created, counters.reassembled) == (2 * PACKETS * times, PACKETS * times)
        assert check(record, "fragments").reason.endswith(
            f"{2 * PACKETS} fragments arrived inside the tunnel and 0 outside; a larger tunnel MTU or smaller packets "
            "would spare the sender this"
        )
        assert record.proof is not None
        assert record.proof.inner_mtu_bytes == tunnel.options["mtu"]


@pytest.mark.parametrize(
    ("tunnel", "mtu_bytes", "topology"),
    [
        (TunnelSpec("vxlan", "cut again", {"mtu": 1280}), 1492, ROUTER_SERVER),
        (TunnelSpec("openvpn", "cut again inside and outside", {**OPENVPN, "tun_mtu": 1460}), 1480, GATEWAY_PAIR),
        (TunnelSpec("vxlan", "put together", {"mtu": 1000, "firewall": "stateful"}), 1500, ROUTER_SERVER),
        (TunnelSpec("vxlan", "put together and cut again", {"firewall": "stateful"}), 1492, ROAD_WARRIOR),
        (
            TunnelSpec("openvpn", "put together", {**OPENVPN, "fragment": 1300, "firewall": "stateful"}),
            1492,
            GATEWAY_PAIR,
        ),
    ],
    ids=lambda value: f"{value.kind} {value.name}" if isinstance(value, TunnelSpec) else None,
)
def test_packets_that_the_router_cuts_or_puts_together_are_neither_merged_nor_copied(
    tunnel: TunnelSpec, mtu_bytes: int, topology: str, tmp_path: Path
) -> None:
    with make_testbed(tmp_path, Link(mtu_bytes=mtu_bytes), topology=topology) as testbed:
        for record in trials(testbed, tunnel, 1472):
            for name in ("merged-frames", "copies", "outer-protocol-in-trial"):
                assert check(record, name).verdict is Verdict.OK, check(record, name).reason


def test_fragments_without_a_tunnel_are_those_of_the_traffic(tmp_path: Path) -> None:
    with make_testbed(tmp_path, Link(mtu_bytes=1492)) as testbed:
        for device in ("lan", "wan"):
            assert " mtu 1492 " in testbed.router.ip("link", "show", "dev", device).stdout
        before = created(testbed)
        (record, _) = trials(testbed, TunnelSpec("none", "no tunnel"), 1472)
        assert record.udp is not None
        assert record.udp.counters is not None
        assert (record.udp.counters.inner_fragments, record.udp.counters.outer_fragments) == (2 * PACKETS, 0)
        assert created(testbed) - before >= 4 * PACKETS


def test_a_cable_with_jumbo_frames_carries_the_largest_packets_whole(tmp_path: Path) -> None:
    with make_testbed(tmp_path, Link(mtu_bytes=9000)) as testbed:
        for tunnel in (TunnelSpec("none", "no tunnel"), TunnelSpec("openvpn", "jumbo", {**OPENVPN, "tun_mtu": 8900})):
            for record in trials(testbed, tunnel, 8800):
                assert record.udp is not None
                assert record.udp.counters is not None
                assert (record.udp.counters.fragments_created, record.udp.counters.inner_fragments) == (0, 0)
