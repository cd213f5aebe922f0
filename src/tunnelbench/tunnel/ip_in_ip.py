"""Tunnels of the kernel that put a packet straight into an IP packet: GRE, IPIP and SIT.

These tunnels have no ports, no cipher and no state; they add only their header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import DeviceMtuOptions, End, Outer, TunnelOptions, equals
from tunnelbench.tunnel.kernel import KernelDevice

GRE_HEADER_BYTES = 4
"""Length of GRE's header (RFC 2784, section 2.1)."""

GRE_FIELD_BYTES = 4
"""Length of each of key, sequence number (RFC 2890) and checksum with its reserved half (RFC 2784)."""


class IpipOptions(DeviceMtuOptions):
    """Options of IPIP."""

    ipv4_only_inside = 'kind = "sit" carries IPv6 in IPv4'
    ipv4_only_outside = ""


class SitOptions(DeviceMtuOptions):
    """Options of SIT."""

    ipv4_only_inside = ""
    ipv4_only_outside = "SIT is a tunnel in IPv4 (RFC 4213)"


class GreOptions(DeviceMtuOptions):
    ipv4_only_inside = ipv4_only_outside = ""

    key: int | None = Field(default=None, ge=0, le=2**32 - 1, description="key in every packet")
    checksum: bool = Field(
        default=False, description="a checksum over every packet; packets without a checksum are dropped"
    )
    sequence: bool = Field(default=False, description="a sequence number in every packet; late packets are dropped")


OptionsT = TypeVar("OptionsT", bound=TunnelOptions)


class IpInIp(KernelDevice[OptionsT]):
    """A tunnel that puts a packet straight into an IP packet."""

    tested_with = "Linux 6.1 (Debian 12)"
    protocol: ClassVar[str]
    """Protocol of the outer packets, as captures call it."""
    over_ipv6: ClassVar[tuple[str, str]] = ("", "")
    """Type and module of the device if the outer packets are IPv6; empty if they cannot be."""

    @classmethod
    def link_type_of(cls, options: OptionsT) -> str:
        return cls.over_ipv6[0] if options.outside is IpVersion.IPV6 else cls.link_type

    @classmethod
    def module_of(cls, options: OptionsT) -> str:
        return cls.over_ipv6[1] if options.outside is IpVersion.IPV6 else cls.module

    @property
    def outer(self) -> Outer:
        return Outer(self.protocol, ip_version=self.outside.number)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return self.outer.ip_header_bytes + inner_packet_bytes

    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        return (equals("link type", self.link_type_of(self.options), str(found["info_kind"])),)

    def _arguments(self, end: End, other: End) -> list[str]:
        local, remote = self._outer_address(end), self._outer_address(other)
        words = ["local", local, "remote", remote, "ttl", "64", "dev", end.wan_device]
        # By default, IPv6 gets an extension header that limits tunnels in tunnels (RFC 2473, section 4.1.1).
        return words if self.outside is IpVersion.IPV4 else [*words, "encaplimit", "none"]


class Gre(IpInIp[GreOptions]):
    """Plan entry: `kind = "gre"`, optionally with `key = 7` or `checksum = true` (RFC 2784, RFC 2890)."""

    kind = "gre"
    title = "GRE of the kernel: IP in IP with a header of its own"
    options_type = GreOptions
    plans = {"all": {"name": "GRE"}}
    added_bytes = {"": "24, and 4 more each with `key`, `checksum`, `sequence`"}
    bytes_per_packet = 24
    weight = 2
    device = "grerouted"
    link_type = "gre"
    module = "ip_gre"
    over_ipv6 = ("ip6gre", "ip6_gre")
    protocol = "gre"

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        chosen = (self.options.key is not None, self.options.checksum, self.options.sequence)
        return super().outer_packet_bytes(inner_packet_bytes) + GRE_HEADER_BYTES + GRE_FIELD_BYTES * sum(chosen)

    def _arguments(self, end: End, other: End) -> list[str]:
        words = super()._arguments(end, other)
        words += [] if self.options.key is None else ["key", str(self.options.key)]
        words += ["csum"] if self.options.checksum else []
        return words + (["seq"] if self.options.sequence else [])

    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        shown = found["info_data"]
        key = "none" if self.options.key is None else str(self.options.key)
        words = [name for name, chosen in (("csum", self.options.checksum), ("seq", self.options.sequence)) if chosen]
        seen = [name for name in ("csum", "seq") if shown.get(f"o{name}") and shown.get(f"i{name}")]
        return (
            *super()._read_back(found),
            equals("key", key, _key(shown.get("okey", "none"))),
            equals("fields", " ".join(words) or "none", " ".join(seen) or "none"),
        )


def _key(shown: Any) -> str:
    """Return a key as a number; `ip` shows its four bytes as if it were an address."""
    parts = str(shown).split(".")
    return str(int.from_bytes(bytes(map(int, parts)))) if len(parts) == 4 else str(shown)


class Ipip(IpInIp[IpipOptions]):
    """Plan entry: `kind = "ipip"` (RFC 2003), with `outside = "ipv6"` IPv4 in IPv6 (RFC 2473)."""

    kind = "ipip"
    title = "IPIP of the kernel: IPv4 in IP"
    options_type = IpipOptions
    plans = {"all": {"name": "IPIP"}}
    added_bytes = {"": "20"}
    bytes_per_packet = 20
    weight = 1
    device = "ipiprouted"
    link_type = "ipip"
    over_ipv6 = ("ip6tnl", "ip6_tunnel")
    protocol = "ipip"

    def _arguments(self, end: End, other: End) -> list[str]:
        words = super()._arguments(end, other)
        return words if self.outside is IpVersion.IPV4 else [*words, "mode", "ip4ip6"]


class Sit(IpInIp[SitOptions]):
    """Plan entry: `kind = "sit"`. The kernel's device for IPv6 in IPv4, which carries IPv4 as well (`mode any`).

    With IPv4 in it, its packets on the wire equal those of `ipip`, but the kernel handles them with other code. With
    `inside = "ipv6"` it is the tunnel of RFC 4213.
    """

    kind = "sit"
    title = "SIT of the kernel, carrying IPv4 or IPv6"
    options_type = SitOptions
    plans = {"all": {"name": "SIT"}}
    added_bytes = {"": "20"}
    device = "sitrouted"
    link_type = "sit"
    protocol = "ipip"

    @property
    def outer(self) -> Outer:
        return Outer("ipv6" if self.inside is IpVersion.IPV6 else self.protocol)

    def _arguments(self, end: End, other: End) -> list[str]:
        return [*super()._arguments(end, other), "mode", "any"]
