"""Geneve (RFC 8926) of the kernel, between two fixed ends."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import Field

from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    UDP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    equals,
    link_type,
)
from tunnelbench.tunnel.versions import kernel_version

GENEVE_HEADER_BYTES = 8
"""Without options, of which the kernel's device adds none by itself (RFC 8926, section 3.4)."""


class Options(TunnelOptions):
    """Options of `geneve`."""

    vni: int = Field(default=42, ge=0, le=2**24 - 1, description="network identifier")
    port: int = Field(default=6081, ge=1, le=65535, description="UDP port at both ends")


class Geneve(Tunnel[Options]):
    """Plan entry: `kind = "geneve"`. Ethernet in UDP, no cipher, wholly in the kernel."""

    kind = "geneve"
    title = "Geneve of the kernel: Ethernet in UDP, no cipher"
    options_type = Options
    tested_with = "Linux 6.1 (Debian 12)"
    device = "geneve0"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (link_type("geneve"),)

    @property
    def outer(self) -> Outer:
        return Outer("udp", self.options.port)

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + GENEVE_HEADER_BYTES + ETHERNET_HEADER_BYTES + inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def negotiated(self) -> tuple[Check, ...]:
        (link,) = json.loads(self.ends.router.host.ip("-j", "-d", "link", "show", self.device).stdout)
        return (equals("vni", str(self.options.vni), str(link["linkinfo"]["info_data"]["id"])),)

    def _up(self) -> None:
        for end, other in self.ends:
            # fmt: off
            self._add_device(end, "type", "geneve", "id", str(self.options.vni),
                             "remote", other.wan_address, "dstport", str(self.options.port))
            # fmt: on
            self._address_device(end)
