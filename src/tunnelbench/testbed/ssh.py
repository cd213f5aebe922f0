"""Testbed `ssh`: a real router between two testers, which are this machine or others.

    client(device) --- (lan)router(wan) --- (device)server

One machine can be both testers: the server's device is then moved into a network namespace for the run, or else its
packets would never leave the machine. The router needs an SSH server, a POSIX shell, `ip`, and the tunnels' programs.
Nothing on it is changed but in its memory; each change is noted there, before it is made, with how it is undone, and
a watchdog of its own undoes everything when its lease runs out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tunnelbench.host import radio
from tunnelbench.host.command import run_command
from tunnelbench.host.host import Host, LocalHost, NamespaceHost
from tunnelbench.host.lent import LentHost
from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access, TestbedSpec, TesterSpec
from tunnelbench.testbed import firewall, nic
from tunnelbench.testbed.base import Addresses, BackToBack, Testbed
from tunnelbench.testbed.changes import Changes
from tunnelbench.testbed.netns import SYSCTLS_EVERYWHERE, namespace_name, remove_namespace
from tunnelbench.testbed.survey import Survey, find

COME_BACK_LIMIT_S = 300.0
"""How long a run waits for a host that was lost: a router's reboot takes one to three minutes."""

SLOW_START_BEHIND_SSH_S = 2.0
"""As `Testbed.slow_start_s`, where a tester's counters are read over SSH: on a busy machine each reading may take some
tenths of a second, and with 0.3 s every trial of 5 s ended before its window did. It shortens windows by as much at
most."""

OFFLOADS_STAY = "the router is a machine of its own, its offloads as they are set there"

RADIO_NOT_TOLD = (
    "the LAN is wireless, and the client has no iw (apt-get install iw): band, rate and signal are not recorded"
)

FORWARDING = "/proc/sys/net/ipv4/ip_forward"


class LaptopHost(LocalHost):
    """This machine as a tester: its own network is used as it is."""

    def read(self, *paths: str) -> str:
        return "".join(Path(path).read_text() for path in paths)  # no process, for it is read in mid-trial


class SshTestbed(Testbed):
    """Testers and a router of their own, each with devices that are there already."""

    kind = "ssh"
    has_own_router = True

    router: LentHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        if spec.router is None:
            raise ValueError(f"testbed {spec.name} has no router of its own")
        cpus = sorted(os.sched_getaffinity(0))
        self.local = LocalHost("local", folder / "local", cpus)
        self.changes = Changes(folder)
        self.client = self._tester("client", spec.client)
        self.server = self._tester("server", spec.server)
        if any(isinstance(host, LentHost) for host in (self.client, self.server)):
            self.slow_start_s = SLOW_START_BEHIND_SSH_S
        via = self.client if isinstance(self.client, NamespaceHost) else self.local
        self.router = self._lent("router", spec.router.access, via)
        self.survey: Survey | None = None

    def _tester(self, role: str, tester: TesterSpec) -> Host:
        if not tester.access.is_local:
            return self._lent(role, tester.access, self.local)
        if tester.namespace:
            return NamespaceHost(role, self.folder / role, self.local.cpus, namespace_name(self.mark, role))
        return LaptopHost(role, self.folder / role, self.local.cpus)

    def _lent(self, role: str, access: Access, via: Host) -> LentHost:
        return LentHost(role, access, f"{self.run_id}-{role}", self.folder / role, via)

    @property
    def lent(self) -> list[LentHost]:
        """Hosts that are reached by SSH, the router first."""
        return [host for host in dict.fromkeys((self.router, *self.hosts)) if isinstance(host, LentHost)]

    # Before anything is changed

    def look(self) -> Mapping[str, Any]:
        """Find devices and addresses, and say what the hosts are; changes nothing but for a folder below /tmp there.

        Raises CannotHere where a host cannot be reached, or something has to be written into the testbed file.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.local.folder.mkdir(mode=0o700, exist_ok=True)
        facts: dict[str, Any] = {}
        with ExitStack() as stack:
            looking: dict[str, Host] = {"client": self.local, "server": self.local}
            for host in self.lent:
                # From this machine's own network: namespaces are not made yet.
                name = f"{self.run_id}-{host.name}-look"
                looker = LentHost(host.name, host.access, name, host.log_folder, self.local)
                stack.callback(looker.close)
                looker.connect()
                stack.callback(looker.forget)
                looking[host.name] = looker
                facts |= {f"{host.name}_{name}": value for name, value in looker.facts().items()}
            self.survey = find(self.spec, looking["client"], looking["router"], looking["server"])
            if isinstance(router := looking["router"], LentHost):
                facts["router_firewall"] = firewall.kind(router)
            facts |= self._radios(looking["client"], looking["router"], self.survey)
        if self.spec.router:
            facts |= {"router_price": self.spec.router.price, "router_watts": self.spec.router.watts}
        facts = {name: value for name, value in facts.items() if value not in ("", None)}
        self._place(self.survey)
        self.notes = (OFFLOADS_STAY, *self.notes)
        if told := firewall.told(facts.get("router_firewall", ""), self.addresses):
            self.notes += (told,)
        return facts

    def _radios(self, client: Host, router: Host, survey: Survey) -> dict[str, Any]:
        """What the radios of a wireless LAN are; a note where nobody can ask the client's."""
        device = survey.client.device
        facts: dict[str, Any] = {}
        for role, antenna in radio.antennas(client, device, router, survey.router_lan.device).items():
            facts |= antenna.look()[0].facts(f"{role}_radio_")
        self.notes = ()
        if not client.has_program("iw") and radio.is_wireless(client, device):
            self.notes = (RADIO_NOT_TOLD,)
        return facts

    def _place(self, survey: Survey) -> None:
        self.lan_device, self.wan_device = survey.client.device, survey.server.device
        self.router_lan_device, self.router_wan_device = survey.router_lan.device, survey.router_wan.device
        self.addresses = replace(
            Addresses(),
            client_lan=survey.client.address,
            router_lan=survey.router_lan.address,
            lan_network=f"{survey.client.address}/32",
            router_wan=survey.router_wan.address,
            server_wan=survey.server.address,
        )

    # Up and down

    def set_up(self) -> None:
        if os.geteuid() != 0:
            raise CannotHere(
                "moving network devices and setting routes needs root", "run it again as root, or with sudo"
            )
        if self.survey is None:
            self.look()
        self.local.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._set_up_testers()
        self._take_hosts()
        self._set_up_paths()

    def _known(self) -> Survey:
        if self.survey is None:
            raise ValueError("nobody has looked yet")
        return self.survey

    def _set_up_testers(self) -> None:
        """The devices of those testers that are this machine."""
        survey = self._known()
        for host, place in ((self.client, survey.client), (self.server, survey.server)):
            if isinstance(host, LentHost):
                continue
            host.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            nic.settle_offloads(place.device, self.changes)  # what stays on shows as merged frames in the trials
            if isinstance(host, NamespaceHost):
                run_command(["ip", "netns", "add", host.namespace])
                for path, value in SYSCTLS_EVERYWHERE.items():
                    if Path(path).exists():
                        host.set_kernel_file(path, value)
                host.ip("link", "set", "lo", "up")
                host.drop_anchor()
                nic.move(place.device, place.interface, host, self.changes)
            else:
                nic.lend(place.device, place.interface, self.changes)

    def _take_hosts(self) -> None:
        """Connect to the hosts behind SSH and take their leases, the router's first."""
        for host in self.lent:
            host.connect()
            host.take()

    def _set_up_paths(self) -> None:
        """Addresses, routes, forwarding and firewall, where they are missing."""
        survey, a = self._known(), self.addresses
        places = ((self.router, survey.router_lan), (self.router, survey.router_wan))
        others = ((self.client, survey.client), (self.server, survey.server))
        there = [(host, place) for host, place in others if isinstance(host, LentHost)]
        for host, place in there:
            for name in nic.merging_at(host, place.device):
                undo = f"ethtool -K {place.device} {name} on 2>/dev/null; true"
                host.change(["ethtool", "-K", place.device, name, "off"], undo)
        for host, place in (*places, *there):
            if not place.is_there:
                host.run(["ip", "addr", "add", place.interface, "dev", place.device])
            host.run(["ip", "link", "set", place.device, "up"])
        self._add_here_or_there(self.client, ["route", "add", f"{a.target}/32", "via", a.router_lan], "route", "del")
        self._add_here_or_there(self.server, ["addr", "add", f"{a.target}/32", "dev", "lo"], "addr", "del")
        self.router.set_kernel_file(FORWARDING, "1")
        firewall.open_for(self.router, a)

    def _add_here_or_there(self, host: Host, words: Sequence[str], *inverse: str) -> None:
        """An `ip ... add`, noted here where it is in this machine's own network; namespaces go as a whole."""
        if isinstance(host, LaptopHost):
            end = 3 if words[0] == "route" else len(words)
            self.changes.note(["ip", *inverse, *words[2:end]])
        host.run(["ip", *words])

    def take_down(self) -> None:
        try:
            for host in self.lent:
                with suppress(LinkLost):  # its watchdog does it
                    host.release()
        finally:
            for host in self.lent:
                host.close()
            self.changes.undo_all()
            for tester in (self.client, self.server):
                if isinstance(tester, NamespaceHost):
                    tester.weigh_anchor()
                    remove_namespace(tester.namespace)

    def hold(self, seconds: float) -> None:
        for host in self.lent:
            host.hold(seconds)

    def recover(self) -> None:
        for host in self.lent:
            host.reconnect(COME_BACK_LIMIT_S)
        for host in self.lent:
            host.clean_all()
            host.take()
        for tester in (self.client, self.server):  # theirs are there still
            if isinstance(tester, LaptopHost):
                tester.run(["ip", "route", "del", f"{self.addresses.target}/32"], check=False)
            elif isinstance(tester, NamespaceHost):
                tester.run(["ip", "addr", "del", f"{self.addresses.target}/32", "dev", "lo"], check=False)
        self._set_up_paths()

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """On a tester one frame is one packet; the router's offloads are its nature (rule 1)."""
        if host is not self.router:
            for name in nic.merging_at(host, device):
                host.run(["ethtool", "-K", device, name, "off"], check=False)

    @contextmanager
    def back_to_back(self) -> Iterator[BackToBack]:
        """A pair of virtual devices, where both testers are this machine: what it can do without cards and cables."""
        if isinstance(self.client, LentHost) or not isinstance(self.server, NamespaceHost):
            raise CannotHere(
                "the testers are two machines, and no cable joins them",
                "measure them against each other once, with a cable in the router's place",
            )
        device = f"tb-{self.mark}-d"
        link = BackToBack("198.18.5.1", "198.18.5.2", device, device)
        self.changes.note(["ip", "link", "del", device])
        far_end = ["peer", "name", device, "netns", self.server.namespace]
        self.client.ip("link", "add", device, "type", "veth", *far_end)
        try:
            for host, address in ((self.client, link.client_address), (self.server, link.server_address)):
                for name in nic.merging_at(host, device):
                    host.run(["ethtool", "-K", device, name, "off"], check=False)
                host.ip("addr", "add", f"{address}/24", "dev", device)
                host.ip("link", "set", device, "up")
            yield link
        finally:
            self.server.run(["ip", "link", "del", device], check=False)  # its peer goes with it
