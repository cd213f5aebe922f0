"""Rate of the link of a published row, as far as the table shows it, and the limits that follow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tunnelbench.analysis.audit.headings import Role, folded
from tunnelbench.analysis.audit.rows import AuditedRow
from tunnelbench.model.frames import TCP_HEADERS_BYTES, UDP_HEADERS_BYTES, wire_bytes
from tunnelbench.model.result import LINE_SPEED_TOLERANCE

ETHERNET_MBPS = (10, 100, 1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 100_000)
"""Ethernet rates of IEEE 802.3 [Mbit/s]."""
DEFAULT_MTU_BYTES = 1500

_RATE = re.compile(r"(\d{1,4}(?:\.\d+)?) ?([mg])(?:bits?(?:/s|ps)?|b/s|bps) ?(?:link|line|ethernet|lien|liaison|port)")
_LINE_SPEED = re.compile(r"\b(?:line|wire)[ -]?(?:speed|rate)\b|\bvitesse (?:de )?(?:la )?ligne\b")
_LOWER_BOUND = re.compile(r"\blower bound\b|\bpaced at\b")
_MTU = re.compile(r"\bmtu ?(?:of |de |= ?|: ?)?(\d{3,5})\b")


def says_line_speed(comment: str) -> bool:
    """Return True if a comment of a published table says that the link was the limit."""
    return bool(_LINE_SPEED.search(folded(comment)))


def says_lower_bound(comment: str) -> bool:
    """Return True if a comment of a published table says that the sender was the limit: `paced at 20 Mbit/s`."""
    return bool(_LOWER_BOUND.search(folded(comment)))


def headers_bytes(entry: AuditedRow) -> int:
    """Return the size of the IP and transport headers of this row's traffic [bytes]."""
    return UDP_HEADERS_BYTES if entry.is_udp else TCP_HEADERS_BYTES


def links_bps(rows: Sequence[AuditedRow], given_mbps: float | None = None) -> Mapping[int, float]:
    """Return the known link rates [bit/s] by index in `rows`: from the user, from the row, or from rows at line
    speed."""
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


def packet_limit(entry: AuditedRow, rate_bps: float) -> float | None:
    """Return the packets of this row's size that the link carries one way per second; None: the size is not stated."""
    if entry.size is None:
        return None
    payload, _ = entry.size.payload_bytes(headers_bytes(entry))
    return rate_bps / 8 / _on_wire(entry, payload)


def throughput_limit_bps(entry: AuditedRow, rate_bps: float) -> float:
    """Return the payload that the link carries one way [bit/s], with the largest packets if the size is not stated."""
    mtu = _mtu_bytes(entry)
    payload = entry.size.payload_bytes(headers_bytes(entry))[1] if entry.size else float(mtu)
    payload = min(payload, mtu - headers_bytes(entry) - entry.added_bytes)
    return rate_bps * payload / _on_wire(entry, payload)


def _on_wire(entry: AuditedRow, payload: float) -> int:
    """Return the bytes on Ethernet of a packet with its tunnel's headers, limited to the MTU."""
    mtu = _mtu_bytes(entry)
    outer = min(int(payload) + headers_bytes(entry) + entry.added_bytes, mtu)
    return wire_bytes(outer, mtu)


def _mtu_bytes(entry: AuditedRow) -> int:
    said = _MTU.search(folded(entry.text.get(Role.COMMENT, "")))
    return max(int(said[1]) if said else DEFAULT_MTU_BYTES, 576)  # RFC 791: every host accepts this


def _stated(entry: AuditedRow) -> float | None:
    """Return the rate that the remarks of a row state [bit/s]."""
    words = folded(" ".join(entry.text.get(role, "") for role in (Role.COMMENT, Role.TRAFFIC)))
    if found := _RATE.search(words):
        return float(found[1]) * (1e9 if found[2] == "g" else 1e6)
    if re.search(r"\bgigabit ethernet\b", words):
        return 1e9
    return 1e8 if re.search(r"\bfast ethernet\b", words) else None


def _shown(entry: AuditedRow) -> float | None:
    """Return the Ethernet rate [bit/s] whose limit is reached by a row without a tunnel that the table calls line
    speed."""
    if not (entry.is_baseline and entry.throughput and says_line_speed(entry.text.get(Role.COMMENT, ""))):
        return None
    for rate_mbps in ETHERNET_MBPS:
        if abs(entry.throughput.value / throughput_limit_bps(entry, rate_mbps * 1e6) - 1) <= LINE_SPEED_TOLERANCE:
            return rate_mbps * 1e6
    return None
