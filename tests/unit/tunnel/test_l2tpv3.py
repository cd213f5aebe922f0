"""L2TPv3 of the kernel."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.tunnel.cases import TunnelCase, make_tunnel
from tests.unit.tunnel.fakes import commands, make_ends

from tunnelbench.tunnel.l2tpv3 import L2tpV3, Options

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


def test_the_cookie_is_one_for_both_ends_and_a_new_one_for_each_tunnel(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with L2tpV3(Options(cookie=True), make_ends(tmp_path)) as tunnel:
            ran = [line for end, _ in tunnel.ends for line in commands(end.host) if "add session" in line]
        (pair,) = {tuple(re.findall(r"cookie ([0-9a-f]{8}) ", line)) for line in ran}
        assert pair[0] == pair[1]
        found.append(pair[0])
    assert found[0] != found[1]
