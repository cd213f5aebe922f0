"""Sizes on the wire, and what a link can carry at most (rule 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tunnelbench.model.plan import TCP_TIMESTAMPS_BYTES

IP_PROTOCOLS = {"icmp": 1, "ipip": 4, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "l2tp": 115}
"""Numbers in IPv4's protocol field (IANA, Assigned Internet Protocol Numbers)."""

IPV4_HEADER_BYTES = 20
IPV6_HEADER_BYTES = 40
IPV6_FRAGMENT_HEADER_BYTES = 8
"""RFC 8200, section 4.5: in each fragment, behind the IPv6 header; IPv4 has it all in its own header."""
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


def ethernet_bytes(packet_bytes: int) -> int:
    """What a device counts for an IP packet: it with Ethernet's header [bytes]."""
    return packet_bytes + ETHERNET_HEADER_BYTES


def wire_bytes(packet_bytes: int, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> int:
    """What an IP packet takes on Ethernet, preamble and gap included; a packet over the MTU travels in fragments.

    RFC 791 and 8200: all fragments but the last carry a multiple of 8 bytes, each behind a header of its own.
    """
    if packet_bytes <= mtu_bytes:
        return max(ETHERNET_MINIMUM_BYTES, packet_bytes + ETHERNET_OVERHEAD_BYTES)
    header_bytes = ip_header_bytes + (IPV6_FRAGMENT_HEADER_BYTES if ip_header_bytes == IPV6_HEADER_BYTES else 0)
    total = 0
    rest = packet_bytes - ip_header_bytes
    while rest + header_bytes > mtu_bytes:
        part = (mtu_bytes - header_bytes) // 8 * 8
        total += max(ETHERNET_MINIMUM_BYTES, part + header_bytes + ETHERNET_OVERHEAD_BYTES)
        rest -= part
    return total + max(ETHERNET_MINIMUM_BYTES, rest + header_bytes + ETHERNET_OVERHEAD_BYTES)


def stream_wire_bytes(record_bytes: int, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> float:
    """What a record takes on Ethernet in a TCP stream, whose full segments share it out; never in fragments."""
    segment_bytes = mtu_bytes - ip_header_bytes - TCP_HEADER_BYTES - TCP_TIMESTAMPS_BYTES
    return record_bytes * (mtu_bytes + ETHERNET_OVERHEAD_BYTES) / segment_bytes


OnWan = Callable[[int, int], float]
"""What an inner IP packet takes on the WAN's Ethernet, from its length and the MTU [bytes], such as a tunnel's
`wire_bytes`."""


def udp_packet_bytes(payload_bytes: int) -> int:
    """IPv4 packet of a UDP payload."""
    return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + payload_bytes


def udp_limit_pps(rate_mbps: float, payloads: Sequence[tuple[int, int]], on_wan: OnWan, mtu_bytes: int) -> float:
    """UDP packets that a link of a given Ethernet rate can carry in one direction [packets/s].

    `payloads` are sizes [bytes] and how often each comes, the other arguments those of `tcp_limit_bps`.
    """
    packets = sum(times for _, times in payloads)
    mean_bytes = sum(widest_bytes(udp_packet_bytes(size), on_wan, mtu_bytes) * times for size, times in payloads)
    return rate_mbps * 1e6 * packets / (8 * mean_bytes)


def widest_bytes(inner_bytes: int, on_wan: OnWan, mtu_bytes: int) -> float:
    """What a packet takes on the tighter of the two cables: on the WAN the tunnel's headers come on top."""
    return max(wire_bytes(inner_bytes, mtu_bytes), on_wan(inner_bytes, mtu_bytes))


def tcp_limit_bps(rate_mbps: float, payload_bytes: int, on_wan: OnWan, mtu_bytes: int) -> float:
    """TCP payload that a link of a given Ethernet rate can carry in one direction [bit/s].

    The tighter of its two cables counts: on the WAN the tunnel's headers come on top, and a small packet may fill a
    minimum frame on the LAN.
    """
    widest = widest_bytes(tcp_packet_bytes(payload_bytes), on_wan, mtu_bytes)
    return rate_mbps * 1e6 * payload_bytes / widest
