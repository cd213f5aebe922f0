"""Captured packets, read from tcpdump's file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.output.samples import OUTPUT
from tests.unit.measure.pcap import ipv4, ipv6, pcap

from tunnelbench.measure.capture import Packet, parse_ipv4, read_pcap

PATTERN = bytes.fromhex("00112233445566778899aabbccddeeff")
CAPTURES = sorted(OUTPUT.glob("tcpdump-*/two-pings.pcap"))
SENT = [
    ipv4("udp", b"hello", (50000, 1194)),
    ipv4("tcp", b"x" * 1400, (655, 40000)),
    ipv4("icmp", b"\x08\x00" + bytes(62)),
    ipv4("udp", b"rest", offset=185),
]


def read(data: bytes) -> list[Packet]:
    return list(read_pcap(data))


@pytest.mark.parametrize("path", CAPTURES)
def test_a_real_capture_of_two_pings_is_read(path: Path) -> None:
    packets = list(read_pcap(path.read_bytes()))
    assert {packet.protocol for packet in packets} == {"icmp"}
    assert [packet.length_bytes for packet in packets] == [84, 84, 1500, 148, 1500, 148]
    assert all(PATTERN in packet.content for packet in packets)
    assert all(len(packet.content) == packet.length_bytes for packet in packets)


@pytest.mark.parametrize("order", ["<", ">"])
def test_packets_are_read_in_either_byte_order(order: str) -> None:
    packets = read(pcap(SENT, order))
    assert [(packet.protocol, packet.ports, packet.length_bytes) for packet in packets] == [
        ("udp", (50000, 1194), 29),
        ("tcp", (655, 40000), 1424),
        ("icmp", None, 84),
        ("udp", None, 24),
    ]
    assert [packet.content for packet in packets] == SENT


def test_a_packet_that_was_cut_to_the_snap_length_keeps_its_true_length(tmp_path: Path) -> None:
    first, second, *_ = read(pcap(SENT, snap_bytes=100))
    assert (first.length_bytes, len(first.content)) == (29, 29)
    assert (second.length_bytes, len(second.content)) == (1424, 86)


@settings(deadline=None)
@given(st.data(), st.sampled_from("<>"))
def test_a_file_that_is_cut_off_anywhere_gives_the_whole_packets_before_that(data: st.DataObject, order: str) -> None:
    whole = pcap(SENT, order)
    length = data.draw(st.integers(0, len(whole)))
    packets = read(whole[:length])
    ends = [len(pcap(SENT[: count + 1], order)) for count in range(len(SENT))]
    assert [packet.content for packet in packets] == SENT[: sum(end <= length for end in ends)]


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from("<>"))
def test_any_bytes_behind_a_file_header_can_be_read(rest: bytes, order: str) -> None:
    read(pcap([], order) + rest)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=0, max_size=60), max_size=4))
def test_any_frame_can_be_read(frames: list[bytes]) -> None:
    read(pcap(frames))


@pytest.mark.parametrize("data", [b"", b"tcpdump: no such device\n", b"\xd4\xc3\xb2\xa1"])
def test_a_file_that_is_no_capture_holds_no_packets(data: bytes) -> None:
    assert read(data) == []


def test_options_of_a_header_are_passed_over() -> None:
    found = parse_ipv4(ipv4("tcp", b"data", (1, 2), options=bytes(8)))
    assert (found.ports, found.length_bytes) == ((1, 2), 36)


def test_ports_are_read_from_a_truncated_packet_only_if_they_are_complete() -> None:
    whole = ipv4("udp", b"", (7, 8))
    assert parse_ipv4(whole).ports == (7, 8)
    assert parse_ipv4(whole[:-1]).ports is None


def test_a_protocol_without_a_name_is_shown_by_its_number() -> None:
    packet = bytearray(ipv4("esp", b"secret"))
    assert parse_ipv4(bytes(packet)).protocol == "esp"
    packet[9] = 99
    found = parse_ipv4(bytes(packet))
    assert (found.protocol, found.ports) == ("99", None)


def test_ipv6_is_read_beside_ipv4() -> None:
    whole = ipv6(17, struct.pack("!HH", 50000, 1194) + bytes(96))
    first, later = (ipv6(44, bytes((17, 0)) + struct.pack("!HI", at, 7) + whole[40:]) for at in (1, 8))
    packets = read(pcap([whole, first, later, SENT[0]]))
    assert [packet.ip_version for packet in packets] == [6, 6, 6, 4]
    assert [packet.protocol for packet in packets[:3]] == ["udp", "udp", "udp"]
    assert [packet.length_bytes for packet in packets[:3]] == [140, 148, 148]
    assert [packet.ports for packet in packets[:3]] == [(50000, 1194), (50000, 1194), None]
