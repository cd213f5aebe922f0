"""The interface of every testbed: three hosts in a row, their addresses, and a direct link between the testers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, ClassVar, Self

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.namespace import NamespaceHost, namespace_name
from tunnelbench.host.signals import undisturbed
from tunnelbench.host.ssh import SshServer
from tunnelbench.model.conditions import Conditions
from tunnelbench.model.errors import KeptForDebugging, TunnelUnavailable
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.lines import Line, LineName
from tunnelbench.model.testbed import ROAD_WARRIOR, KindSettings, Link, TestbedSpec
from tunnelbench.testbed.discovery import CableEnds


@dataclass(frozen=True)
class Addresses:
    """IPv4 addresses of the path, all from the range for benchmarks (RFC 2544, appendix C.2.2; RFC 5735)."""

    client_lan: str = "198.18.1.2"
    router_lan: str = "198.18.1.1"
    lan_network: str = "198.18.1.0/24"
    router_wan: str = "198.18.2.1"
    server_wan: str = "198.18.2.2"
    router_inner: str = "198.18.3.1"
    server_inner: str = "198.18.3.2"
    inner_network: str = "198.18.3.0/24"
    """Network of the addresses inside the tunnel."""
    target: str = "198.18.4.1"
    """The server's address, the target of the traffic. The tunnel's routes decide how the router reaches it."""
    client_inner: str = "198.18.3.2"
    """The client's address inside the tunnel, if the client ends the tunnel."""
    far_lan: str = "198.18.7.1"
    """The far end's address on the cable to the server, if the two are separate machines."""
    server_far: str = "198.18.7.2"
    """The server's address on the cable to the far end, if the two are separate machines."""
    client_inside: str = "198.18.6.1"
    """The client's traffic address if the client ends the tunnel; it is reachable only through the tunnel. If the
    router has several clients, each next one has the next address."""
    inside_network: str = "198.18.6.0/24"
    """Network of the clients' traffic addresses."""
    router_wan6: str = "2001:2::1"
    server_wan6: str = "2001:2::2"
    client_lan6: str = "2001:2:0:1::2"
    router_lan6: str = "2001:2:0:1::1"
    """IPv6 addresses of the range for benchmarks (RFC 5180, section 8, erratum 1752); set while a tunnel uses IPv6."""
    lan_network6: str = "2001:2:0:1::/64"
    router_inner6: str = "2001:2:0:3::1"
    server_inner6: str = "2001:2:0:3::2"
    target6: str = "2001:2:0:4::1"
    client_inner6: str = "2001:2:0:3::2"
    client_inside6: str = "2001:2:0:6::1"
    far_lan6: str = "2001:2:0:7::1"
    server_far6: str = "2001:2:0:7::2"
    """Addresses and a network for what the IPv4 fields of the same names are for; set while the traffic is IPv6."""


IP_FORWARD = "/proc/sys/net/ipv4/ip_forward"

FIXED_CPUS = 'the CPUs of the router can be chosen on testbeds of the kinds "netns" and "ssh" only'
FIXED_WINDOW = "beside a router of fixed speed, TunnelBench keeps the testers' receive window small and constant"
NO_LINES = 'a line needs cables that TunnelBench makes, as those of testbeds of kind "netns"'
NO_BRIDGE = 'the router and its neighbours must be namespaces, as those of testbeds of kind "netns"'
NO_BRIDGE_TO_LAN = "the tunnel of this topology is on the LAN, so that a bridge cannot join the two"

SLOW_START_S = 0.3
"""Longest time that a test may need from its start until its first packets are noticed [s]."""


@dataclass(frozen=True)
class BackToBack:
    """A direct link between the two testers, without the router."""

    client_address: str
    server_address: str
    client_device: str
    server_device: str
    is_veth: bool = False
    """True if the two devices are one veth pair."""


class Testbed(ABC):
    """Three hosts in a row: client, router and server. Client and server are the testers; the router is under test.

    As a context manager, it sets the testbed up at the start of a `with` block and always takes it down at the end.
    """

    __test__ = False

    kind: ClassVar[str]
    """Name of this kind of testbed in testbed files."""
    settings: ClassVar[KindSettings]
    """The settings of testbed files that this kind supports."""

    client: Host
    router: Host
    server: Host
    local: LocalHost
    """The machine of the controller."""
    lan_device = "lan"
    """The client's device on the cable to the router."""
    wan_device = "wan"
    """The far end's device on the cable to the router."""
    veths: ClassVar[Collection[str]] = ()
    """Devices that are ends of veth pairs. If a frame does not fit into the receiver's queue, both ends of the pair
    count it as dropped, and neither end counts it as carried (drivers/net/veth.c)."""

    server_device = "far"
    """The server's device on the cable to the far end, if that is a separate machine."""
    far_device = "far"
    """The far end's device on the same cable."""
    router_lan_device = "lan"
    router_wan_device = "wan"

    has_own_router = False
    """True if the router is a machine of its own, and not a part of this machine."""

    can_stay_up: ClassVar[bool] = False
    """True if the testbed can stay up when the controller ends, for `run --keep`."""

    permanent_hosts: Sequence[LeasedHost] = ()
    """Hosts behind SSH that exist without a run: `doctor` examines them and `clean` restores them."""

    cables: Sequence[Host] = ()
    """Hosts that shape the traffic of the cables; empty if the cables are real or have no rate."""

    cable_devices: ClassVar[tuple[str, str]] = ("near", "far")
    """Devices of a host in `cables`, one at each end of the cable."""

    cable_ends: CableEnds | None = None
    """Devices and addresses that `look` found; None before `look`, and for testbeds that make their own devices."""

    pollers: Mapping[int, Daemon] = MappingProxyType({})
    """Programs that keep CPUs of this machine awake at the moment (`awake`), by CPU."""

    line: Line | None = None
    """The line that the cable of the tunnel is at the moment; None: the cable of the testbed file."""
    line_lacks = ""
    """Sentence on the properties of that line that this kernel cannot give it; empty: none."""

    slow_start_s = SLOW_START_S
    """Longest time for the set-up of a test; more than SLOW_START_S if programs start slowly [s]."""

    control_connections: tuple[SshServer, ...] = ()
    """SSH servers of the hosts, which TunnelBench may reach by a cable of the testbed."""

    receive_window_bytes: int | None = None
    """Limit of the receive window of the testers' TCP connections [bytes]; None for no limit."""

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        self.spec = spec
        self.run_id = run_id
        self.folder = folder
        self.mark = run_id[-6:]
        """The last characters of the run's id, for names that must be unique on a machine."""
        self.addresses = Addresses()
        self.notes: tuple[str, ...] = ()
        """Limits of this testbed that a reader of the results must know."""

    def _namespace_host(self, role: str, cpus: Sequence[int]) -> NamespaceHost:
        """Return the host in a network namespace of its own for a role; nothing is made yet."""
        return NamespaceHost(role, self.folder / role, cpus, namespace_name(self.mark, role))

    @property
    def far_host(self) -> Host:
        """The host at the far end of the tunnel: the server, or a machine between router and server."""
        return self.server

    @property
    def has_own_far_end(self) -> bool:
        """True if the tunnel ends on a machine that only forwards the packets that come out of it."""
        return self.far_host is not self.server

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts that the traffic passes, in order."""
        return (self.client, self.router, *((self.far_host,) if self.has_own_far_end else ()), self.server)

    @property
    def is_road_warrior(self) -> bool:
        """True if the tunnel joins client and router; False if it joins router and server."""
        return self.spec.topology == ROAD_WARRIOR

    @property
    def client_address(self) -> str:
        """The client's address of the traffic."""
        return self.traffic_ends(IpVersion.IPV4)[0]

    @property
    def clients_of_traffic(self) -> str:
        """The address of the client, or the network of the clients' addresses if the router may have several."""
        return self.addresses.inside_network if self.is_road_warrior else self.client_address

    def traffic_ends(self, version: IpVersion) -> tuple[str, str]:
        """Return the two addresses of the traffic: the client's, and the target on the server."""
        a = self.addresses
        if version is IpVersion.IPV6:
            return (a.client_inside6 if self.is_road_warrior else a.client_lan6), a.target6
        return (a.client_inside if self.is_road_warrior else a.client_lan), a.target

    @property
    def tunnel_cable(self) -> tuple[Host, str]:
        """The router's neighbour on the cable that carries the tunnel, and the neighbour's device on it."""
        return (self.client, self.lan_device) if self.is_road_warrior else (self.far_host, self.wan_device)

    @abstractmethod
    def set_up(self) -> None:
        """Make the testbed's hosts and links; after an error, `take_down` removes them, too."""

    @abstractmethod
    def take_down(self) -> None:
        """Remove the hosts and links that `set_up` made; a second call has no effect."""

    @abstractmethod
    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Set up a tunnel's device so that each frame holds one packet, as on Ethernet (rule 1)."""

    def let_testers_merge(self, wanted: bool, *, has_tunnel: bool) -> None:  # noqa: B027 # most testbeds cannot
        """Let the testers' devices merge packets that have arrived at a tester, on the tester's own CPUs, or not.

        A tester that ends the tunnel (`has_tunnel`) merges none. No effect on a testbed that cannot do this.
        """

    @property
    def merging(self) -> str:
        """Sentence on the testers' devices that merge packets at the moment, or why none can; empty: none is to."""
        return ""

    def late_offloads(self) -> Mapping[str, Sequence[str]]:
        """Return the offloads that are on although this testbed switched them off, by `DEVICE on the HOST`."""
        return {}

    def misplaced(self, daemons: Sequence[Daemon], testers: Sequence[Daemon] = ()) -> Sequence[str]:
        """Return a sentence for each kind of work of a host, of the router's `daemons`, or of the testers' programs,
        that may run on the CPU of another host.

        Starts no process, so that it can be called during a trial.
        """
        return ()

    def router_packets(self) -> tuple[int, int] | None:
        """Return how many packets the router's CPUs have processed, and how many have arrived at the router's devices.

        Both count from a start of their own. None: the router's CPUs are its own, and process no other packets.
        """
        return None

    def altered(self) -> Sequence[str]:
        """Return sentences on queues, packet filters and rules of routing that this testbed has not made."""
        return ()

    def watched(self) -> AbstractContextManager[Callable[[], Sequence[str]]]:
        """Watch the path's set-up while the block runs; the function returns sentences on what has changed so far."""
        return nullcontext(lambda: ())

    def awake(self) -> AbstractContextManager[None]:
        """Keep this machine's CPUs from sleeping while the block runs, if the testbed's figures need that."""
        return nullcontext()

    def late_rules(self) -> int:
        """Return the number of lines of packet filter rules in a router that this testbed has made."""
        return 0

    def own_firewall(self) -> str:
        """Return the kind of a firewall that the router has without this run; empty: it has none."""
        return ""

    def far_firewall(self) -> str:
        """Return the kind of a firewall that a far end behind SSH has without this run; empty: it has none."""
        return ""

    def prepare_for(self, conditions: Collection[Conditions]) -> None:  # noqa: B027 # most testbeds have one way to be
        """Learn the conditions of all tunnels of a plan before `set_up`. Raises CannotHere if they cannot be had."""

    def use_router_cpus(self, count: int, undo: ExitStack) -> None:
        """Give the router so many CPUs until `undo` closes. Raises TunnelUnavailable if that cannot be."""
        if count != 1:
            raise TunnelUnavailable(FIXED_CPUS)

    def use_line(self, name: LineName | None, undo: ExitStack) -> None:
        """Make the cable of the tunnel a line until `undo` closes. Raises TunnelUnavailable if it cannot be one."""
        if name is not None:
            raise TunnelUnavailable(NO_LINES)

    def use_bridge(self, router_device: str, far_device: str, undo: ExitStack) -> None:
        """Join the router's LAN and a tunnel by a bridge until `undo` closes; client and far end exchange frames then.

        `router_device` and `far_device` are the tunnel's devices at the router and at the far end. Raises
        TunnelUnavailable if that cannot be.
        """
        raise TunnelUnavailable(f"bridged cannot be had: {NO_BRIDGE}")

    @property
    def link(self) -> Link:
        """The link of the testbed file, with the rates of the line that the cable of the tunnel is."""
        line, link = self.line, self.spec.link
        return replace(link, rate_in_mbps=line.rate_in_mbps, rate_out_mbps=line.rate_out_mbps) if line else link

    def link_burst_bytes(self, rate_mbps: float) -> int:
        """Return the bytes that a cable of this rate carries at once after a pause, in addition to its rate."""
        return 0

    @abstractmethod
    def back_to_back(self) -> AbstractContextManager[BackToBack]:
        """Join the testers directly while the block runs, for their calibration (rule 6).

        Raises CannotHere if the testers cannot be joined.
        """

    def look(self) -> Mapping[str, Any]:
        """Examine the testbed's hosts without a change; returns the facts of them that are stored with the run."""
        return {}

    def try_out(self) -> str:
        """Make a short trial of the testbed, which is up, and return its result as a sentence for the user; empty: this
        kind of testbed has no such trial."""
        return ""

    def hold(self, seconds: float) -> None:  # noqa: B027 # most testbeds have no lease
        """Extend the lease of each leased host, so that it lasts for at least `seconds`."""

    def recover(self) -> str:
        """Wait for a host that was lost, with a limit, and set the testbed up on it again.

        Returns a sentence about what was done to the host for that; empty: nothing. Raises CannotHere if the host does
        not come back.
        """
        return ""  # most testbeds have no host that could be lost

    def __enter__(self) -> Self:
        try:
            self.set_up()
        except BaseException:
            with undisturbed:
                self.take_down()
            raise
        return self

    @undisturbed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, KeptForDebugging):
            self.take_down()
