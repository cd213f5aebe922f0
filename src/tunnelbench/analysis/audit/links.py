"""What the line could carry: which line it was, as far as the table says, and its limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tunnelbench.analysis.audit.headings import Role, folded
from tunnelbench.analysis.audit.rows import Entry
from tunnelbench.model.frames import IPV4_HEADER_BYTES, TCP_HEADER_BYTES, wire_bytes
from tunnelbench.model.plan import TCP_TIMESTAMPS_BYTES

ETHERNET_MBPS = (10, 100, 1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 100_000)
"""IEEE 802.3."""
LINE_SPEED_WITHIN = 0.01
"""A row that its author calls line speed is within this of what its line carries (rule 17)."""
OUTER_BYTES: Mapping[str, int] = {"ipip": 20, "gre": 24, "vxlan": 50, "wireguard": 60}
"""What a tunnel adds to each packet over IPv4: RFC 2003, 2784, 7348; WireGuard 20 IP, 8 UDP, 16 header, 16 tag.

Those that add the same to every packet. Of the others nothing is assumed, which leaves their limit too wide rather than
too narrow.
"""
DEFAULT_MTU_BYTES = 1500
UDP_HEADERS_BYTES = IPV4_HEADER_BYTES + 8
TCP_HEADERS_BYTES = IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMPS_BYTES

_RATE = re.compile(r"(\d{1,4}(?:\.\d+)?) ?([mg])(?:bits?(?:/s|ps)?|b/s|bps) ?(?:link|line|ethernet|lien|liaison|port)")
_LINE_SPEED = re.compile(r"\b(?:line|wire)[ -]?(?:speed|rate)\b|\bvitesse (?:de )?(?:la )?ligne\b")
_MTU = re.compile(r"\bmtu ?(?:of |de |= ?|: ?)?(\d{3,5})\b")


def headers_bytes(entry: Entry) -> int:
    """IP and transport headers of a packet of this row's traffic."""
    return UDP_HEADERS_BYTES if entry.is_udp else TCP_HEADERS_BYTES


def links_bps(rows: Sequence[Entry], given_mbps: float | None = None) -> Mapping[int, float]:
    """Rate of the link [bit/s] by place in `rows`, where it is known: given, stated, or shown by rows at line speed."""
    found: dict[int, float] = {}
    shown: dict[tuple[str, str], float] = {}
    for row in rows:
        if rate := _shown(row):
            shown.setdefault(row.bench, rate)
    for place, row in enumerate(rows):
        rate = given_mbps * 1e6 if given_mbps else row.link_bps or _stated(row) or shown.get(row.bench)
        if rate:
            found[place] = rate
    return found


def packet_limit(entry: Entry, rate_bps: float) -> float | None:
    """Packets of this row's size per second that the link carries one way; None: the size is not stated."""
    if entry.size is None:
        return None
    payload, _ = entry.size.payload_bytes(headers_bytes(entry))
    return rate_bps / 8 / _on_wire(entry, payload)


def throughput_limit_bps(entry: Entry, rate_bps: float) -> float:
    """Payload that the link carries one way; where the size is not stated, of the largest packets."""
    mtu = _mtu_bytes(entry)
    payload = entry.size.payload_bytes(headers_bytes(entry))[1] if entry.size else float(mtu)
    payload = min(payload, mtu - headers_bytes(entry) - _outer_bytes(entry))
    return rate_bps * payload / _on_wire(entry, payload)


def _on_wire(entry: Entry, payload: float) -> int:
    """Bytes of Ethernet for a packet with its tunnel's headers; a full one carries less instead of being cut up."""
    mtu = _mtu_bytes(entry)
    outer = min(int(payload) + headers_bytes(entry) + _outer_bytes(entry), mtu)
    return wire_bytes(outer, mtu)


def _outer_bytes(entry: Entry) -> int:
    return OUTER_BYTES.get(folded(entry.text.get(Role.TUNNEL, "")), 0)


def _mtu_bytes(entry: Entry) -> int:
    said = _MTU.search(folded(entry.text.get(Role.COMMENT, "")))
    return max(int(said[1]) if said else DEFAULT_MTU_BYTES, 576)  # RFC 791: what every host takes


def _stated(entry: Entry) -> float | None:
    """The rate that a row's remarks name."""
    words = folded(" ".join(entry.text.get(role, "") for role in (Role.COMMENT, Role.TRAFFIC)))
    if found := _RATE.search(words):
        return float(found[1]) * (1e9 if found[2] == "g" else 1e6)
    if re.search(r"\bgigabit ethernet\b", words):
        return 1e9
    return 1e8 if re.search(r"\bfast ethernet\b", words) else None


def _shown(entry: Entry) -> float | None:
    """The rate of Ethernet whose limit a row without tunnel reaches that its author calls line speed."""
    words = folded(entry.text.get(Role.COMMENT, ""))
    if not (entry.is_baseline and entry.throughput and _LINE_SPEED.search(words)):
        return None
    for rate_mbps in ETHERNET_MBPS:
        if abs(entry.throughput.value / throughput_limit_bps(entry, rate_mbps * 1e6) - 1) <= LINE_SPEED_WITHIN:
            return rate_mbps * 1e6
    return None
