"""Sizes of headers, packets and frames, and the rates that a link can carry (rule 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

IP_PROTOCOLS = {
    "icmp": 1, "ipip": 4, "tcp": 6, "udp": 17, "ipv6": 41, "gre": 47, "esp": 50, "icmpv6": 58, "l2tp": 115,
}  # fmt: skip
"""Numbers in IPv4's protocol field and IPv6's next header (IANA, Assigned Internet Protocol Numbers)."""

ETHERNET_MTU_BYTES = 1500
"""Largest IP packet in a frame of Ethernet (IEEE 802.3)."""

IPV4_HEADER_BYTES = 20
IPV6_HEADER_BYTES = 40
IPV6_FRAGMENT_HEADER_BYTES = 8
"""Extension header of each IPv6 fragment (RFC 8200, section 4.5); IPv4 has these fields in its own header."""
TCP_HEADER_BYTES = 20
TCP_TIMESTAMPS_BYTES = 12
"""Length of the TCP time stamp option with its padding, which is in every segment (RFC 7323). The MSS includes it, the
payload does not."""
TIMESTAMPED_TCP_HEADER_BYTES = TCP_HEADER_BYTES + TCP_TIMESTAMPS_BYTES
UDP_HEADER_BYTES = 8
TCP_HEADERS_BYTES = IPV4_HEADER_BYTES + TIMESTAMPED_TCP_HEADER_BYTES
"""Length of the IPv4 and TCP headers of a data packet, which is also the length of an acknowledgement."""
UDP_HEADERS_BYTES = IPV4_HEADER_BYTES + UDP_HEADER_BYTES
"""IPv4 and UDP headers of a packet."""

ETHERNET_HEADER_BYTES = 14
ETHERNET_FCS_BYTES = 4
ETHERNET_LAYER_1_BYTES = 20
"""Preamble 8 and gap 12 (IEEE 802.3): the time on the cable that a frame takes in addition to its own length."""
ETHERNET_OVERHEAD_BYTES = ETHERNET_HEADER_BYTES + ETHERNET_FCS_BYTES + ETHERNET_LAYER_1_BYTES
"""Bytes on the cable in addition to an IP packet: 38."""
SMALLEST_FRAME_BYTES = 64
"""Smallest Ethernet frame, FCS included."""
ETHERNET_MINIMUM_BYTES = SMALLEST_FRAME_BYTES + ETHERNET_LAYER_1_BYTES
"""Bytes of the smallest frame on the cable: 84."""
FRAME_OVERHEAD_BYTES = ETHERNET_HEADER_BYTES + ETHERNET_FCS_BYTES
"""Part of a frame size in the sense of RFC 2544 that is not the IP packet: 18."""
UDP_FRAME_OVERHEAD_BYTES = FRAME_OVERHEAD_BYTES + UDP_HEADERS_BYTES
"""Part of a frame size in the sense of RFC 2544 that is not the UDP payload: 46."""

IMIX = ((18, 7), (548, 4), (1472, 1))
"""Simple Internet mix: UDP payload [bytes], and how many of twelve packets have it. The frames have 64, 594 and 1518
bytes."""

AEAD_TAG_BYTES = 16
"""Tag of AES-GCM (RFC 5116, section 5.1) and of ChaCha20-Poly1305 (RFC 8439, section 2.8)."""


OnWan = Callable[[int, int], float]
"""Function from the length of an inner IP packet and the MTU to the bytes on the WAN's cable, such as a tunnel's
`wire_bytes` [bytes]."""


def tcp_packet_bytes(payload_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> int:
    """Return the length of the IP packet of a TCP segment with time stamps."""
    return ip_header_bytes + TIMESTAMPED_TCP_HEADER_BYTES + payload_bytes


def udp_packet_bytes(payload_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> int:
    """Return the length of the IP packet of a UDP payload."""
    return ip_header_bytes + UDP_HEADER_BYTES + payload_bytes


def ethernet_bytes(packet_bytes: int) -> int:
    """Return the bytes that a network device counts for an IP packet: the packet with its Ethernet header, without
    FCS."""
    return packet_bytes + ETHERNET_HEADER_BYTES


def fragments_bytes(packet_bytes: int, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> tuple[int, ...]:
    """Return the lengths of the IP packets in which an IP packet passes an MTU.

    A packet larger than the MTU travels in fragments. All fragments but the last carry a multiple of 8 bytes, and each
    has its own header (RFC 791 and 8200).
    """
    if packet_bytes <= mtu_bytes:
        return (packet_bytes,)
    header_bytes = ip_header_bytes + (IPV6_FRAGMENT_HEADER_BYTES if ip_header_bytes == IPV6_HEADER_BYTES else 0)
    part_bytes = max(8, (mtu_bytes - header_bytes) // 8 * 8)  # a device may report an MTU that is no MTU of IP
    found = []
    rest = packet_bytes - ip_header_bytes
    while rest + header_bytes > mtu_bytes and rest > part_bytes:
        found.append(part_bytes + header_bytes)
        rest -= part_bytes
    return (*found, rest + header_bytes)


def wire_bytes(packet_bytes: int, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> int:
    """Return the bytes of an IP packet on the cable, in fragments if the MTU is smaller, preamble and gap included."""
    return sum(
        max(ETHERNET_MINIMUM_BYTES, part + ETHERNET_OVERHEAD_BYTES)
        for part in fragments_bytes(packet_bytes, mtu_bytes, ip_header_bytes)
    )


def stream_wire_bytes(record_bytes: int, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES) -> float:
    """Return the bytes on the cable for a record (a packet of a tunnel over TCP) in a stream of full segments, without
    fragments."""
    segment_bytes = mtu_bytes - ip_header_bytes - TIMESTAMPED_TCP_HEADER_BYTES
    return record_bytes * (mtu_bytes + ETHERNET_OVERHEAD_BYTES) / segment_bytes


def widest_bytes(
    inner_bytes: int,
    on_wan: OnWan,
    mtu_bytes: int,
    ip_header_bytes: int = IPV4_HEADER_BYTES,
    *,
    inner_mtu_bytes: int | None = None,
) -> float:
    """Return the bytes that an inner packet takes on the cable of the LAN or of the WAN, whichever is larger.

    The WAN adds the headers of the tunnel. On the LAN a small packet may fill a minimum frame. A packet that exceeds
    the tunnel's MTU `inner_mtu_bytes` is cut by its sender, and each fragment travels in the tunnel; None: unknown.
    """
    cut_to_bytes = inner_bytes if inner_mtu_bytes is None else inner_mtu_bytes
    parts = fragments_bytes(inner_bytes, cut_to_bytes, ip_header_bytes)
    on_lan = sum(wire_bytes(part, mtu_bytes, ip_header_bytes) for part in parts)
    return max(on_lan, sum(on_wan(part, mtu_bytes) for part in parts))


def tcp_limit_bps(
    rate_mbps: float, payload_bytes: int, on_wan: OnWan, mtu_bytes: int, ip_header_bytes: int = IPV4_HEADER_BYTES
) -> float:
    """Return the TCP payload that a link of an Ethernet rate can carry in one direction [bit/s].

    `ip_header_bytes` is the length of the inner packets' IP header.
    """
    packet_bytes = tcp_packet_bytes(payload_bytes, ip_header_bytes)
    return rate_mbps * 1e6 * payload_bytes / widest_bytes(packet_bytes, on_wan, mtu_bytes, ip_header_bytes)


def udp_limit_pps(
    rate_mbps: float,
    payloads: Sequence[tuple[int, int]],
    on_wan: OnWan,
    mtu_bytes: int,
    ip_header_bytes: int = IPV4_HEADER_BYTES,
    *,
    inner_mtu_bytes: int | None = None,
) -> float:
    """Return the UDP packets that a link of an Ethernet rate can carry in one direction [packets/s].

    `payloads` are sizes [bytes] with the number of packets of each size. `ip_header_bytes` is as in `tcp_limit_bps`,
    and `inner_mtu_bytes` as in `widest_bytes`.
    """
    packets = sum(times for _, times in payloads)
    mean_bytes = sum(
        widest_bytes(
            udp_packet_bytes(size, ip_header_bytes), on_wan, mtu_bytes, ip_header_bytes, inner_mtu_bytes=inner_mtu_bytes
        )
        * times
        for size, times in payloads
    )
    return rate_mbps * 1e6 * packets / (8 * mean_bytes)
