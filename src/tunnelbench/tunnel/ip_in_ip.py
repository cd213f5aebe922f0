"""Tunnels of the kernel that put a packet straight into an IPv4 packet: GRE, IPIP and SIT.

They have no ports, no cipher and no state: what they add is their header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import (
    IPV4_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    equals,
    link_type,
)
from tunnelbench.tunnel.versions import kernel_version

GRE_HEADER_BYTES = 4
"""RFC 2784, section 2.1."""

GRE_FIELD_BYTES = 4
"""Each of key, sequence number (RFC 2890) and checksum with its reserved half (RFC 2784)."""


class NoOptions(TunnelOptions):
    """There is nothing to set."""


class GreOptions(TunnelOptions):
    """Options of `gre`."""

    key: int | None = Field(default=None, ge=0, le=2**32 - 1, description="key in every packet")
    checksum: bool = Field(default=False, description="a checksum over every packet, and packets without refused")
    sequence: bool = Field(default=False, description="a sequence number in every packet, and late packets dropped")


OptionsT = TypeVar("OptionsT", bound=TunnelOptions)


class IpInIp(Tunnel[OptionsT]):
    """What they share: a device with two fixed ends."""

    link_type: ClassVar[str]
    """Of the device, as `ip link` calls it."""
    module: ClassVar[str]
    protocol: ClassVar[str]
    """Of the outer packets, as captures call it."""

    @classmethod
    def requirements(cls, options: OptionsT) -> tuple[Requirement, ...]:
        return (link_type(cls.link_type, cls.module),)

    @property
    def outer(self) -> Outer:
        return Outer(self.protocol)

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return IPV4_HEADER_BYTES + inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def negotiated(self) -> tuple[Check, ...]:
        """What the kernel says of the router's device."""
        (link,) = json.loads(self.ends.router.host.ip("-j", "-d", "link", "show", self.device).stdout)
        kind = str(link["linkinfo"]["info_kind"])
        return (equals("link type", self.link_type, kind), *self._read_back(link["linkinfo"]["info_data"]))

    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        return ()

    def _arguments(self) -> list[str]:
        """What the device is given beyond its ends."""
        return []

    def _up(self) -> None:
        for end, other in self.ends:
            # fmt: off
            self._add_device(end, "type", self.link_type, "local", end.wan_address, "remote", other.wan_address,
                             "ttl", "64", "dev", end.wan_device, *self._arguments())
            # fmt: on
            self._address_device(end)


class Gre(IpInIp[GreOptions]):
    """Plan entry: `kind = "gre"`, with `key = 7` or `checksum = true` where they are wanted (RFC 2784, RFC 2890)."""

    kind = "gre"
    title = "GRE of the kernel: IP in IP with a header of its own"
    options_type = GreOptions
    tested_with = "Linux 6.1 (Debian 12)"
    device = "grerouted"
    link_type = "gre"
    module = "ip_gre"
    protocol = "gre"

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        chosen = (self.options.key is not None, self.options.checksum, self.options.sequence)
        return super().outer_packet_bytes(inner_packet_bytes) + GRE_HEADER_BYTES + GRE_FIELD_BYTES * sum(chosen)

    def _arguments(self) -> list[str]:
        words = [] if self.options.key is None else ["key", str(self.options.key)]
        words += ["csum"] if self.options.checksum else []
        return words + (["seq"] if self.options.sequence else [])

    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        key = "none" if self.options.key is None else str(self.options.key)
        words = [name for name, chosen in (("csum", self.options.checksum), ("seq", self.options.sequence)) if chosen]
        seen = [name for name in ("csum", "seq") if found.get(f"o{name}") and found.get(f"i{name}")]
        return (
            equals("key", key, _key(found.get("okey", "none"))),
            equals("fields", " ".join(words) or "none", " ".join(seen) or "none"),
        )


def _key(shown: Any) -> str:
    """`ip` shows a key as if it were an address, by its four bytes."""
    parts = str(shown).split(".")
    return str(int.from_bytes(bytes(map(int, parts)))) if len(parts) == 4 else str(shown)


class Ipip(IpInIp[NoOptions]):
    """Plan entry: `kind = "ipip"` (RFC 2003)."""

    kind = "ipip"
    title = "IPIP of the kernel: IPv4 in IPv4"
    options_type = NoOptions
    tested_with = "Linux 6.1 (Debian 12)"
    device = "ipiprouted"
    link_type = "ipip"
    module = "ipip"
    protocol = "ipip"


class Sit(IpInIp[NoOptions]):
    """Plan entry: `kind = "sit"`. The kernel's device for IPv6 in IPv4, which carries IPv4 as well (`mode any`).

    The traffic here is IPv4, so that on the wire it equals `ipip`; what differs is the code that it passes through.
    """

    kind = "sit"
    title = "SIT of the kernel, carrying IPv4"
    options_type = NoOptions
    tested_with = "Linux 6.1 (Debian 12)"
    device = "sitrouted"
    link_type = "sit"
    module = "sit"
    protocol = "ipip"

    def _arguments(self) -> list[str]:
        return ["mode", "any"]
