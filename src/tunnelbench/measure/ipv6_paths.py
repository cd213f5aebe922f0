"""Gives the hosts of a testbed the addresses and routes that traffic over IPv6 needs outside the tunnel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tunnelbench.host.ipv6 import FORWARDING, add_ipv6_address, add_route, set_for_block
from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel.base import undone_unless_kept


@contextmanager
def ipv6_paths(testbed: Testbed, *, keep: bool = False) -> Iterator[None]:
    """Let client and server reach the router over IPv6 while the block runs, and let the router forward it.

    With `keep`, all of it stays after a failure, for a user to examine. Raises TunnelUnavailable if a host's kernel has
    no IPv6, or if the router has a firewall of its own, which would drop the traffic.
    """
    for name, own in ((testbed.router.name, testbed.own_firewall()), (testbed.far_host.name, testbed.far_firewall())):
        if own:
            raise TunnelUnavailable(
                f"the {name} has a firewall of its own ({own}), which TunnelBench opens for IPv4 only: stop it for the "
                "run"
            )
    for host in testbed.hosts:
        if not host.has_ipv6:
            raise TunnelUnavailable(f"the kernel of the {host.name} has no IPv6")
    with undone_unless_kept(keep) as stack:
        _set_up(testbed, stack)
        yield


def _set_up(testbed: Testbed, stack: ExitStack) -> None:
    a, client, router, server = testbed.addresses, testbed.client, testbed.router, testbed.server
    add_ipv6_address(client, f"{a.client_lan6}/64", testbed.lan_device, stack)
    add_ipv6_address(router, f"{a.router_lan6}/64", testbed.router_lan_device, stack)
    add_ipv6_address(server, f"{a.target6}/128", "lo", stack)
    set_for_block(router, FORWARDING, "1", stack)
    if testbed.is_road_warrior:  # the tunnel joins client and router, and no tunnel joins router and server
        add_ipv6_address(client, f"{a.client_inside6}/128", "lo", stack)
        add_ipv6_address(router, f"{a.router_wan6}/64", testbed.router_wan_device, stack)
        add_ipv6_address(server, f"{a.server_wan6}/64", testbed.wan_device, stack)
        add_route(router, f"{a.target6}/128", "via", a.server_wan6, stack=stack)
        add_route(server, f"{a.client_inside6}/128", "via", a.router_wan6, stack=stack)
        return
    add_route(client, f"{a.target6}/128", "via", a.router_lan6, stack=stack)
    if testbed.has_own_far_end:
        far = testbed.far_host
        add_ipv6_address(far, f"{a.far_lan6}/64", testbed.far_device, stack)
        add_ipv6_address(server, f"{a.server_far6}/64", testbed.server_device, stack)
        set_for_block(far, FORWARDING, "1", stack)
        add_route(far, f"{a.target6}/128", "via", a.server_far6, stack=stack)
        add_route(server, a.lan_network6, "via", a.far_lan6, stack=stack)
