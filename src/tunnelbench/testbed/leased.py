"""Common code of testbeds with a router behind SSH: leases, addresses, routes, forwarding and firewall.

Changes on a leased host are never saved to its disk, and the host stores the undo command of each change first. A
watchdog on the host undoes all changes when the lease ends.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import Host
from tunnelbench.host.ip_add import inverse
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.model.text import printable
from tunnelbench.testbed import firewall, offloads
from tunnelbench.testbed.base import IP_FORWARD, BackToBack, Testbed
from tunnelbench.testbed.discovery import CableEnd, CableEnds
from tunnelbench.testbed.firewall import Traffic
from tunnelbench.testbed.undo_journal import UndoJournal

RECONNECT_LIMIT_S = 300.0
"""Longest wait for a host that was lost [s]: a router's reboot takes one to three minutes."""


class LeasedTestbed(Testbed):
    """A testbed whose router is a leased host behind SSH."""

    has_own_router = True

    router: LeasedHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        self.journal = UndoJournal(folder)
        self.leased: list[LeasedHost] = []
        """All leased hosts, the router first."""
        self._firewall = "none"
        """Kind of the router's own firewall, as `firewall.kind` returns it."""

    @property
    def known_cable_ends(self) -> CableEnds:
        """The devices and addresses that `look` found. Raises ValueError if `look` was not called."""
        if self.cable_ends is None:
            raise ValueError("the testbed has no known cable ends yet")
        return self.cable_ends

    def set_up(self) -> None:
        if os.geteuid() != 0:
            raise CannotHere(
                "moving network devices and setting routes needs root", "run it again as root, or with sudo"
            )
        if self.cable_ends is None:
            self.look()
        self.local.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._set_up_testers()
        for host in self.leased:
            host.connect()
            host.take()
        self._set_up_paths()

    @abstractmethod
    def _set_up_testers(self) -> None:
        """Set up the testers that are on this machine, and start the machines that the testbed makes itself."""

    def _set_up_paths(self) -> None:
        """Set the addresses, routes, forwarding and firewall rules that are missing."""
        self._bring_up(self.router, self.known_cable_ends.router_lan)
        self._bring_up(self.router, self.known_cable_ends.router_wan)
        for host, command in self._target_paths():
            host.run(command)
        self.router.set_kernel_file(IP_FORWARD, "1")
        if self.spec.link.has_mtu:
            for host, device in self._cable_devices():
                self._set_mtu(host, device)
        self._firewall = firewall.open_for(self.router, self.firewall_rules)
        if self.has_own_far_end:
            self.far_host.set_kernel_file(IP_FORWARD, "1")

    def _cable_devices(self) -> Sequence[tuple[Host, str]]:
        """Return the devices at the ends of all cables, each with its host."""
        beyond = ((self.far_host, self.far_device), (self.server, self.server_device))
        return (
            (self.client, self.lan_device),
            (self.router, self.router_lan_device),
            (self.router, self.router_wan_device),
            (self.far_host, self.wan_device),
            *(beyond if self.has_own_far_end else ()),
        )

    def _set_mtu(self, host: Host, device: str) -> None:
        """Give a device the MTU of the testbed file for the run. Raises CannotHere if the device cannot have it."""
        wanted_bytes, found_bytes = self.spec.link.mtu_bytes, host.device_mtu_bytes(device)
        if found_bytes in (wanted_bytes, None):
            return
        wanted, found = str(wanted_bytes), str(found_bytes)
        words = ["ip", "link", "set", "dev", device, "mtu"]
        if host.namespace:  # its device goes back to this machine with the MTU that it has then
            self.journal.note(["ip", "-n", host.namespace, *words[1:], found])
        try:
            host.run_undoable([*words, wanted], [*words, found])
        except CommandFailed as error:
            raise CannotHere(
                f"{device} on the {host.name} cannot have link.mtu_bytes = {wanted}: {printable(error.output.strip())}",
                "leave link.mtu_bytes out, or set what all devices of the path can have",
            ) from None

    @property
    def firewall_rules(self) -> tuple[firewall.AcceptRule, ...]:
        """The rules that let the traffic of a run through a firewall of the router."""
        a, lan, wan = self.addresses, self.router_lan_device, self.router_wan_device
        if self.is_road_warrior:
            return firewall.rules(
                Traffic(wan, a.target, (a.inside_network,), lan, a.client_lan, inner_network=a.inner_network)
            )
        return firewall.rules(Traffic(lan, a.client_lan, (a.target,), wan, a.server_wan))

    def own_firewall(self) -> str:
        return "" if self._firewall == "none" else self._firewall

    def _bring_up(self, host: Host, end: CableEnd) -> None:
        if not end.is_there:
            host.ip("addr", "add", end.interface, "dev", end.device)
        host.ip("link", "set", end.device, "up")

    def _target_paths(self) -> Sequence[tuple[Host, list[str]]]:
        """Return the commands that make the target reachable, each with its host."""
        a = self.addresses
        target = (self.server, ["ip", "addr", "add", f"{a.target}/32", "dev", "lo"])
        if self.is_road_warrior:  # no tunnel joins router and server then
            back = ["ip", "route", "add", a.inside_network, "via", a.router_wan, *self._window_of_route]
            return (
                target,
                (self.client, ["ip", "addr", "add", f"{a.client_inside}/32", "dev", "lo"]),
                (self.router, ["ip", "route", "add", f"{a.target}/32", "via", a.server_wan]),
                (self.server, back),
            )
        there = ["ip", "route", "add", f"{a.target}/32", "via", a.router_lan, *self._window_of_route]
        if not self.has_own_far_end:
            return (target, (self.client, there))
        back = ["ip", "route", "add", a.lan_network, "via", a.far_lan, *self._window_of_route]
        return (
            target,
            (self.client, there),
            (self.far_host, ["ip", "route", "add", f"{a.target}/32", "via", a.server_far]),
            (self.server, back),
        )

    @property
    def _window_of_route(self) -> tuple[str, ...]:
        """Words of a tester's route that limit the receive window of TCP connections from their start on."""
        return ("window", str(self.receive_window_bytes)) if self.receive_window_bytes is not None else ()

    def take_down(self) -> None:
        try:
            for host in self.leased:
                with suppress(LinkLost):  # the watchdog on the host undoes the changes
                    host.release()
        finally:
            for host in self.leased:
                host.close()
            self.journal.undo_all()
            for tester in (self.client, self.server):
                tester.close()

    def hold(self, seconds: float) -> None:
        for host in self.leased:
            host.hold(seconds)

    def recover(self) -> str:
        done = " ".join(filter(None, [self._reconnect(host) for host in self.leased]))
        for host in self.leased:
            host.take()
        for tester, command in self._target_paths():  # testers on this machine still have them
            tester.run(inverse(command), check=False)
        self._set_up_paths()
        return done

    def _reconnect(self, host: LeasedHost) -> str:
        """Wait until a lost host can be logged into. Returns and raises as `recover`."""
        host.reconnect(RECONNECT_LIMIT_S)
        return ""

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        offloads.switch_off(host, device)

    @contextmanager
    def back_to_back(self) -> Iterator[BackToBack]:
        """Join the testers by a pair of virtual devices if both are this machine: no card and no cable is measured."""
        if self.client.is_remote or not self.server.namespace:
            raise CannotHere(
                "the testers are two machines, and no cable joins them",
                "measure them against each other once, with a cable in the router's place",
            )
        device = f"tb-{self.mark}-d"
        link = BackToBack("198.18.5.1", "198.18.5.2", device, device)
        far_end = ["peer", "name", device, "netns", self.server.namespace]
        self.client.ip("link", "add", device, "type", "veth", *far_end)
        try:
            for host, address in ((self.client, link.client_address), (self.server, link.server_address)):
                offloads.switch_off(host, device)
                host.ip("addr", "add", f"{address}/24", "dev", device)
                host.ip("link", "set", device, "up")
            yield link
        finally:
            self.server.run(["ip", "link", "del", device], check=False)  # its peer goes with it
