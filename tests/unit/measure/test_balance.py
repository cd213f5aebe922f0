"""Packets that vanish or multiply on the path, from readings of its counters to the checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import make_tcp
from tests.unit.measure.test_counters import IN, NOTHING, device, host
from tests.unit.tunnel.cases import make_tunnel
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost

from tunnelbench.host.procfs import DeviceCounters
from tunnelbench.measure.balance_checks import check_balance
from tunnelbench.measure.counters import CountingPoints, HostCounters, QueueCounters, Snapshot, read_queues
from tunnelbench.measure.path_balance import PathBalance, TunnelDevices, devices_of, path_balance
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check, Verdict

OK, NOTE, DOUBTFUL = Verdict.OK, Verdict.NOTE, Verdict.DOUBTFUL
COUNTERS = PathCounters(66_000, 10**8, 34_000, 100_000, 100_000, 10**8, 0, 0, 100_000, 0, 0, 0)
TCP = replace(make_tcp(), retransmits=0)
CLEAN = PathBalance(100_000, 200_000, 200_000, 100_000, 100_000, 0, 0)
SHAPER = {"tbf on wan (1:)": QueueCounters(12, 300, 7)}
FULL = QueueCounters(dropped_packets=9)
"""A queue of a tunnel's device, whose program was busy."""
TC = """[{"kind":"tbf","handle":"1:","dev":"wan","root":true,"drops":12,"overlimits":300,"backlog":9000,"qlen":7},
{"kind":"noqueue","handle":"0:","dev":"lan","root":true,"drops":0,"overlimits":0,"backlog":0,"qlen":0}]"""


def checks(balance: PathBalance = CLEAN, counters: PathCounters = COUNTERS, **changes: Any) -> dict[str, Check]:
    circumstances = {"tcp": TCP, "one_outer_packet": True, "has_own_router": False, **changes}
    return {check.name: check for check in check_balance(balance, counters, **circumstances)}


def test_a_path_that_keeps_its_packets_passes() -> None:
    found = checks()
    assert {name: (check.verdict, check.rule) for name, check in found.items()} == {
        "router-losses": (OK, 9),
        "router-queues": (OK, 9),
        "copies": (OK, 3),
        "retransmits": (OK, 9),
        "other-traffic": (OK, 16),
    }


@pytest.mark.parametrize(
    ("segments", "verdict"), [(None, OK), (34_000, OK), (40_000, OK), (32_940, OK), (32_939, DOUBTFUL), (0, DOUBTFUL)]
)
def test_packets_that_come_back_and_are_not_the_receivers_are_other_traffic(
    segments: int | None, verdict: Verdict
) -> None:
    check = checks(replace(CLEAN, receiver_segments=segments))["other-traffic"]
    assert (check.verdict, "other traffic" in check.reason) == (verdict, verdict is DOUBTFUL)


@pytest.mark.parametrize(("lost", "dropped", "verdict"), [(460, 0, OK), (461, 0, DOUBTFUL), (561, 101, OK)])
def test_packets_that_vanish_in_the_router_uncounted_are_doubtful(lost: int, dropped: int, verdict: Verdict) -> None:
    balance = replace(CLEAN, router_out_packets=200_000 - lost, router_dropped_packets=dropped)
    check = checks(balance)["router-losses"]
    assert check.verdict is verdict
    assert check.reason.startswith(f"200000 frames arrived at the router and {200_000 - lost} left it")
    assert checks(balance, one_outer_packet=False)["router-losses"].verdict is OK
    assert checks(balance, replace(COUNTERS, fragments_created=1))["router-losses"].verdict is OK


@pytest.mark.parametrize(("refused", "verdict"), [(3, OK), (4, DOUBTFUL)])
def test_packets_that_the_router_did_not_forward_are_doubtful(refused: int, verdict: Verdict) -> None:
    check = checks(replace(CLEAN, router_refused_packets=refused), one_outer_packet=False)["router-losses"]
    assert check.verdict is verdict
    assert ("forwarding was off" in check.reason) is (verdict is DOUBTFUL)


@pytest.mark.parametrize(
    ("counted", "duplicates", "verdict"),
    [(0, 0, DOUBTFUL), (40, 0, DOUBTFUL), (41, 0, OK), (5000, 0, OK), (0, 40, DOUBTFUL), (20, 21, OK)],
)
def test_segments_that_are_sent_again_without_a_counted_loss_are_doubtful(
    counted: int, duplicates: int, verdict: Verdict
) -> None:
    tcp = make_tcp(throughput_bps=1448 * 8e3)  # 10,000 packets
    tcp = replace(tcp, retransmits=121)
    check = checks(replace(CLEAN, counted_losses_packets=counted, duplicate_segments=duplicates), tcp=tcp)[
        "retransmits"
    ]
    assert check.verdict is verdict
    assert check.reason.startswith(
        f"the sender sent 121 segments again, 1.21% of 10000; {duplicates} of them had arrived before, "
        f"and the path counts {counted} drops"
    )
    assert ("lost without a counter" in check.reason) is (verdict is DOUBTFUL)


def test_a_sender_that_reports_no_retransmits_passes() -> None:
    assert checks(tcp=replace(TCP, retransmits=None))["retransmits"].verdict is OK


def test_losses_are_a_result_of_udp_and_no_fault() -> None:
    assert "router-losses" not in checks(replace(CLEAN, router_out_packets=1), tcp=None)


@pytest.mark.parametrize(("sender", "verdict"), [(100_000, OK), (99_840, OK), (99_839, DOUBTFUL), (None, None)])
def test_packets_that_never_left_the_sender_are_no_loss_of_the_path(
    sender: int | None, verdict: Verdict | None
) -> None:
    found = checks(replace(CLEAN, sender_packets=sender), tcp=None, engine_sent_packets=100_000).get("sent-count")
    assert (found and found.verdict) is verdict
    if verdict is DOUBTFUL:
        assert found
        assert found.reason == (
            "the packet engine says that it sent 100000 packets; the sender's device sent or dropped 99839: the others "
            "were never sent, and count as lost on the path"
        )


def test_a_queue_that_delays_is_named_with_its_figures() -> None:
    check = checks(replace(CLEAN, queues=SHAPER))["router-queues"]
    assert (check.verdict, check.reason) == (
        DOUBTFUL,
        "a queue of the router limits it: tbf on wan (1:) dropped 12, delayed 300, 7 still wait",
    )


@pytest.mark.parametrize(("wan", "verdict"), [(102_060, OK), (102_061, DOUBTFUL)])
def test_more_outer_packets_than_inner_ones_are_copies(wan: int, verdict: Verdict) -> None:
    counters = replace(COUNTERS, wan_packets=wan)
    assert checks(counters=counters)["copies"].verdict is verdict
    assert checks(counters=counters, one_outer_packet=False)["copies"].verdict is OK
    assert checks(counters=replace(counters, fragments_created=2000))["copies"].verdict is OK


@pytest.mark.parametrize(("acks", "verdict"), [(36_060, OK), (36_061, DOUBTFUL)])
def test_more_inner_packets_than_were_sent_are_copies(acks: int, verdict: Verdict) -> None:
    counters = replace(COUNTERS, ack_packets=acks)
    assert checks(counters=counters, one_outer_packet=False)["copies"].verdict is verdict


def test_copies_that_arrive_do_not_raise_the_limit_of_outer_packets() -> None:
    twice = replace(COUNTERS, wan_packets=160_000, data_packets=126_000, ack_packets=34_000)
    assert checks(counters=twice)["copies"].verdict is DOUBTFUL


@pytest.mark.parametrize(("arrived", "verdict"), [(102_060, OK), (102_061, DOUBTFUL), (50_000, OK)])
def test_more_frames_than_the_router_sent_are_copies(arrived: int, verdict: Verdict) -> None:
    check = checks(replace(CLEAN, neighbour_cable_packets=arrived), one_outer_packet=False)["copies"]
    assert check.verdict is verdict
    assert check.reason.endswith("packets were copied") is (verdict is DOUBTFUL)


@pytest.mark.parametrize(("arrived", "verdict"), [(153_060, OK), (153_061, DOUBTFUL)])
def test_fragments_that_the_path_made_are_no_copies_and_others_are(arrived: int, verdict: Verdict) -> None:
    balance = replace(CLEAN, added_packets=50_000)
    check = checks(balance, replace(COUNTERS, data_packets=arrived, ack_packets=0))["copies"]
    assert check.verdict is verdict
    assert "and cutting made 50000 more of them" in check.reason


def cut(packets: int, pieces: int) -> dict[str, int]:
    """Return the counters of a host that has cut so many packets into so many pieces each."""
    return {"Ip_FragOKs": packets, "Ip_FragCreates": packets * pieces}


@pytest.mark.parametrize(
    ("router", "server", "far", "by_router", "on_path"),
    [
        (cut(400, 2), {}, None, 400, 400),  # forwarded fragments, which the client had made
        ({"Ip6_FragOKs": 5, "Ip6_FragCreates": 15}, {}, None, 10, 10),
        (cut(400, 2) | {"Ip_ReasmReqds": 800, "Ip_ReasmOKs": 400}, {}, None, 400, 0),  # connection tracking
        ({"Ip_ReasmReqds": 30, "Ip_ReasmOKs": 10}, cut(10, 3), None, 0, 0),  # of the tunnel's packets
        ({}, cut(400, 2), None, 0, 0),  # before the tunnel, which is part of the offered packets
        ({}, {}, cut(400, 2), 0, 400),  # the gateway cut forwarded packets before the tunnel
        (cut(30, 3) | {"Ip_ReasmReqds": 30, "Ip_ReasmOKs": 10}, {}, cut(10, 3), 60, 60),
    ],
)
def test_packets_that_router_and_far_end_make_by_cutting_are_counted(
    router: dict[str, int], server: dict[str, int], far: dict[str, int] | None, by_router: int, on_path: int
) -> None:
    place = IN if far is None else replace(IN, far_devices=("tun0",))
    before = NOTHING if far is None else replace(NOTHING, far=host({}))
    later = replace(
        before, router=host({}, **router), server=host({}, **server), far=None if far is None else host({}, **far)
    )
    found = path_balance(before, later, place, "lan", "wan", tunnel=TunnelDevices())
    assert (found.added_by_router_packets, found.added_packets) == (by_router, on_path)


def test_fragments_of_the_tunnels_own_packets_are_not_added_to_the_traffic() -> None:
    outer = NOTHING.outer | {"outer_fragments": (90, 0), "outer_packets_cut": (30, 0)}
    later = replace(NOTHING, router=host({}, Ip_FragOKs=430, Ip_FragCreates=890), outer=outer)
    found = path_balance(NOTHING, later, IN, "lan", "wan", tunnel=TunnelDevices())
    assert found.added_by_router_packets == 400


def test_a_router_of_its_own_may_have_queues_and_losses() -> None:
    balance = replace(CLEAN, router_out_packets=1, queues=SHAPER, neighbour_cable_packets=10**6)
    balance = replace(balance, receiver_segments=0)
    lossy = replace(TCP, retransmits=99_000)
    assert {check.verdict for check in checks(balance, has_own_router=True, tcp=lossy).values()} == {NOTE}


def moved(rx: int, tx: int, dropped: int = 0) -> DeviceCounters:
    return device(rx_packets=rx, tx_packets=tx, dropped=dropped)


def after(
    client: HostCounters, router: HostCounters, server: HostCounters = NOTHING.server, link_dropped_packets: int = 0
) -> Snapshot:
    return replace(NOTHING, client=client, router=router, server=server, link_dropped_packets=link_dropped_packets)


@pytest.mark.parametrize(("has_queue", "of_the_tunnel"), [(True, 7), (False, 0)])
def test_the_balance_is_read_from_the_ends_of_each_section(has_queue: bool, of_the_tunnel: int) -> None:
    unsent = DeviceCounters(0, 0, 0, 0, 0, tx_dropped=7)
    router = host(
        {"lan": moved(103, 52), "wan": moved(50, 99, 1), "tun0": unsent},
        Ip_InAddrErrors=4,
        Ip_OutNoRoutes=2,
        Udp_RcvbufErrors=5,
    )
    found = path_balance(
        NOTHING,
        after(
            client=host({"lan": moved(52, 103)}, Icmp_OutEchos=3, TcpExt_TCPDSACKRecv=7),
            router=replace(router, queues={**SHAPER, "noqueue on lan (0:)": QueueCounters(), "fq on tun0 (0:)": FULL}),
            server=host({"wan": moved(98, 50), "tun0": moved(97, 50)}, TcpExt_TCPDSACKOfoRecv=2),
            link_dropped_packets=40,
        ),
        IN,
        "lan",
        "wan",
        tunnel=TunnelDevices(["tun0"], have_queue=has_queue),
    )
    assert found == PathBalance(
        offered_packets=150,
        router_in_packets=153,
        router_out_packets=151,
        router_cable_packets=149,
        neighbour_cable_packets=148,
        router_dropped_packets=2 + 5 + 12 + of_the_tunnel,
        router_refused_packets=6,
        counted_losses_packets=2 + 5 + 12 + 40 + of_the_tunnel,
        duplicate_segments=9,
        queues=SHAPER,
    )


def test_the_senders_packets_are_those_of_its_cable_sent_or_dropped() -> None:
    dropped = DeviceCounters(0, 0, 0, 0, 103, tx_dropped=4)
    later = after(client=host({"lan": dropped}), router=host({}), server=host({"tun0": moved(0, 9)}))
    tunnel = TunnelDevices(["tun0"])
    out, back = (
        path_balance(NOTHING, later, replace(IN, direction=way, veths=("lan", "wan")), "lan", "wan", tunnel=tunnel)
        for way in (Direction.OUT, Direction.IN)
    )
    assert (out.sender_packets, back.sender_packets) == (107, None)


def test_a_frame_that_a_veth_does_not_deliver_is_lost_once_and_where_it_was_sent() -> None:
    client = host({"lan": DeviceCounters(0, 0, 0, 0, 100_000, tx_dropped=956)})
    router = host(
        {"lan": DeviceCounters(0, 100_000, rx_dropped=956, tx_bytes=0, tx_packets=0, tx_dropped=0),
         "wan": DeviceCounters(0, 0, 0, 0, 93_685, tx_dropped=6315)}
    )  # fmt: skip
    server = host({"wan": DeviceCounters(0, 93_685, rx_dropped=6315, tx_bytes=0, tx_packets=0, tx_dropped=0)})
    found = path_balance(
        NOTHING,
        replace(after(client, router, server), link_dropped_packets=20, link_unsent_packets=3),
        replace(IN, server_devices=("wan",), veths=("lan", "wan")),
        "lan",
        "wan",
        tunnel=devices_of(make_tunnel("none", {})),
    )
    assert found.router_in_packets - found.router_out_packets == found.router_dropped_packets == 6315
    assert found.counted_losses_packets == 956 + 6315 + 20 + 3
    assert checks(found)["router-losses"].verdict is OK


def test_the_cable_of_plain_forwarding_is_no_device_of_a_tunnel() -> None:
    assert devices_of(make_tunnel("none", {})) == TunnelDevices(set(), have_queue=False)
    assert devices_of(make_tunnel("vxlan", {})) == TunnelDevices({"vxlan0"}, have_queue=False)
    tunnel = make_tunnel("openvpn", {})
    tunnel.router_daemons.append(FakeDaemon("").as_daemon)
    assert devices_of(tunnel) == TunnelDevices({"tun0"}, have_queue=True)


def test_an_uncounted_loss_is_a_note_where_the_tunnel_drops_without_a_counter() -> None:
    lossy: dict[str, Any] = {"tcp": replace(TCP, retransmits=99_000), "has_uncounted_queue": True}
    found = checks(replace(CLEAN, router_out_packets=100_000, neighbour_cable_packets=10**6), **lossy)
    assert {name: check.verdict for name, check in found.items()} == {
        "router-losses": NOTE,
        "router-queues": OK,
        "copies": DOUBTFUL,
        "retransmits": NOTE,
        "other-traffic": OK,
    }
    for name in ("router-losses", "retransmits"):
        assert found[name].reason.endswith("this tunnel counts no packets that its full queue drops")
    assert checks(replace(CLEAN, router_refused_packets=4), **lossy)["router-losses"].verdict is DOUBTFUL
    assert checks(**{**lossy, "tcp": TCP})["retransmits"].verdict is OK


def test_a_road_warriors_tunnel_is_on_the_lan() -> None:
    place = CountingPoints(IN.direction, ("tun0",), ("wan",), "lan", is_lan=True, has_pings=False)
    client = host({"lan": moved(50, 100), "tun0": moved(49, 99)})
    router = host({"lan": moved(100, 50), "wan": moved(50, 99)})
    found = path_balance(NOTHING, after(client=client, router=router), place, "lan", "wan", tunnel=TunnelDevices())
    assert (found.router_cable_packets, found.neighbour_cable_packets, found.offered_packets) == (150, 150, 99)


def test_queues_are_read_from_tc(tmp_path: Path) -> None:
    assert read_queues(FakeHost("router", tmp_path, lambda _: TC)) == {
        **SHAPER,
        "noqueue on lan (0:)": QueueCounters(),
    }


@pytest.mark.parametrize("printed", ["", "tc: not found", "[{}]", "{}", "[1]"])
def test_a_router_without_a_tc_that_prints_json_has_no_queues(tmp_path: Path, printed: str) -> None:
    assert read_queues(FakeHost("router", tmp_path, lambda _: printed)) == {}
