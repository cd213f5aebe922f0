"""VXLAN (RFC 7348) of the kernel, between two fixed ends."""

from __future__ import annotations

from pydantic import Field

from tunnelbench.tunnel.base import End
from tunnelbench.tunnel.kernel import Overlay, OverlayOptions


class Options(OverlayOptions):
    port: int = Field(default=4789, ge=1, le=65535, description="UDP port at both ends")


class Vxlan(Overlay[Options]):
    """Plan entry: `kind = "vxlan"`. Ethernet in UDP, no cipher, wholly in the kernel."""

    kind = "vxlan"
    title = "VXLAN of the kernel: Ethernet in UDP, no cipher"
    options_type = Options
    tested_with = "Linux 6.18"
    plans = {"all": {"name": "VXLAN"}}
    added_bytes = {"": "50"}
    bytes_per_packet = 50
    device = "vxlan0"
    link_type = "vxlan"
    header_bytes = 8

    def _arguments(self, end: End, other: End) -> list[str]:
        return [*super()._arguments(end, other), "local", self._outer_address(end), "dev", end.wan_device]
