"""Packets and capture files, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tunnelbench.measure.capture import Packet, parse_ipv4

PROTOCOL_NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "esp": 50}


def ipv4(
    protocol: str, content: bytes = b"", ports: tuple[int, int] | None = None, *, offset: int = 0, options: bytes = b""
) -> bytes:
    """An IPv4 packet; `content` follows the ports, `offset` is a fragment's [8 bytes]."""
    inner = (struct.pack("!HH", *ports) if ports else b"") + content
    header_bytes = 20 + len(options)
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x40 | header_bytes // 4, 0, header_bytes + len(inner), 0, offset, 64, PROTOCOL_NUMBERS[protocol], 0,
        bytes((198, 18, 2, 1)), bytes((198, 18, 2, 2)),
    )  # fmt: skip
    return header + options + inner


def ipv6(next_header: int, content: bytes) -> bytes:
    """An IPv6 packet."""
    return struct.pack("!IHBB", 6 << 28, len(content), next_header, 64) + bytes(32) + content


def packet(protocol: str, length_bytes: int, ports: tuple[int, int] | None = None, content: bytes = b"") -> Packet:
    """A captured packet of a given length with `content` in it."""
    head = 20 + (4 if ports else 0)
    return parse_ipv4(ipv4(protocol, content.ljust(length_bytes - head, b"\0"), ports))


def pcap(packets: Iterable[bytes], order: str = "<", snap_bytes: int = 65535) -> bytes:
    """A capture file of Ethernet frames in a byte order."""
    data = struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap_bytes, 1)
    for content in packets:
        frame = bytes(12) + (b"\x86\xdd" if content[:1] >= b"\x60" else b"\x08\x00") + content
        kept = frame[:snap_bytes]
        data += struct.pack(f"{order}IIII", 0, 0, len(kept), len(frame)) + kept
    return data
