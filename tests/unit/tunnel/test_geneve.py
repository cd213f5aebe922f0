"""Geneve of the kernel."""

from __future__ import annotations

from tests.unit.tunnel.cases import TunnelCase

TUNNELS = (
    TunnelCase(
        "geneve",
        lengths=(({}, 289), ({"outside": "ipv6"}, 309)),
        seen=(({}, "udp port 6081, exact, readable"),),
        refused=({"vni": 2**24}, {"vni": -1}, {"port": 0}, {"port": 65536}),
        exact=({}, {"outside": "ipv6"}, {"inside": "ipv6"}),
        needs_kernel=True,
    ),
)
