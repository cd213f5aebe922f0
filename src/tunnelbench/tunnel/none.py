"""No tunnel: plain forwarding, the baseline that every share is a share of."""

from __future__ import annotations

from collections.abc import Mapping

from tunnelbench.tunnel.base import End, Outer, Requirement, Tunnel, TunnelOptions
from tunnelbench.tunnel.versions import kernel_version


class Options(TunnelOptions):
    """There is nothing to set."""


class NoTunnel(Tunnel[Options]):
    """Plan entry: `kind = "none"`. It is in every plan, named or not. Any Linux."""

    kind = "none"
    title = "no tunnel: plain forwarding, the baseline"
    options_type = Options
    tested_with = "Linux 6.18"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return ()

    @property
    def outer(self) -> Outer:
        return Outer("plain")

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def device_at(self, end: End) -> str:
        return end.wan_device

    def gateway(self, other: End) -> str:
        return other.wan_address

    def _up(self) -> None:
        pass

    def _prepare_device(self, end: End) -> None:
        """The testbed has prepared its own devices."""
