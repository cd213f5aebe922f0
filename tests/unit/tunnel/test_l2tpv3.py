"""L2TPv3 of the kernel."""

from __future__ import annotations

from tests.unit.tunnel.cases import TunnelCase, make_tunnel

TUNNELS = (
    TunnelCase(
        "l2tpv3",
        lengths=(
            ({}, 293),
            ({"sublayer": False}, 289),
            ({"cookie": True}, 297),
            ({"sublayer": False, "cookie": True}, 293),
            ({"encapsulation": "ip"}, 281),
            ({"encapsulation": "ip", "cookie": True}, 285),
            ({"encapsulation": "ip", "sublayer": False}, 277),
            ({"encapsulation": "ip", "sublayer": False, "cookie": True}, 281),
        ),
        seen=(
            ({"port": 1234}, "udp port 1234, exact, readable"),
            ({"encapsulation": "ip"}, "l2tp, exact, readable"),
        ),
        refused=({"encapsulation": "tcp"}, {"port": 0}, {"port": 65536}),
        exact=(
            {"encapsulation": "ip", "cookie": True},
            {"outside": "ipv6"},
            {"encapsulation": "ip", "inside": "ipv6", "outside": "ipv6"},
        ),
        needs_kernel=True,
    ),
)


def test_a_device_counts_what_was_seen() -> None:
    # Seen on Linux 6.1: frames of 154 bytes for a packet of 128.
    assert make_tunnel("l2tpv3", {}).counted_bytes(128) == 154
