"""How a change of a lent machine is undone."""

from __future__ import annotations

import pytest

from tunnelbench.host.lent import inverse


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        ("ip route add 198.18.4.1 via 198.18.3.2 dev tun0", "ip route del 198.18.4.1"),
        ("ip link add grerouted type gre local 1.2.3.4", "ip link del grerouted"),
        ("ip link add name vx type vxlan id 7", "ip link del vx"),
        ("ip addr add 198.18.2.1/24 dev wan", "ip addr del 198.18.2.1/24 dev wan"),
        ("ip rule add from 198.18.4.1 table 7", "ip rule del from 198.18.4.1 table 7"),
        ("ip tuntap add dev tun7 mode tun", "ip tuntap del dev tun7 mode tun"),
        ("ip l2tp add tunnel tunnel_id 3 peer_tunnel_id 4", "ip l2tp del tunnel tunnel_id 3"),
    ],
)
def test_what_ip_adds_is_deleted_twice_without_harm(command: str, undone: str) -> None:
    assert inverse(command.split()) == f"{undone} 2>/dev/null; true"


@pytest.mark.parametrize("command", ["ip route show", "ip link set tun0 up", "cat /proc/add", "ip -j route get add"])
def test_what_adds_nothing_has_nothing_to_be_undone(command: str) -> None:
    assert not inverse(command.split())
