"""No tunnel: nothing is made, and the target is reached over the WAN."""

from __future__ import annotations

from pathlib import Path

from tests.unit.tunnel.cases import TunnelCase
from tests.unit.tunnel.fakes import commands, make_ends

from tunnelbench.tunnel.none import NoTunnel, Options

TUNNELS = (
    TunnelCase(
        "none",
        lengths=(({}, 239), ({"inside": "ipv6"}, 239)),
        seen=(({}, "plain IP, exact, readable"), ({"inside": "ipv6"}, "plain IPv6, exact, readable")),
        refused=({"outside": "ipv6"}, {"inside": "ipv6", "firewall": "stateful"}, {"inside": "ipv6", "rules": 1}),
        exact=({}, {"inside": "ipv6"}),
        measured=({"inside": "ipv6"},),  # every plan has it
    ),
)


def test_without_a_tunnel_nothing_is_made_and_the_target_is_reached_over_the_wan(tmp_path: Path) -> None:
    with NoTunnel(Options(), make_ends(tmp_path)) as tunnel:
        assert commands(tunnel.ends.router.host) == ["ip route add 198.18.4.1 via 198.18.2.2 dev wan"]
    assert commands(tunnel.ends.server.host)[-1] == "ip route del 198.18.1.0/24"
