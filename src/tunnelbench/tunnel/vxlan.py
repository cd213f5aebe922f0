"""VXLAN (RFC 7348) of the kernel, between two fixed ends."""

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

VXLAN_HEADER_BYTES = 8


class Options(TunnelOptions):
    """Options of `vxlan`."""

    vni: int = Field(default=42, ge=0, le=2**24 - 1, description="network identifier")
    port: int = Field(default=4789, ge=1, le=65535, description="UDP port at both ends")


class Vxlan(Tunnel[Options]):
    """Plan entry: `kind = "vxlan"`. Ethernet in UDP, no cipher, wholly in the kernel."""

    kind = "vxlan"
    title = "VXLAN of the kernel: Ethernet in UDP, no cipher"
    options_type = Options
    tested_with = "Linux 6.18"
    device = "vxlan0"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (link_type("vxlan"),)

    @property
    def outer(self) -> Outer:
        return Outer("udp", self.options.port)

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + VXLAN_HEADER_BYTES + ETHERNET_HEADER_BYTES + inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def negotiated(self) -> tuple[Check, ...]:
        (link,) = json.loads(self.ends.router.host.ip("-j", "-d", "link", "show", self.device).stdout)
        return (equals("vni", str(self.options.vni), str(link["linkinfo"]["info_data"]["id"])),)

    def _up(self) -> None:
        for end, other in self.ends:
            # fmt: off
            self._add_device(end, "type", "vxlan", "id", str(self.options.vni),
                             "local", end.wan_address, "remote", other.wan_address,
                             "dstport", str(self.options.port), "dev", end.wan_device)
            # fmt: on
            self._address_device(end)
