"""Sizes on the wire, and what a link can carry at most (rule 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tunnelbench.model.plan import TCP_TIMESTAMPS_BYTES

IP_PROTOCOLS = {"icmp": 1, "ipip": 4, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "l2tp": 115}
"""Numbers in IPv4's protocol field (IANA, Assigned Internet Protocol Numbers)."""

IPV4_HEADER_BYTES = 20
TCP_HEADER_BYTES = 20
UDP_HEADER_BYTES = 8
ETHERNET_HEADER_BYTES = 14
ETHERNET_OVERHEAD_BYTES = 38
"""Header 14, FCS 4, preamble 8, gap 12 (IEEE 802.3)."""
ETHERNET_MINIMUM_BYTES = 84
"""The smallest frame, 64 bytes, with preamble and gap."""


def tcp_packet_bytes(payload_bytes: int) -> int:
    """IPv4 packet of a TCP segment with time stamps."""
    return IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMPS_BYTES + payload_bytes


def wire_bytes(packet_bytes: int, mtu_bytes: int) -> int:
    """What an IPv4 packet takes on Ethernet, preamble and gap included; a packet over the MTU travels in fragments.

    RFC 791: all fragments but the last carry a multiple of 8 bytes, each behind a header of its own.
    """
    total = 0
    rest = packet_bytes - IPV4_HEADER_BYTES
    while rest + IPV4_HEADER_BYTES > mtu_bytes:
        part = (mtu_bytes - IPV4_HEADER_BYTES) // 8 * 8
        total += max(ETHERNET_MINIMUM_BYTES, part + IPV4_HEADER_BYTES + ETHERNET_OVERHEAD_BYTES)
        rest -= part
    return total + max(ETHERNET_MINIMUM_BYTES, rest + IPV4_HEADER_BYTES + ETHERNET_OVERHEAD_BYTES)


def stream_wire_bytes(record_bytes: int, mtu_bytes: int) -> float:
    """What a record takes on Ethernet in a TCP stream, whose full segments share it out; never in fragments."""
    segment_bytes = mtu_bytes - IPV4_HEADER_BYTES - TCP_HEADER_BYTES - TCP_TIMESTAMPS_BYTES
    return record_bytes * (mtu_bytes + ETHERNET_OVERHEAD_BYTES) / segment_bytes


def udp_packet_bytes(payload_bytes: int) -> int:
    """IPv4 packet of a UDP payload."""
    return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + payload_bytes


def udp_limit_pps(
    rate_mbps: float,
    payloads: Sequence[tuple[int, int]],
    outer_packet_bytes: Callable[[int], int],
    mtu_bytes: int,
    *,
    is_stream: bool = False,
) -> float:
    """UDP packets that a link of a given Ethernet rate can carry in one direction [packets/s].

    `payloads` are sizes [bytes] and how often each comes, the other arguments those of `tcp_limit_bps`.
    """
    packets = sum(times for _, times in payloads)
    mean_bytes = sum(
        widest_bytes(udp_packet_bytes(size), outer_packet_bytes, mtu_bytes, is_stream=is_stream) * times
        for size, times in payloads
    )
    return rate_mbps * 1e6 * packets / (8 * mean_bytes)


def widest_bytes(
    inner_bytes: int, outer_packet_bytes: Callable[[int], int], mtu_bytes: int, *, is_stream: bool
) -> float:
    """What a packet takes on the tighter of the two cables: on the WAN the tunnel's headers come on top."""
    outer = outer_packet_bytes(inner_bytes)
    if is_stream:
        on_wan = stream_wire_bytes(outer - IPV4_HEADER_BYTES - TCP_HEADER_BYTES - TCP_TIMESTAMPS_BYTES, mtu_bytes)
    else:
        on_wan = wire_bytes(outer, mtu_bytes)
    return max(wire_bytes(inner_bytes, mtu_bytes), on_wan)


def tcp_limit_bps(
    rate_mbps: float,
    payload_bytes: int,
    outer_packet_bytes: Callable[[int], int],
    mtu_bytes: int,
    *,
    is_stream: bool = False,
) -> float:
    """TCP payload that a link of a given Ethernet rate can carry in one direction [bit/s].

    The tighter of its two cables counts: on the WAN the tunnel's headers come on top, and a small packet may fill a
    minimum frame on the LAN. `is_stream`: the tunnel's packets travel in a TCP stream, many to a segment.
    """
    widest = widest_bytes(tcp_packet_bytes(payload_bytes), outer_packet_bytes, mtu_bytes, is_stream=is_stream)
    return rate_mbps * 1e6 * payload_bytes / widest
