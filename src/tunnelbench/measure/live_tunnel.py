"""Brings up a tunnel on a testbed, takes it down, and can bring it up again during traffic."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from tunnelbench.host.signals import undisturbed
from tunnelbench.measure.counters import closed_ports
from tunnelbench.measure.ipv6_paths import ipv6_paths
from tunnelbench.measure.router_filter import InstalledFilter, installed_filter
from tunnelbench.measure.step_times import StepTimes
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.step import Step
from tunnelbench.model.testbed import ROUTER_SERVER
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import End, Ends, Tunnel, undone_unless_kept


class LiveTunnel:
    """A tunnel that is up while the block runs, and that can be brought up again during traffic."""

    tunnel: Tunnel[Any]
    created: Tunnel[Any] | None = None
    """The tunnel of the last attempt, successful or not; it holds the output of its daemons."""
    packet_filter = InstalledFilter(None)
    """The router's packet filter of the plan, as it was set up."""

    def __init__(
        self, testbed: Testbed, spec: TunnelSpec, *, keep: bool = False, steps: StepTimes | None = None
    ) -> None:
        self.testbed = testbed
        self.spec = spec
        self.steps = steps or StepTimes()
        self.keep = keep
        """True if a failed tunnel is not taken down, so that a user can examine it."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self.steps.measured(Step.BRING_UP):
            self.bring_up()
        return self

    @undisturbed
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self.steps.measured(Step.TAKE_DOWN):
            self._stack.__exit__(kind, error, at)

    def bring_up(self) -> None:
        """Take the tunnel down if it is up, and bring it up. Raises the errors of `Tunnel`."""
        self._stack.close()
        self.created = None
        self.created = create(self.spec, tunnel_ends(self.testbed, keep=self.keep))
        try:
            forget_path_mtu(self.testbed)
            undo = self._stack.enter_context(undone_unless_kept(self.keep))
            self.testbed.use_line(self.spec.conditions.line, undo)
            self.testbed.use_router_cpus(self.spec.conditions.cpus, undo)
            self._stack.enter_context(closed_ports(self.testbed, self.created))
            if self.created.inside is IpVersion.IPV6:
                self._stack.enter_context(ipv6_paths(self.testbed, keep=self.keep))
            wanted = self.spec.packet_filter
            self.packet_filter = self._stack.enter_context(installed_filter(self.testbed, wanted, keep=self.keep))
            self.tunnel = self._stack.enter_context(self.created)
            if self.tunnel.is_bridged:
                ends = (self.tunnel.end_under_test, self.tunnel.far_end)
                undo = self._stack.enter_context(undone_unless_kept(self.keep))
                router_device, far_device = map(self.tunnel.device_at, ends)
                self.testbed.use_bridge(router_device, far_device, undo)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise


def forget_path_mtu(testbed: Testbed) -> None:
    """Let the testers forget the path MTU that they have learned through the last tunnel.

    The kernel keeps it for 10 minutes (net.ipv4.route.mtu_expires), and the next tunnels would carry small segments.
    """
    for tester in (testbed.client, testbed.server):
        tester.ip("route", "flush", "cache")
        tester.run(["ip", "-6", "route", "flush", "cache"], check=False)  # a kernel may lack IPv6


def tunnel_ends(testbed: Testbed, *, keep: bool = False) -> Ends:
    """Return the two ends of a tunnel on a testbed, as its adapter sees them."""
    a = testbed.addresses
    lan, wan = testbed.router_lan_device, testbed.router_wan_device
    if testbed.is_road_warrior:
        inside = a.client_inside
        device = testbed.lan_device
        caller = End(testbed.client, a.client_lan, device, a.client_inner, a.target, a.client_lan6, source=inside)
        caller = replace(caller, inner_address6=a.client_inner6, reaches6=a.target6, source6=a.client_inside6)
        called = End(testbed.router, a.router_lan, lan, a.router_inner, inside, a.router_lan6)
        called = replace(called, inner_address6=a.router_inner6, reaches6=a.client_inside6)
    else:
        caller = End(testbed.router, a.router_wan, wan, a.router_inner, a.target, a.router_wan6)
        caller = replace(caller, inner_address6=a.router_inner6, reaches6=a.target6)
        far, far_wan = testbed.far_host, testbed.wan_device
        called = End(far, a.server_wan, far_wan, a.server_inner, a.lan_network, a.server_wan6)
        called = replace(called, inner_address6=a.server_inner6, reaches6=a.lan_network6)
    return Ends(
        router=caller,
        server=called,
        local=testbed.local,
        mark=testbed.mark,
        prepare_device=testbed.prepare_tunnel_device,
        is_server_under_test=testbed.is_road_warrior,
        is_target_behind_server=testbed.spec.topology != ROUTER_SERVER,
        keep=keep,
    )
