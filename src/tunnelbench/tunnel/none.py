"""Plain forwarding without a tunnel, which is the baseline."""

from __future__ import annotations

from tunnelbench.tunnel.base import End, Outer, TunnelOptions
from tunnelbench.tunnel.kernel import KernelTunnel


class Options(TunnelOptions):
    """Options of the baseline, which has none."""


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
    outer = Outer("plain")

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return inner_packet_bytes

    def device_at(self, end: End) -> str:
        return end.wan_device

    def gateway(self, other: End) -> str:
        return other.wan_address

    def _up(self) -> None:
        pass

    def _prepare_device(self, end: End) -> None:
        """Do nothing, because the testbed has prepared its own devices."""
