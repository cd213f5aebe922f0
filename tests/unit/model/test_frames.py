"""Sizes on the wire, and what a link can carry, against published figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelbench.model.frames import (
    IPV6_HEADER_BYTES,
    fragments_bytes,
    stream_wire_bytes,
    tcp_limit_bps,
    tcp_packet_bytes,
    udp_limit_pps,
    wire_bytes,
)

FAST_ETHERNET_MBPS = 100


def limit_mbps(payload_bytes: int, overhead_bytes: int = 0, mtu_bytes: int = 1500) -> float:
    limit_bps = tcp_limit_bps(
        FAST_ETHERNET_MBPS, payload_bytes, lambda inner, mtu: wire_bytes(inner + overhead_bytes, mtu), mtu_bytes
    )
    return limit_bps / 1e6


@pytest.mark.parametrize(
    ("payload_bytes", "overhead_bytes", "expected_mbps"),
    [
        (1448, 0, 94.15),
        (1424, 24, 92.6),  # GRE
        (1428, 20, 92.85),  # IPIP
    ],
)
def test_fast_ethernet_carries_what_the_methodology_says(
    payload_bytes: int, overhead_bytes: int, expected_mbps: float
) -> None:
    assert limit_mbps(payload_bytes, overhead_bytes) == pytest.approx(expected_mbps, abs=0.015)


def test_fast_ethernet_carries_148809_of_the_smallest_frames() -> None:
    smallest_packet = 64 - 14 - 4
    assert int(FAST_ETHERNET_MBPS * 1e6 / 8 / wire_bytes(smallest_packet, 1500)) == 148_809


@pytest.mark.parametrize("packet_bytes", [20, 28, 45, 46])
def test_a_small_packet_fills_a_minimum_frame(packet_bytes: int) -> None:
    assert wire_bytes(packet_bytes, 1500) == 84


def test_a_full_frame_takes_1538_bytes_and_one_byte_more_takes_another_frame() -> None:
    assert wire_bytes(1500, 1500) == 1538
    assert wire_bytes(1501, 1500) == 1538 + 84


def test_fragments_carry_multiples_of_8_bytes() -> None:
    # 1480 bytes behind the header: with an MTU of 1000, 976 bytes and then 504.
    assert wire_bytes(1500, 1000) == (996 + 38) + (524 + 38)


def test_a_tunnel_that_makes_fragments_halves_what_a_link_carries() -> None:
    assert limit_mbps(1448, overhead_bytes=70) == pytest.approx(100 * 1448 / (1538 + 38 + 70 + 20), rel=0.01)


def test_the_lan_is_the_limit_where_a_tunnel_adds_nothing_to_small_packets() -> None:
    assert limit_mbps(76) == pytest.approx(100 * 76 / (76 + 52 + 38))


def test_a_segment_has_52_bytes_of_headers() -> None:
    assert tcp_packet_bytes(1448) == 1500


@given(st.integers(20, 70_000), st.integers(576, 9000))
def test_a_longer_packet_never_takes_less_and_each_frame_has_its_overhead(packet_bytes: int, mtu_bytes: int) -> None:
    taken = wire_bytes(packet_bytes, mtu_bytes)
    part = (mtu_bytes - 20) // 8 * 8
    frames = 1 + max(0, -(-(packet_bytes - mtu_bytes) // part))
    assert taken >= max(84, packet_bytes + 38)
    assert taken <= wire_bytes(packet_bytes + 1, mtu_bytes)
    assert (frames - 1) * 58 + packet_bytes + 38 <= taken <= frames * (58 + 26) + packet_bytes


def test_records_in_a_stream_share_full_segments_and_are_never_fragmented() -> None:
    # 22 bytes of record around an inner packet of 128 bytes: 150 of the 1448 bytes of a segment of 1538 on the wire
    limit_bps = tcp_limit_bps(100, 76, lambda inner, mtu: stream_wire_bytes(inner + 22, mtu), 1500)
    assert limit_bps == pytest.approx(100e6 * 76 / max(150 * 1538 / 1448, 166))


def test_fragments_of_ipv6_have_a_header_more() -> None:
    assert wire_bytes(1500, 1500, IPV6_HEADER_BYTES) == 1538
    assert wire_bytes(1501, 1500, IPV6_HEADER_BYTES) == (40 + 8 + 1448 + 38) + (40 + 8 + 13 + 38)
    assert wire_bytes(1700, 1500, IPV6_HEADER_BYTES) == (40 + 8 + 1448 + 38) + (40 + 8 + 212 + 38)


def test_packets_that_exceed_the_tunnels_mtu_take_the_wire_bytes_of_their_fragments() -> None:
    # 1500 bytes are cut to 20 + 1256 = 1276 and 20 + 224 = 244. WireGuard pads to multiples of 16 (1280, 256) and adds
    # 32 bytes, UDP 8 and IPv6 40: 1360 + 336. With 38 bytes of Ethernet each: 1772, and 10^7 / 8 / 1772 = 705.4.
    def on_wan(inner_bytes: int, mtu_bytes: int) -> int:
        return wire_bytes(-(-inner_bytes // 16) * 16 + 32 + 8 + 40, mtu_bytes, IPV6_HEADER_BYTES)

    assert fragments_bytes(1500, 1280) == (1276, 244)
    assert udp_limit_pps(10, ((1472, 1),), on_wan, 1500, inner_mtu_bytes=1280) == pytest.approx(705.4, abs=0.05)
    # On the LAN, the fragments have 1276 + 38 and 244 + 38 bytes: 1596, and 10^7 / 8 / 1596 = 783.2.
    assert udp_limit_pps(10, ((1472, 1),), lambda *_: 0, 1500, inner_mtu_bytes=1280) == pytest.approx(783.2, abs=0.05)


@pytest.mark.parametrize("inner_mtu_bytes", [None, 1500, 9000])
def test_packets_that_fit_the_tunnels_mtu_are_whole(inner_mtu_bytes: int | None) -> None:
    limit_pps = udp_limit_pps(10, ((1472, 1),), wire_bytes, 1500, inner_mtu_bytes=inner_mtu_bytes)
    assert limit_pps == pytest.approx(10e6 / 8 / 1538)


@pytest.mark.parametrize("mtu_bytes", [0, 20, 27])
def test_an_mtu_too_small_for_ip_ends_in_the_smallest_fragments(mtu_bytes: int) -> None:
    assert fragments_bytes(60, mtu_bytes) == (28,) * 5
