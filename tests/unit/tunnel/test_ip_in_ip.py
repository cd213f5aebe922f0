"""GRE, IPIP and SIT of the kernel."""

from __future__ import annotations

from tests.unit.tunnel.cases import TunnelCase, make_tunnel

TUNNELS = (
    TunnelCase(
        "gre",
        lengths=(
            ({}, 263),
            ({"key": 7}, 267),
            ({"checksum": True}, 267),
            ({"sequence": True}, 267),
            ({"key": 0, "checksum": True, "sequence": True}, 275),
            ({"outside": "ipv6"}, 283),
        ),
        seen=(({}, "gre, exact, readable"), ({"outside": "ipv6"}, "gre over IPv6, exact, readable")),
        refused=({"key": -1}, {"key": 2**32}),
        exact=(
            {"key": 7, "sequence": True},
            {"checksum": True},
            {"outside": "ipv6"},
            {"inside": "ipv6"},
            {"inside": "ipv6", "outside": "ipv6", "key": 7},
        ),
        needs_kernel=True,
    ),
    TunnelCase(
        "ipip",
        lengths=(({}, 259), ({"outside": "ipv6"}, 279)),
        seen=(({}, "ipip, exact, readable"), ({"outside": "ipv6"}, "ipip over IPv6, exact, readable")),
        refused=({"inside": "ipv6"},),
        exact=({}, {"outside": "ipv6"}),
        needs_kernel=True,
    ),
    TunnelCase(
        "sit",
        lengths=(({}, 259), ({"inside": "ipv6"}, 259)),
        seen=(({}, "ipip, exact, readable"), ({"inside": "ipv6"}, "ipv6, exact, readable")),
        refused=({"outside": "ipv6"},),
        exact=({}, {"inside": "ipv6"}),
        needs_kernel=True,
    ),
)


def test_a_device_counts_a_packet_with_ethernets_header() -> None:
    assert make_tunnel("gre", {}).counted_bytes(128) == 142
