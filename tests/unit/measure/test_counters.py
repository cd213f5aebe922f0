"""Counters of the path, before and after a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import sample
from tests.unit.tunnel.cases import make_tunnel
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.host.procfs import DeviceCounters
from tunnelbench.host.ssh import SshServer
from tunnelbench.measure import live_tunnel
from tunnelbench.measure.counters import (
    COUNTERS,
    PING_FRAME_BYTES,
    Arrivals,
    CountingPoints,
    HostCounters,
    Snapshot,
    arrivals,
    closed_ports,
    control_rules,
    data_shares,
    direct_counters,
    direct_place,
    path_counters,
    place_of,
    read_host,
    read_path,
)
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.model.errors import TrialFailed, TunnelRefused
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.testbed.base import BackToBack
from tunnelbench.testbed.netns import NetnsTestbed

COUNTS = st.integers(0, 2**40)
IN = CountingPoints(Direction.IN, ("lan",), ("tun0",), "wan")
OUT = replace(IN, direction=Direction.OUT)
SNMP = {
    "Ip.ForwDatagrams": 0,
    "Ip.FragCreates": 0,
    "Ip.FragOKs": 0,
    "Ip.ReasmOKs": 0,
    "Ip.ReasmReqds": 0,
    "Icmp.InEchoReps": 0,
}


def device(rx_packets: int = 0, rx_bytes: int = 0, tx_packets: int = 0, dropped: int = 0) -> DeviceCounters:
    return DeviceCounters(rx_bytes, rx_packets, dropped, 0, tx_packets, dropped)


def host(devices: dict[str, DeviceCounters], **snmp: int) -> HostCounters:
    return HostCounters(devices, SNMP | {name.replace("_", "."): value for name, value in snmp.items()})


NOTHING = Snapshot(
    client=host({"lan": device()}),
    router=host({"lan": device(), "wan": device()}),
    server=host({"wan": device(), "tun0": device()}),
    outer=dict.fromkeys(COUNTERS, (0, 0)),
)


@given(COUNTS, COUNTS, st.integers(0, 1000))
def test_data_and_acks_are_counted_on_arrival_and_ping_replies_are_neither(
    to_client: int, to_server: int, answers: int
) -> None:
    client = host(
        {"lan": device(to_client + answers, to_client * 1514 + answers * PING_FRAME_BYTES)}, Icmp_InEchoReps=answers
    )
    server = host({"wan": device(10**12), "tun0": device(to_server, to_server * 52)})
    assert arrivals(client, server, IN) == Arrivals(to_client, to_client * 1514, to_server)
    assert arrivals(client, server, OUT) == Arrivals(to_server, to_server * 52, to_client)


def test_what_arrives_between_two_readings_is_their_difference() -> None:
    assert Arrivals(10, 1000, 5) - Arrivals(4, 300, 5) == Arrivals(6, 700, 0)


@pytest.mark.parametrize("gone", ["tun0", "lan"])
def test_a_device_that_has_gone_fails_the_trial_and_is_named(gone: str) -> None:
    client = host({"lan": device()} if gone != "lan" else {})
    server = host({"tun0": device()} if gone != "tun0" else {})
    with pytest.raises(TrialFailed, match=gone):
        arrivals(client, server, IN)


def test_the_counters_of_a_trial_are_what_changed() -> None:
    after = Snapshot(
        client=host({"lan": device(1003, 1_514_000 + 3 * PING_FRAME_BYTES, dropped=1)}, Icmp_InEchoReps=3),
        router=host(
            {"lan": device(dropped=2), "wan": device(dropped=3)},
            Ip_ForwDatagrams=1500, Ip_FragCreates=20, Ip_ReasmOKs=10,
        ),
        server=host(
            {"wan": device(rx_packets=501, tx_packets=1002, dropped=4), "tun0": device(500, 26_000)},
            Ip_FragCreates=4, Ip_ReasmOKs=2,
        ),
        outer=NOTHING.outer | {"expected": (1503, 1_700_000), "other": (7, 800)},
    )  # fmt: skip
    found = path_counters(NOTHING, after, IN)
    assert (found.data_packets, found.data_bytes, found.ack_packets) == (1000, 1_514_000, 500)
    assert found.forwarded_packets == 1500
    assert (found.outer_expected_packets, found.outer_expected_bytes) == (1503, 1_700_000)
    assert (found.outer_other_packets, found.outer_other_bytes) == (7, 800)
    assert found.wan_packets == 1503
    assert (found.fragments_created, found.reassembled) == (24, 12)
    assert found.dropped_packets == 2 * (1 + 2 + 3 + 4)


def test_a_bridge_forwards_what_its_port_carries_and_ip_does_not_forward() -> None:
    for by_ip, forwarded in ((0, 1500), (1500, 0)):
        router = host({"lan": device(), "wan": device(), "tap0": device(1000, 0, 500)}, Ip_ForwDatagrams=by_ip)
        before = replace(NOTHING, router=host({"lan": device(), "wan": device(), "tap0": device()}))
        found = path_counters(before, replace(before, router=router), replace(IN, bridge_port="tap0"))
        assert found.forwarded_packets == forwarded


def with_fragments(far: HostCounters | None = None, inner: int = 0, outer: int = 0) -> Snapshot:
    """Return readings after a trial in which the kernels of client, router and server got 10, 200 and 3000 fragments.

    The rules at the host that counts saw `inner` and `outer` fragments. Its kernel has made 200.
    """
    server = host({"wan": device(), "tun0": device()}, Ip_ReasmReqds=1000, Ip6_ReasmReqds=2000, Ip_FragCreates=200)
    return replace(
        NOTHING,
        client=host({"lan": device()}, Ip_ReasmReqds=10, Ip_FragCreates=1, Ip_ReasmOKs=5),
        router=host({}, Ip_ReasmReqds=200),
        server=server if far is None else replace(server, devices=server.devices | {"far": device()}),
        far=far,
        outer=NOTHING.outer | {"inner_fragments": (inner, 0), "outer_fragments": (outer, 0)},
    )


def test_fragments_inside_the_tunnel_are_counted_apart_from_those_outside() -> None:
    place = CountingPoints(Direction.OUT, ("lan",), ("tun0",), "wan")
    found = path_counters(NOTHING, with_fragments(inner=2900, outer=100), place)
    assert (found.inner_fragments, found.outer_fragments) == (10 + 2900, 200 + 100)
    assert (found.fragments_created, found.reassembled) == (201, 5)


def test_the_fragments_of_a_road_warrior_are_counted_at_the_client() -> None:
    place = CountingPoints(Direction.OUT, ("lan",), ("wan",), "lan", is_lan=True, has_pings=False)
    found = path_counters(NOTHING, with_fragments(inner=7, outer=3), place)
    assert (found.inner_fragments, found.outer_fragments) == (3000 + 7, 200 + 3)


def test_a_far_end_of_its_own_counts_only_the_fragments_outside() -> None:
    place = CountingPoints(Direction.OUT, ("lan",), ("far",), "wan", far_devices=("tun0",))
    before = replace(
        NOTHING,
        server=host({"wan": device(), "far": device()}),
        far=host({"wan": device(), "tun0": device()}),
    )
    after = with_fragments(
        host({"wan": device(), "tun0": device()}, Ip_ReasmReqds=100, Ip_FragCreates=200), inner=9999, outer=100
    )
    found = path_counters(before, after, place)
    assert (found.inner_fragments, found.outer_fragments) == (10 + 3000, 200 + 100)


def cut(packets: int, fragments: int) -> dict[str, int]:
    """Return the counters of a host that has cut packets into so many fragments in all."""
    return {"Ip_FragOKs": packets, "Ip_FragCreates": fragments}


def joined(packets: int, fragments: int) -> dict[str, int]:
    """Return the counters of a host that has put packets together from so many fragments in all."""
    return {"Ip_ReasmOKs": packets, "Ip_ReasmReqds": fragments}


TRACKED = joined(200, 400) | cut(200, 400)
"""Counters of a router that has put 200 packets of the traffic together for connection tracking, and cut them again."""
ROAD_WARRIOR = CountingPoints(Direction.OUT, ("tun0",), ("wan",), "lan", is_lan=True)


@pytest.mark.parametrize(
    ("place", "hosts", "rules", "expected"),
    [
        (IN, (joined(200, 400), {}, cut(200, 400)), (0, 0), 0),  # a small MTU of the tunnel, no connection tracking
        (IN, (joined(200, 400), TRACKED, cut(200, 400)), (0, 0), 0),
        (OUT, (cut(200, 400), TRACKED, joined(200, 400)), (0, 0), 0),
        (IN, (joined(500, 3500), joined(500, 3500) | cut(500, 3500), cut(500, 3500)), (0, 0), 0),
        (ROAD_WARRIOR, (cut(200, 400), TRACKED, joined(200, 400)), (0, 0), 0),
        (IN, ({}, joined(200, 400), cut(200, 400)), (0, 0), 400),  # packets of the tunnel, and whole packets in it
        (OUT, ({}, cut(200, 400), {}), (400, 200), 400),
        (IN, (joined(200, 400), joined(200, 400), cut(400, 800)), (0, 0), 400),  # both, no connection tracking
        (OUT, (cut(200, 400), TRACKED | cut(400, 800), joined(200, 400)), (400, 200), 400),  # both, tracked
        (IN, (joined(200, 400), joined(400, 800) | cut(200, 400), cut(400, 800)), (0, 0), None),
        (IN, (joined(150, 300), TRACKED, cut(200, 400)), (0, 0), None),  # the client lost some
        # Not tracked: each packet of the tunnel is cut outside, and the router cuts the traffic's fragments again.
        (IN, (joined(200, 600), joined(200, 400) | cut(200, 400), cut(400, 800)), (0, 0), None),
        (replace(IN, has_tunnel=False), (joined(150, 300), TRACKED, cut(200, 400)), (0, 0), 0),
    ],
)
def test_fragments_that_connection_tracking_puts_together_are_not_the_tunnels(
    place: CountingPoints, hosts: Sequence[dict[str, int]], rules: tuple[int, int], expected: int | None
) -> None:
    client, router, server = hosts
    devices = {"lan": device(), "wan": device(), "tun0": device()}
    before = replace(NOTHING, client=host(devices), server=host(devices))
    after = replace(
        before,
        client=host(devices, **client),
        router=host({}, **router),
        server=host(devices, **server),
        outer=NOTHING.outer | {"outer_fragments": (rules[0], 0), "outer_packets_cut": (rules[1], 0)},
    )
    assert path_counters(before, after, place).outer_fragments == expected


@pytest.mark.parametrize(
    ("far", "expected"),
    [
        ({}, 0),  # the server made fragments, and the far end cut none of them
        (cut(200, 400), None),  # it cut each first fragment, inside the tunnel or outside
    ],
)
def test_fragments_of_a_far_end_of_its_own_are_known_unless_it_cuts(far: dict[str, int], expected: int | None) -> None:
    place = replace(IN, server_devices=("far",), far_devices=("tun0",))
    devices = {"wan": device(), "tun0": device(), "far": device()}
    before = replace(NOTHING, server=host(devices), far=host(devices))
    after = replace(
        before,
        client=host({"lan": device()}, **joined(200, 400)),
        router=host({}, **TRACKED),
        server=host(devices, **cut(200, 400)),
        far=host(devices, **far),
    )
    assert path_counters(before, after, place).outer_fragments == expected


@pytest.mark.parametrize(("kind", "has_tunnel"), [("none", False), ("vxlan", True)])
def test_the_baseline_has_no_packets_of_a_tunnel(kind: str, has_tunnel: bool) -> None:
    for is_road_warrior in (False, True):
        testbed = Mock(lan_device="lan", wan_device="wan", is_road_warrior=is_road_warrior, has_own_far_end=False)
        assert place_of(testbed, make_tunnel(kind, {}), Direction.IN).has_tunnel is has_tunnel


def test_a_frame_that_a_veth_dropped_is_counted_once_although_both_ends_count_it() -> None:
    after = replace(
        NOTHING,
        client=host({"lan": DeviceCounters(0, 0, 0, 0, 0, tx_dropped=5)}),
        router=host({"lan": DeviceCounters(0, 0, 5, 0, 0, 0), "wan": DeviceCounters(0, 0, 0, 0, 0, tx_dropped=7)}),
        server=host({"wan": DeviceCounters(0, 0, 7, 0, 0, 0), "tun0": device(dropped=2)}),
        link_dropped_packets=100,
        link_unsent_packets=30,
    )
    assert path_counters(NOTHING, after, replace(IN, veths=("lan", "wan"))).dropped_packets == 5 + 7 + 2 * 2 + 30
    place = direct_place(BackToBack("198.18.5.1", "198.18.5.2", "direct", "direct", is_veth=True), Direction.OUT)
    none = host({"direct": device()})
    full = host({"direct": DeviceCounters(0, 0, 0, 0, 0, 4)}), host({"direct": DeviceCounters(0, 0, 4, 0, 0, 0)})
    assert direct_counters((none, none), full, place).dropped_packets == 4


def test_frames_that_a_shaped_cable_does_not_deliver_are_read_from_its_devices(tmp_path: Path) -> None:
    table = "|\n|\n near: 0 9 0 9 0 0 0 0 0 8 0 3 0 0 0 0\n far: 0 9 0 9 0 0 0 0 0 8 1 4 0 0 0 0\n"
    table += " bridge: 0 9 0 9 0 0 0 0 0 8 0 50 0 0 0 0\nIp: A\nIp: 1\n"
    listed = "".join(f', {{"counter": {{"name": "{name}", "packets": 0, "bytes": 0}}}}' for name in NOTHING.outer)

    def answer(argv: Sequence[str]) -> str:
        if argv[0] == "nft":
            return f'{{"nftables": [{{}}{listed}]}}'
        return "Ip6FragCreates 7\n" if "/proc/net/snmp6" in argv else table

    tester, other = (FakeHost(name, tmp_path, answer) for name in ("server", "other"))
    testbed = Mock(
        tunnel_cable=(tester, "wan"), client=other, router=other, server=tester, cables=[other, other],
        has_own_far_end=False, cable_devices=NetnsTestbed.cable_devices,
    )  # fmt: skip
    found = read_path(testbed)
    assert found.link_unsent_packets == 2 * (3 + 5)
    assert found.router.snmp["Ip6.FragCreates"] == 7


def test_packets_and_fragments_of_both_ip_versions_are_counted() -> None:
    place = CountingPoints(Direction.OUT, ("lan",), ("tun0",), "wan")
    both = {"Ip_ForwDatagrams": 10, "Ip6_OutForwDatagrams": 200, "Ip_FragCreates": 3, "Ip6_FragCreates": 40}
    router = host({}, **both, Ip_ReasmOKs=1, Ip6_ReasmOKs=20)
    server = host({"wan": device(), "tun0": device()}, Ip6_FragCreates=500, Ip6_ReasmOKs=600)
    found = path_counters(NOTHING, replace(NOTHING, router=router, server=server), place)
    assert (found.forwarded_packets, found.fragments_created, found.reassembled) == (210, 543, 621)


@pytest.mark.parametrize("topology", ["road warrior", "gateway", "router and server"])
def test_the_veths_of_a_testbed_are_known_where_its_packets_are_counted(topology: str) -> None:
    testbed = Mock(
        lan_device="lan", wan_device="wan", is_road_warrior=topology == "road warrior",
        has_own_far_end=topology == "gateway", veths=NetnsTestbed.veths,
    )  # fmt: skip
    assert set(place_of(testbed, make_tunnel("vxlan", {}), Direction.IN).veths) == {"lan", "wan", "far"}


def test_with_a_gateway_the_far_end_counts_the_wan_and_the_server_arrivals() -> None:
    place = CountingPoints(Direction.OUT, ("lan",), ("far",), "wan", far_devices=("tun0",))
    far = host({"wan": device(), "tun0": device()})
    before = replace(NOTHING, server=host({"far": device()}), far=far)
    after = replace(
        before,
        client=host({"lan": device(500)}),
        server=host({"far": device(1000, 1_514_000, dropped=1)}),
        far=host({"wan": device(1001, tx_packets=502, dropped=2), "tun0": device(1000)}, Ip_FragCreates=5),
    )
    found = path_counters(before, after, place)
    assert (found.data_packets, found.data_bytes, found.ack_packets) == (1000, 1_514_000, 500)
    assert (found.wan_packets, found.fragments_created, found.dropped_packets) == (1503, 5, 2 * (1 + 2))
    assert data_shares(before, after, place) == {"tun0": 1000}


def test_a_device_that_was_not_there_before_has_dropped_nothing_then() -> None:
    server = replace(NOTHING.server, devices=NOTHING.server.devices | {"tun1": device(dropped=3)})
    assert path_counters(NOTHING, replace(NOTHING, server=server), IN).dropped_packets == 6


def test_between_testers_alone_nothing_is_forwarded_and_there_is_no_tunnel() -> None:
    place = direct_place(BackToBack("198.18.5.1", "198.18.5.2", "direct", "direct"), Direction.OUT)
    before = host({"direct": device()}), host({"direct": device()})
    # Answers of the router come by another cable.
    after = (
        host({"direct": device(rx_packets=50)}, Icmp_InEchoReps=20),
        host({"direct": device(100, 151_400, tx_packets=50)}),
    )
    found = direct_counters(before, after, place)
    assert (found.data_packets, found.ack_packets, found.wan_packets) == (100, 50, 150)
    assert (found.forwarded_packets, found.outer_expected_packets, found.outer_other_packets) == (0, 0, 0)


def test_a_road_warriors_tunnel_is_counted_on_the_lan_without_pings_outside_it() -> None:
    place = CountingPoints(Direction.IN, ("tun0",), ("wan",), "lan", is_lan=True, has_pings=False)
    none = host({"lan": device(), "tun0": device()}), host({"wan": device()})
    client = host(
        {"lan": device(1004, tx_packets=504), "tun0": device(1000, 1_500_000)}, Icmp_InEchoReps=4
    )  # four of each are a ping's
    found = direct_counters(none, (client, host({"wan": device(500)})), place)
    assert (found.data_packets, found.data_bytes, found.ack_packets) == (1000, 1_500_000, 500)
    assert found.wan_packets == 1500


@pytest.mark.parametrize("direction", [Direction.IN, Direction.OUT])
@pytest.mark.parametrize("is_client", [True, False])
def test_shares_are_of_the_packets_in_the_direction_of_the_data(direction: Direction, is_client: bool) -> None:
    several, one = ("tun0", "tun1"), ("lan",)
    place = CountingPoints(direction, several if is_client else one, one if is_client else several, "wan")
    before = host({"tun0": device(), "tun1": device()})
    after = host({"tun0": device(10, tx_packets=30), "tun1": device(20, tx_packets=40)})
    first, last = (replace(NOTHING, client=each, server=each) for each in (before, after))
    arrives = (direction is Direction.IN) == is_client
    assert data_shares(first, last, place) == ({"tun0": 10, "tun1": 20} if arrives else {"tun0": 30, "tun1": 40})


def test_what_arrives_at_several_devices_is_counted_together() -> None:
    place = replace(OUT, server_devices=("tun0", "tun1"))
    server = host({"tun0": device(10, 1000), "tun1": device(20, 2000)})
    assert arrivals(host({"lan": device()}), server, place) == Arrivals(30, 3000, 0)


class Files(FakeHost):
    """A host whose /proc is what was captured."""

    def read(self, *paths: str) -> str:
        return "".join(sample(f"linux-6.18/{path.strip('/').replace('/', '-')}.txt") for path in paths)


@pytest.fixture
def captured(tmp_path: Path) -> Files:
    return Files("router", tmp_path)


def test_devices_and_statistics_are_separated_in_one_reading(captured: Files) -> None:
    found = read_host(captured)
    assert set(found.devices) == {"lan", "lo", "wan"}
    assert found.snmp["Ip.ForwDatagrams"] > 1_000_000
    assert "Udp.InErrors" in found.snmp


class Ruled(FakeHost):
    """A host that keeps the rules that it got, and the commands that undo them."""

    def __init__(self, folder: Path) -> None:
        super().__init__("server", folder)
        self.rules: list[tuple[str, list[str]]] = []

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        self.rules.append((stdin, list(undo)))


REMOVE_GUARD = ["nft", "delete", "table", "inet", "tunnelbench-guard"]


@pytest.mark.parametrize(("kind", "ports"), [("n2n", "7654, 7655"), ("wireguard-go", "51820"), ("vxlan", "4789")])
def test_ports_that_are_open_on_all_addresses_are_closed_while_the_tunnel_is_up(
    kind: str, ports: str, tmp_path: Path
) -> None:
    server = Ruled(tmp_path)
    with closed_ports(Mock(tunnel_cable=(server, "nic1")), make_tunnel(kind, {})):
        ((ruleset, undo),) = server.rules
        assert f'iifname != {{ "nic1", "lo" }} udp dport {{ {ports} }} drop' in ruleset
        assert undo == REMOVE_GUARD
        assert REMOVE_GUARD not in server.commands
    assert REMOVE_GUARD in server.commands


@pytest.mark.parametrize(
    ("error", "is_kept"), [(TrialFailed("no answer"), True), (KeyboardInterrupt(), False), (LookupError(), False)]
)
def test_ports_of_a_failed_tunnel_stay_closed_only_if_it_is_kept(
    error: BaseException, is_kept: bool, tmp_path: Path
) -> None:
    for keep in (True, False):
        server, tunnel = Ruled(tmp_path), make_tunnel("vxlan", {})
        tunnel.ends = replace(tunnel.ends, keep=keep)
        with pytest.raises(type(error)), closed_ports(Mock(tunnel_cable=(server, "nic1")), tunnel):
            raise error
        assert (REMOVE_GUARD in server.commands) is not (keep and is_kept)


def test_ports_are_open_again_after_a_tunnel_that_did_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, tunnel = Ruled(tmp_path), make_tunnel("vxlan", {})
    monkeypatch.setattr(tunnel, "_up", Mock(side_effect=TunnelRefused("no device")))
    monkeypatch.setattr(live_tunnel, "create", lambda *_: tunnel)
    monkeypatch.setattr(live_tunnel, "tunnel_ends", Mock())
    testbed = MagicMock(tunnel_cable=(server, "nic1"))
    with pytest.raises(TunnelRefused), LiveTunnel(testbed, TunnelSpec("vxlan", "vxlan", {})):
        pass
    assert REMOVE_GUARD in server.commands


def test_ports_in_a_namespace_and_ports_that_are_bound_need_no_rule(tmp_path: Path) -> None:
    server = Ruled(tmp_path)
    for namespace, kind in (("", "openvpn"), ("tb-server", "vxlan")):
        server.namespace = namespace
        with closed_ports(Mock(tunnel_cable=(server, "wan")), make_tunnel(kind, {})):
            pass
    assert (server.rules, server.commands) == ([], [])


def test_packets_from_and_to_the_ssh_servers_are_left_out() -> None:
    servers = SshServer(ip_address("192.0.2.1"), 22), SshServer(ip_address("2001:db8::1"), 2222)
    assert control_rules(servers).splitlines() == [
        "ip saddr 192.0.2.1 tcp sport 22 accept",
        "ip daddr 192.0.2.1 tcp dport 22 accept",
        "ip6 saddr 2001:db8::1 tcp sport 2222 accept",
        "ip6 daddr 2001:db8::1 tcp dport 2222 accept",
    ]
    assert control_rules(()) == ""
