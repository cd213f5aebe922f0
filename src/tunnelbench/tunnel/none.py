"""Plain forwarding without a tunnel, which is the baseline."""

from __future__ import annotations

from tunnelbench.tunnel.base import End, Outer, TunnelOptions
from tunnelbench.tunnel.kernel import KernelTunnel


class Options(TunnelOptions):
    """Options of the baseline, which has none of its own."""

    ipv4_only_inside = ""
    ipv4_only_outside = 'there is no tunnel; inside = "ipv6" forwards IPv6'


class NoTunnel(KernelTunnel[Options]):
    """Plan entry: `kind = "none"`. Every plan has the baseline, even if it does not name it. Any Linux can forward."""

    kind = "none"
    title = "no tunnel: plain forwarding, the baseline"
    options_type = Options
    tested_with = "Linux 6.18"
    plans = {"all": {"name": "no tunnel"}, "userspace": {"name": "no tunnel"}}
    added_bytes = {"": "0: the baseline has no tunnel"}
    weight = 0
    needs = ()

    @property
    def outer(self) -> Outer:
        return Outer("plain", ip_version=self.inside.number)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return inner_packet_bytes

    def device_at(self, end: End) -> str:
        return end.wan_device

    def gateway(self, other: End) -> str:
        return other.outer_address(self.inside)

    def _up(self) -> None:
        pass

    def _address_inside(self, end: End) -> None:
        """Do nothing, because the WAN's devices have their IPv6 addresses already."""

    def _prepare_device(self, end: End) -> None:
        """Do nothing, because the testbed has prepared its own devices."""
