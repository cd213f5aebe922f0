"""Testbed `ssh`: a real router between two testers, which are this machine or others.

    client(device) --- (lan)router(wan) --- (device)server
    client(device) --- (lan)router(wan) --- (wan)gateway(lan) --- (device)server    with the topology `gateway-pair`

One machine can be both testers: the server's device then moves into a network namespace for the run, because packets
between two addresses of one namespace never leave the machine. The router needs an SSH server, a POSIX shell, `ip`,
and the tunnels' programs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tunnelbench.host import radio
from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.ip_add import existing, inverse, not_added
from tunnelbench.host.kernel_file import set_noted
from tunnelbench.host.labgrid import PlaceUnavailable
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.namespace import NamespaceHost, namespace_name
from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.conditions import Conditions
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HOST_KERNEL, HostAccess, KindSettings, TestbedSpec, TesterSpec
from tunnelbench.testbed import firewall, nic, offloads, router_cpus
from tunnelbench.testbed.base import Addresses
from tunnelbench.testbed.discovery import CableEnd, CableEnds, GatewayEnds, find
from tunnelbench.testbed.firewall import Traffic
from tunnelbench.testbed.leased import LeasedTestbed
from tunnelbench.testbed.place import PowerSwitch
from tunnelbench.testbed.undo_journal import UndoJournal

SLOW_START_OVER_SSH_S = 2.0
"""`Testbed.slow_start_s` if a tester's counters are read over SSH [s].

On a busy machine each reading takes some tenths of a second: with 0.3 s, each trial of 5 s ended before its window. The
measured windows become shorter by at most this time.
"""

OFFLOADS_STAY = "the router is a separate machine: its offloads stay as they are set there"

NO_IW_NOTE = (
    "the LAN is wireless, and the client has no iw (apt-get install iw): band, rate and signal are not recorded"
)


class LocalTester(LocalHost):
    """This machine as a tester in its own network; the journal gets the undo of each `ip ... add`, and the former value
    of each file of the kernel, before the change."""

    def __init__(self, name: str, folder: Path, cpus: Sequence[int], journal: UndoJournal) -> None:
        super().__init__(name, folder, cpus)
        self._journal = journal
        self._noted_files: set[str] = set()

    def attach(self, end: CableEnd) -> None:
        """Bring the tester's device up with its address."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        nic.switch_offloads_off(self, end.device, self._journal)  # those that stay on show as merged frames in trials
        nic.bring_up(end, self._journal)

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        undo = inverse(argv)
        if not undo or self._journal.has(undo):
            return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        if thing := existing(self, argv):
            return not_added(argv, self, thing, check=check)
        self._journal.note(undo)
        done = super().run(argv, stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode != 0:
            self._journal.drop(undo)  # whatever is there belongs to somebody else
            if check:
                raise CommandFailed(argv, f"ended with status {done.returncode}", done.stderr or done.stdout)
        return done

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        self._journal.note(undo)
        self.run(argv, stdin=stdin)

    def set_kernel_file(self, path: str, value: str) -> None:
        set_noted(self, path, value, self._noted_files, self._journal.note_file)

    def read(self, *paths: str) -> str:
        return "".join(Path(path).read_text() for path in paths)  # starts no process: it is called during trials


class NamespaceTester(NamespaceHost):
    """This machine as a tester whose network device moves into a namespace for the run."""

    def __init__(self, name: str, folder: Path, cpus: Sequence[int], namespace: str, journal: UndoJournal) -> None:
        super().__init__(name, folder, cpus, namespace)
        self._journal = journal

    def attach(self, end: CableEnd) -> None:
        """Make the namespace and move the tester's device into it, up and with its address."""
        nic.switch_offloads_off(LocalHost("local", self.folder, ()), end.device, self._journal)
        self.create()
        nic.move(end, self, self._journal)


class SshTestbed(LeasedTestbed):
    """A real router and two testers, with network devices that exist already."""

    kind = "ssh"
    settings = KindSettings(
        {
            "kernel": (HOST_KERNEL,),  # the router has a kernel of its own
            "topology": (),
            "link.rate_out_mbps": (),
            "link.rate_in_mbps": (),
            "link.mtu_bytes": (),
            "router": (),
            "gateway": (),
            "client": (),
            "server": (),
            "place": (),
            "coordinator": (),
            "place_wait_s": (),
            "power_after_s": (),
        },
        required={"router": '[router] with host = "root@192.168.1.1"'},
    )

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        if spec.router is None or not spec.router.access.host:
            raise ValueError(f"testbed {spec.name} has no router, or its place is not acquired")
        self.power = PowerSwitch(spec, run_id)
        self.local = LocalHost("local", folder / "local", sorted(os.sched_getaffinity(0)))
        self._local_testers: list[LocalTester | NamespaceTester] = []
        self._remote_testers: list[LeasedHost] = []
        self.client = self._tester("client", spec.client)
        self.server = self._tester("server", spec.server)
        if self._remote_testers:
            self.slow_start_s = SLOW_START_OVER_SSH_S
        self.router = self._lease("router", spec.router.access, self.client if self.client.namespace else self.local)
        self._has_chosen_cpus = False
        """True if the plan gives the router two CPUs for a tunnel; it has one for all others then."""
        self._gateway_firewall = "none"
        self.gateway: LeasedHost | None = None
        if spec.gateway is not None:
            self.gateway = self._lease("gateway", spec.gateway.access, self.local)
        self.leased = [self.router, *([self.gateway] if self.gateway else []), *self._remote_testers]
        self.permanent_hosts = self.leased

    def _tester(self, role: str, tester: TesterSpec) -> Host:
        if not tester.access.is_local:
            self._remote_testers.append(self._lease(role, tester.access, self.local))
            return self._remote_testers[-1]
        folder, cpus = self.folder / role, self.local.cpus
        if tester.namespace:
            moved = NamespaceTester(role, folder, cpus, namespace_name(self.mark, role), self.journal)
            self._local_testers.append(moved)
            return moved
        self._local_testers.append(LocalTester(role, folder, cpus, self.journal))
        return self._local_testers[-1]

    def _lease(self, role: str, access: HostAccess, via: Host) -> LeasedHost:
        return LeasedHost(role, access, f"{self.run_id}-{role}", self.folder / role, via)

    @property
    def far_host(self) -> Host:
        return self.gateway or self.server

    # Before anything is changed

    def look(self) -> Mapping[str, Any]:
        """Find devices and addresses, and return facts of the hosts; makes only a folder below /tmp on each.

        Raises CannotHere if a host cannot be reached, or if the testbed file must name something.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.local.folder.mkdir(mode=0o700, exist_ok=True)
        facts: dict[str, Any] = {}
        restarts = []
        with ExitStack() as stack:
            visits: dict[str, LeasedHost] = {}
            for host in self.leased:
                # From this machine's own network: the namespaces do not exist yet.
                visit = visits[host.name] = host.visit(f"{self.run_id}-{host.name}-look", self.local)
                stack.callback(visit.close)
                restarts.append(self._first_contact(visit))
                stack.callback(visit.forget)
                facts |= {f"{host.name}_{name}": value for name, value in visit.facts().items()}
            router = visits["router"]
            client, server = visits.get("client", self.local), visits.get("server", self.local)
            servers = {name: found for name, visit in visits.items() if (found := visit.ssh_server())}
            self.control_connections = tuple(servers.values())
            management = str(servers["gateway"].address) if "gateway" in servers else ""
            cable_ends = find(self.spec, client, router, server, visits.get("gateway"), management=management)
            facts["router_firewall"] = firewall.kind(router)
            if gateway := visits.get("gateway"):
                facts["gateway_firewall"] = self._gateway_firewall = firewall.kind(gateway)
            facts |= self._radios(client, router, cable_ends)
        if self.spec.place:
            facts["router_place"] = self.spec.place.name
        if self.spec.router:
            facts |= {"router_price": self.spec.router.price, "router_watts": self.spec.router.watts}
        facts = {name: value for name, value in facts.items() if value not in ("", None)}
        self._use(cable_ends)
        self.notes = (*filter(None, restarts), OFFLOADS_STAY, *self.notes)
        if note := firewall.note(self.router.name, facts.get("router_firewall", ""), self.firewall_rules):
            self.notes += (note,)
        between = cable_ends.gateway
        if between and (note := firewall.note("gateway", self.far_firewall(), self._gateway_rules(between))):
            self.notes += (note,)
        return facts

    def _first_contact(self, visit: LeasedHost) -> str:
        """Log in to a host for the first time; waits for a router that is a place of labgrid, as `_reconnect` does."""
        try:
            visit.connect()
        except LinkLost as error:
            if self.spec.place is None or visit.name != self.router.name or not error.is_silent:
                raise
            return self._reconnect(visit)
        return ""

    def _reconnect(self, host: LeasedHost) -> str:
        """Wait until a host can be logged into. A router that is a place of labgrid is switched off and on if it does
        not answer in time, once in a run; the sentence about that is returned."""
        if self.spec.place is None or host.name != self.router.name:
            return super()._reconnect(host)
        try:
            host.reconnect(self.spec.place.power_after_s)
        except LinkLost as error:
            if not error.is_silent:
                raise
            try:
                done = self.power.cycle()
            except PlaceUnavailable as fault:
                raise CannotHere(f"{error.message}; {fault.message}", fault.hint) from None
            if not done:
                raise
        else:
            return ""
        try:
            super()._reconnect(host)
        except LinkLost as error:
            raise CannotHere(f"{error.message}, although its power was switched off and on", error.hint) from None
        return done

    def _radios(self, client: Host, router: Host, cable_ends: CableEnds) -> dict[str, Any]:
        """Return facts of the radios of a wireless LAN; adds a note if the client's radio cannot be read."""
        device = cable_ends.client.device
        facts: dict[str, Any] = {}
        for role, antenna in radio.antennas(client, device, router, cable_ends.router_lan.device).items():
            facts |= antenna.look()[0].facts(f"{role}_radio_")
        self.notes = ()
        if not client.has_program("iw") and radio.is_wireless(client, device):
            self.notes = (NO_IW_NOTE,)
        return facts

    def _use(self, cable_ends: CableEnds) -> None:
        self.cable_ends = cable_ends
        server, between = cable_ends.server, cable_ends.gateway
        far_wan = between.wan if between else server
        self.lan_device, self.wan_device = cable_ends.client.device, far_wan.device
        self.server_device = server.device
        self.router_lan_device, self.router_wan_device = cable_ends.router_lan.device, cable_ends.router_wan.device
        self.addresses = replace(
            Addresses(),
            client_lan=cable_ends.client.address,
            router_lan=cable_ends.router_lan.address,
            lan_network=f"{cable_ends.client.address}/32",
            router_wan=cable_ends.router_wan.address,
            server_wan=far_wan.address,
        )
        if between:
            self.far_device = between.lan.device
            self.addresses = replace(self.addresses, far_lan=between.lan.address, server_far=server.address)

    # Up and down

    def _end_of(self, tester: Host) -> CableEnd:
        return self.known_cable_ends.client if tester is self.client else self.known_cable_ends.server

    def _set_up_testers(self) -> None:
        for tester in self._local_testers:
            tester.attach(self._end_of(tester))

    def _set_up_paths(self) -> None:
        for tester in self._remote_testers:
            end = self._end_of(tester)
            for name in offloads.changeable(tester, end.device):
                undo = f"ethtool -K {end.device} {name} on 2>/dev/null; true"
                tester.change(["ethtool", "-K", end.device, name, "off"], undo)
            self._bring_up(tester, end)
        if self.gateway and (between := self.known_cable_ends.gateway):
            self._bring_up(self.gateway, between.wan)
            self._bring_up(self.gateway, between.lan)
            firewall.open_for(self.gateway, self._gateway_rules(between))
        super()._set_up_paths()

    def _gateway_rules(self, ends: GatewayEnds) -> tuple[firewall.AcceptRule, ...]:
        """Return the rules for a firewall of the gateway; behind NAT, the traffic has an address of the router."""
        a = self.addresses
        sources = (a.client_lan, a.router_inner, a.router_wan)
        return firewall.rules(Traffic(ends.lan.device, a.target, sources, ends.wan.device, a.router_wan))

    def prepare_for(self, conditions: Collection[Conditions]) -> None:
        self._has_chosen_cpus = any(each.cpus > 1 for each in conditions)

    def use_router_cpus(self, count: int, undo: ExitStack) -> None:
        if self._has_chosen_cpus:
            router_cpus.limit(self.router, count, undo)

    def far_firewall(self) -> str:
        return "" if self._gateway_firewall == "none" else self._gateway_firewall

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Make a tester's device carry one packet in each frame (rule 1). Offloads of routers stay as they are."""
        if host not in (self.router, self.gateway):
            super().prepare_tunnel_device(host, device)
