"""Packets seen on a device: tcpdump, and a reader of the one file format that it is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tunnelbench.host.host import Host
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, IP_PROTOCOLS

MAGIC_MICROSECONDS = 0xA1B2C3D4
LINKTYPE_ETHERNET = 1
PROTOCOL_NAMES = {number: name for name, number in IP_PROTOCOLS.items()}
SNAP_BYTES = 2048
START_LIMIT_S = 20.0
"""For tcpdump; 5 s were too few in an emulated guest on a busy machine."""

MOST_PACKETS = 2000
"""A capture ends by itself after so many packets: it is for a handful of pings."""


@dataclass(frozen=True)
class Packet:
    """One IPv4 packet as captured."""

    protocol: str
    ports: tuple[int, int] | None
    """Source and destination; None for a protocol without, and for later fragments."""
    length_bytes: int
    """Of the IP packet."""
    content: bytes
    """Behind the Ethernet header."""


@dataclass
class Capture:
    """Filled when its `with` block has been left."""

    packets: list[Packet] = field(default_factory=list)


@contextmanager
def capture_ipv4(host: Host, device: str) -> Iterator[Capture]:
    """Capture IPv4 packets on a device while the block runs."""
    capture = Capture()
    path = host.folder / "capture.pcap"
    # fmt: off
    # Immediate mode: a short capture is otherwise lost in the kernel's buffer.
    daemon = host.start(["tcpdump", "--immediate-mode", "-U", "-n", "-Z", "root", "-s", str(SNAP_BYTES),
                         "-c", str(MOST_PACKETS), "-i", device, "-w", str(path), "ip"])
    # fmt: on
    try:
        if not daemon.wait_for("listening on", timeout_s=START_LIMIT_S):
            raise TrialFailed(f"tcpdump does not start on the {host.name}: {daemon.last_line()}")
        yield capture
        daemon.interrupt()
        daemon.wait(2)
        capture.packets = list(read_pcap(path))
    finally:
        daemon.stop()
        path.unlink(missing_ok=True)


def read_pcap(path: Path) -> Iterator[Packet]:
    """IPv4 packets of a classic pcap file of Ethernet frames, in either byte order; a cut-off record ends it."""
    data = path.read_bytes()
    order = "<" if data[:4] == struct.pack("<I", MAGIC_MICROSECONDS) else ">"
    position = 24
    while position + 16 <= len(data):
        _, _, captured, _ = struct.unpack_from(f"{order}IIII", data, position)
        frame = data[position + 16 : position + 16 + captured]
        position += 16 + captured
        if len(frame) == captured and captured >= ETHERNET_HEADER_BYTES + 20:
            yield parse_ipv4(frame[ETHERNET_HEADER_BYTES:])


def parse_ipv4(content: bytes) -> Packet:
    """An IPv4 packet (RFC 791)."""
    header_bytes = (content[0] & 0x0F) * 4
    protocol = PROTOCOL_NAMES.get(content[9], str(content[9]))
    later_fragment = struct.unpack_from("!H", content, 6)[0] & 0x1FFF
    ports = None
    if protocol in ("tcp", "udp") and not later_fragment and len(content) >= header_bytes + 4:
        ports = struct.unpack_from("!HH", content, header_bytes)
    length_bytes: int = struct.unpack_from("!H", content, 2)[0]
    return Packet(protocol, ports, length_bytes, content)
