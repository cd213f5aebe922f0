"""The IP versions of a tunnel: that of the packets in it, and that of the packets that carry it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tunnelbench.model.frames import IPV4_HEADER_BYTES, IPV6_HEADER_BYTES


class IpVersion(StrEnum):
    """Version of IP, as plans name it."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"

    @property
    def number(self) -> int:
        """Number in the first four bits of each packet: 4 or 6."""
        return 6 if self is IpVersion.IPV6 else 4

    @property
    def header_bytes(self) -> int:
        """Length of the IP header without options or extension headers [bytes]."""
        return IPV6_HEADER_BYTES if self is IpVersion.IPV6 else IPV4_HEADER_BYTES


INSIDE_OPTION, OUTSIDE_OPTION = "inside", "outside"
VERSION_OPTIONS: Mapping[str, str] = {INSIDE_OPTION: IpVersion.IPV4.value, OUTSIDE_OPTION: IpVersion.IPV4.value}
"""The options, which every tunnel has, that set its IP versions, each with the value that a tunnel has without it."""

SMALLEST_IPV6_MTU_BYTES = 1280
"""Smallest MTU of a device that carries IPv6 (RFC 8200, section 5)."""


def version_of_option(options: Mapping[str, object], name: str) -> IpVersion:
    """Return the IP version that one of VERSION_OPTIONS asks for; a value that a plan cannot have counts as IPv4."""
    return IpVersion.IPV6 if options.get(name) == IpVersion.IPV6 else IpVersion.IPV4


def with_port(address: str, port: int) -> str:
    """Return an address with a port as one word; an IPv6 address is in brackets (RFC 3986, section 3.2.2)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
