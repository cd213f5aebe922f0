"""VXLAN of the kernel."""

from __future__ import annotations

from tests.unit.tunnel.cases import IP_VERSIONS, TunnelCase

TUNNELS = (
    TunnelCase(
        "vxlan",
        lengths=(({}, 289), ({"outside": "ipv6"}, 309)),
        seen=(
            ({"port": 8472}, "udp port 8472, exact, readable"),
            ({"outside": "ipv6"}, "udp port 4789 over IPv6, exact, readable"),
        ),
        refused=({"mtu": 575}, {"mtu": 9001}, {"vni": 2**24}, {"vni": -1}, {"port": 0}, {"port": 65536}),
        accepted=({"vni": 0, "port": 1}, {"vni": 2**24 - 1, "port": 65535}),
        exact=({}, *IP_VERSIONS),
        measured=({"inside": "ipv6", "outside": "ipv6"},),  # the plan `quick` has it
    ),
)
