"""Captures packets on a network device with tcpdump, and reads the pcap file that tcpdump writes."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tunnelbench.host.host import Host
from tunnelbench.host.ssh import SshServer
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import (
    ETHERNET_HEADER_BYTES,
    IP_PROTOCOLS,
    IPV4_HEADER_BYTES,
    IPV6_FRAGMENT_HEADER_BYTES,
    IPV6_HEADER_BYTES,
)

MAGIC_MICROSECONDS = 0xA1B2C3D4
PROTOCOL_NAMES = {number: name for name, number in IP_PROTOCOLS.items()}
FRAGMENT_HEADER = 44
"""Protocol number of the fragment header of IPv6."""
SNAP_BYTES = 2048
TCPDUMP_START_LIMIT_S = 20.0
"""Time limit for the start of tcpdump [s]; 5 s were too few in an emulated guest on a busy machine."""

WRITE_PAUSE_S = 0.2
PACKET_POLL_S = 0.02
WRITE_LIMIT_S = 5.0

MOST_PACKETS = 2000
"""Number of packets after which tcpdump ends; a capture is meant for a few pings."""


@dataclass(frozen=True)
class Packet:
    """One captured IP packet."""

    protocol: str
    ports: tuple[int, int] | None
    """Source and destination port; None for a protocol without ports, and for all fragments but the first."""
    length_bytes: int
    """Length of the IP packet [bytes]."""
    content: bytes
    """Bytes of the packet without the Ethernet header."""
    ip_version: int = 4


@dataclass
class Capture:
    """The result of `capture_ip`: its packets are known when the `with` block has ended."""

    packets: list[Packet] = field(default_factory=list)
    expected_packets: int = 0
    """Number of packets that the block has caused, where it is known; 0: unknown."""


@contextmanager
def capture_ip(host: Host, device: str, without: Sequence[SshServer] = ()) -> Iterator[Capture]:
    """Capture IPv4 and IPv6 packets on a device while the block runs, without those of some SSH servers.

    The block may set `Capture.expected_packets`: the capture then ends as soon as it has that many packets.
    """
    capture = Capture()
    path = host.folder / "capture.pcap"
    which = "(ip or ip6)" + "".join(f" and not (tcp port {each.port} and host {each.address})" for each in without)
    # fmt: off
    # Immediate mode: a short capture is otherwise lost in the kernel's buffer.
    daemon = host.start(["tcpdump", "--immediate-mode", "-p", "-U", "-n", "-Z", "root", "-s", str(SNAP_BYTES),
                         "-c", str(MOST_PACKETS), "-i", device, "-w", str(path), which])
    # fmt: on
    try:
        if not daemon.wait_for("listening on", timeout_s=TCPDUMP_START_LIMIT_S):
            raise TrialFailed(f"tcpdump does not start on the {host.name}: {daemon.last_line()}")
        yield capture
        _await_writing(host, path, capture.expected_packets)
        daemon.interrupt()
        daemon.wait(2)
        capture.packets = list(read_pcap(host.fetch(path)))
    finally:
        daemon.stop()
        host.remove(path)


def _await_writing(host: Host, path: Path, expected_packets: int) -> None:
    """Wait until the capture file has `expected_packets` packets, if that is known, or has stopped growing.

    On a slow machine tcpdump writes packets late.
    """
    deadline = time.monotonic() + WRITE_PAUSE_S
    while expected_packets and time.monotonic() < deadline:
        if len(list(read_pcap(host.fetch(path)))) >= expected_packets:
            return
        time.sleep(PACKET_POLL_S)
    deadline = time.monotonic() + WRITE_LIMIT_S
    size, found = -1, len(host.fetch(path))
    while found != size and time.monotonic() < deadline:
        time.sleep(WRITE_PAUSE_S)
        size, found = found, len(host.fetch(path))


def read_pcap(data: bytes) -> Iterator[Packet]:
    """Yield the IP packets of a classic pcap file of Ethernet frames in any byte order; stop at a truncated record."""
    order = "<" if data[:4] == struct.pack("<I", MAGIC_MICROSECONDS) else ">"
    position = 24
    while position + 16 <= len(data):
        _, _, captured, _ = struct.unpack_from(f"{order}IIII", data, position)
        frame = data[position + 16 : position + 16 + captured]
        position += 16 + captured
        content = frame[ETHERNET_HEADER_BYTES:]
        if len(frame) == captured and len(content) >= IPV4_HEADER_BYTES:
            if content[0] >> 4 == 4:
                yield parse_ipv4(content)
            elif content[0] >> 4 == 6 and len(content) >= IPV6_HEADER_BYTES:
                yield parse_ipv6(content)


def parse_ipv4(content: bytes) -> Packet:
    """Parse an IPv4 packet (RFC 791)."""
    header_bytes = (content[0] & 0x0F) * 4
    later_fragment = struct.unpack_from("!H", content, 6)[0] & 0x1FFF
    length_bytes: int = struct.unpack_from("!H", content, 2)[0]
    return _packet(content[9], content, header_bytes, length_bytes, has_ports=not later_fragment)


def parse_ipv6(content: bytes) -> Packet:
    """Parse an IPv6 packet (RFC 8200). The fragment header is the only extension header that is parsed."""
    header_bytes, number, later_fragment = IPV6_HEADER_BYTES, content[6], 0
    if number == FRAGMENT_HEADER and len(content) >= IPV6_HEADER_BYTES + IPV6_FRAGMENT_HEADER_BYTES:
        number = content[IPV6_HEADER_BYTES]
        later_fragment = struct.unpack_from("!H", content, IPV6_HEADER_BYTES + 2)[0] >> 3
        header_bytes += IPV6_FRAGMENT_HEADER_BYTES
    length_bytes: int = IPV6_HEADER_BYTES + struct.unpack_from("!H", content, 4)[0]
    return _packet(number, content, header_bytes, length_bytes, has_ports=not later_fragment, ip_version=6)


def _packet(
    number: int, content: bytes, header_bytes: int, length_bytes: int, *, has_ports: bool, ip_version: int = 4
) -> Packet:
    protocol = PROTOCOL_NAMES.get(number, str(number))
    ports = None
    if protocol in ("tcp", "udp") and has_ports and len(content) >= header_bytes + 4:
        ports = struct.unpack_from("!HH", content, header_bytes)
    return Packet(protocol, ports, length_bytes, content, ip_version)
