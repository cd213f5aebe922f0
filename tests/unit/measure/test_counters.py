"""Counters of the path, before and after a trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import sample
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.host.procfs import DeviceCounters
from tunnelbench.measure.counters import (
    PING_FRAME_BYTES,
    Arrivals,
    HostCounters,
    Place,
    Snapshot,
    arrivals,
    data_shares,
    direct_counters,
    direct_place,
    path_counters,
    read_host,
)
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.testbed.base import BackToBack

COUNTS = st.integers(0, 2**40)
IN = Place(Direction.IN, ("lan",), ("tun0",), "wan")
OUT = replace(IN, direction=Direction.OUT)
SNMP = {"Ip.ForwDatagrams": 0, "Ip.FragCreates": 0, "Ip.ReasmOKs": 0, "Icmp.InEchoReps": 0}


def device(rx_packets: int = 0, rx_bytes: int = 0, tx_packets: int = 0, dropped: int = 0) -> DeviceCounters:
    return DeviceCounters(rx_bytes, rx_packets, dropped, 0, tx_packets, dropped)


def host(devices: dict[str, DeviceCounters], **snmp: int) -> HostCounters:
    return HostCounters(devices, SNMP | {name.replace("_", "."): value for name, value in snmp.items()})


NOTHING = Snapshot(
    client=host({"lan": device()}),
    router=host({"lan": device(), "wan": device()}),
    server=host({"wan": device(), "tun0": device()}),
    outer={"expected": (0, 0), "other": (0, 0)},
)


@given(COUNTS, COUNTS, st.integers(0, 1000))
def test_data_and_acks_are_counted_where_they_arrive_and_answers_to_pings_are_neither(
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
        outer={"expected": (1503, 1_700_000), "other": (7, 800)},
    )  # fmt: skip
    found = path_counters(NOTHING, after, IN)
    assert (found.data_packets, found.data_bytes, found.ack_packets) == (1000, 1_514_000, 500)
    assert found.forwarded_packets == 1500
    assert (found.outer_expected_packets, found.outer_expected_bytes) == (1503, 1_700_000)
    assert (found.outer_other_packets, found.outer_other_bytes) == (7, 800)
    assert found.wan_packets == 1503
    assert (found.fragments_created, found.reassembled) == (24, 12)
    assert found.dropped_packets == 2 * (1 + 2 + 3 + 4)


def test_where_the_tunnel_ends_before_the_server_its_far_end_counts_the_wan_and_the_server_what_arrives() -> None:
    place = Place(Direction.OUT, ("lan",), ("far",), "wan", far_devices=("tun0",))
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


def test_of_a_road_warriors_tunnel_the_lan_is_counted_and_the_pings_beside_it_are_not() -> None:
    place = Place(Direction.IN, ("tun0",), ("wan",), "lan", is_lan=True, has_pings=False)
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
    place = Place(direction, several if is_client else one, one if is_client else several, "wan")
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


def test_devices_and_statistics_are_told_apart_in_one_reading(captured: Files) -> None:
    found = read_host(captured)
    assert set(found.devices) == {"lan", "lo", "wan"}
    assert found.snmp["Ip.ForwDatagrams"] > 1_000_000
    assert "Udp.InErrors" in found.snmp
