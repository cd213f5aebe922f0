"""Testbed `netns`: client, router and server are network namespaces of this machine, joined by veth pairs.

The router has a CPU of its own: packets that arrive at its devices are steered to that CPU (RPS), and its programs are
bound to it. Everything else, the far end of the tunnel and the cables included, runs on the other CPUs.

    client(lan) --- (lan)router(wan) --- (wan)server          a link without a rate
    client(lan) --- cable --- (lan)router(wan) --- cable --- (wan)server      a link with a rate or a delay
    client(lan) --- (lan)router(wan) --- (wan)gateway(far) --- (far)server    a pair of gateways

A cable is a namespace with a bridge and a shaper for each direction, so that shaping costs the router nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from tunnelbench.host.bpf import devices_with_programs
from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.parsing import UnexpectedOutput
from tunnelbench.host.procfs import (
    allowed_cpus,
    parse_cpu_list,
    parse_cpu_mask,
    parse_net_dev,
    parse_softnet,
    with_children,
)
from tunnelbench.host.setup_watch import SetupWatch, UntilChanged
from tunnelbench.model.conditions import Conditions
from tunnelbench.model.errors import CannotHere, TunnelUnavailable
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, ETHERNET_MINIMUM_BYTES, ETHERNET_OVERHEAD_BYTES
from tunnelbench.model.lines import LINES, Line, LineName
from tunnelbench.model.testbed import GATEWAY_PAIR, ROUTER_SERVER, KindSettings, TestbedSpec
from tunnelbench.model.text import counted
from tunnelbench.testbed import offloads
from tunnelbench.testbed.base import IP_FORWARD, NO_BRIDGE_TO_LAN, BackToBack, Testbed
from tunnelbench.testbed.merging import TESTER_OFFLOADS, THREADED_FILE, CannotMerge, MergingDevice, merge
from tunnelbench.testbed.nftables_filter import SEEN_TABLE, other_rules

UNCOUNTED_BYTES = ETHERNET_OVERHEAD_BYTES - ETHERNET_HEADER_BYTES
"""Bytes that a frame takes on a cable in addition to those that a veth counts: FCS 4, preamble 8, gap 12 (IEEE
802.3)."""

RPS_FILE = "/sys/class/net/{}/queues/rx-0/rps_cpus"
"""Mask of the CPUs that process packets that arrive at a device (Documentation/networking/scaling.rst)."""

FLOW_FILE = "/sys/class/net/{}/queues/rx-0/rps_flow_cnt"
"""Number of flows of a device that the kernel steers to the CPU of their program instead (RFS); 0 unless set."""

USUAL_QUEUES = ("noqueue", "pfifo_fast", "fq_codel", "mq")
"""Kinds of queues that the kernel gives to devices by itself. None of them has a rate."""

KERNEL_HANDLE = "0:"
"""Handle of the queues that the kernel makes by itself; one that somebody makes has a number (tc(8))."""

LEGACY_TABLES_FILES = ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names", "/proc/net/arp_tables_names")
"""Names of the tables of a namespace that iptables-legacy and similar programs have made, about which the kernel sends
no messages and of which nft knows nothing; missing if the kernel has no such tables."""

USUAL_RULES = (
    "0: from all lookup local",
    "220: from all lookup 220",
    "32766: from all lookup main",
    "32767: from all lookup default",
)
"""Rules of routing that the kernel and charon of strongSwan make."""

OWN_TABLES = ("table inet tunnelbench", f"table ip {SEEN_TABLE}")
"""Starts of the lines in which nftables lists the tables of a run, which count packets and close ports."""

SIZE_TABLE = ["stab", "overhead", str(UNCOUNTED_BYTES), "mpu", str(ETHERNET_MINIMUM_BYTES)]
"""Words of tc-stab(8) that let a shaper count the bytes of a frame on Ethernet."""

ROUTER_BRIDGE = "bridge"
"""Device of the router that joins its LAN and a tunnel."""

BRIDGE_FILTER_FILES = tuple(
    f"/proc/sys/net/bridge/bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables")
)
"""Files that let a bridge pass its frames through the rules for packets. A kernel has them where the module
br_netfilter is loaded, for Docker for example; each network namespace has its own values, and begins with 1."""

FEWEST_TESTER_CPUS = 2
"""Number of tester CPUs without which a router with several CPUs is not measured: the testers would be the limit."""

ENOUGH_TESTER_CPUS = 3
"""Number of tester CPUs that is enough: one each for the client, the server and the tunnel's far end."""


class NetnsTestbed(Testbed):
    """Three network namespaces on one machine."""

    kind = "netns"
    can_stay_up = True
    veths = ("lan", "wan", "far")
    settings = KindSettings({"router_cpu": (), "kernel": (), "topology": (), "link": ()}, has_soaks=True)

    client: NamespaceHost
    router: NamespaceHost
    server: NamespaceHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        router_cpu, tester_cpus, self.notes = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        self.local = LocalHost("local", folder / "local", tester_cpus)
        self.client = self._namespace_host("client", tester_cpus)
        self.router = self._namespace_host("router", (router_cpu,))
        self.server = self._namespace_host("server", tester_cpus)
        self._has_lines = False
        """True if a plan has lines, so that the cables must be of the kind that can be shaped."""
        self._router_cpus: tuple[int, ...] = (router_cpu,)
        """CPUs that no other host uses; the router has the first one, or all."""
        self._without_offloads: dict[tuple[str, str], None] = {}
        """Device and host name of each device whose offloads were switched off, in that order."""
        self.cables: list[NamespaceHost] = []
        self.far: NamespaceHost | None = None
        """The gateway at the far end of the tunnel; None: the server is the far end."""
        if spec.topology == GATEWAY_PAIR:
            self._add_gateway(tester_cpus)
        self._hosts: list[NamespaceHost] = [self.client, self.router, self.server]
        self._cable_queues: list[list[str]] = []
        """Queues of each cable as this testbed has made them."""
        self._merging: dict[tuple[str, str], MergingDevice] = {}
        """Devices of testers that merge packets at the moment, by host name and device."""
        self._setup = UntilChanged()
        """Readings of the set-up of the hosts' networks."""
        self._cannot_merge = ""
        """Reason why the testers can merge no packets; empty: they can, as far as is known."""
        self._direct: BackToBack | None = None
        """The link that joins the testers at the moment, without the router."""

    def _add_gateway(self, tester_cpus: tuple[int, ...]) -> None:
        """Make the far end a gateway of its own; it takes a CPU from the testers if they have several."""
        far_cpus = tester_cpus
        if len(tester_cpus) > 1:
            *others, last = tester_cpus
            far_cpus = (last,)
            for host in (self.local, self.client, self.server):
                host.cpus = tuple(others)
        else:
            self.notes += ("the gateway at the far end shares the testers' CPU, so its own CPU time is unknown",)
        self.far = self._namespace_host("gateway", far_cpus)

    @property
    def far_host(self) -> NamespaceHost:
        return self.far or self.server

    def prepare_for(self, conditions: Collection[Conditions]) -> None:
        self._has_lines = any(each.line for each in conditions)
        more = max((each.cpus for each in conditions), default=1) - 1
        if more:
            testers = self.client.cpus
            available = len({*self._router_cpus, *testers, *self.far_host.cpus})
            if too_few := too_few_cpus(more + 1, available, self.spec.topology):
                raise CannotHere(too_few)
            self._router_cpus += testers[-more:]
            for host in (self.local, self.client, self.server):
                host.cpus = testers[:-more]

    def use_router_cpus(self, count: int, undo: ExitStack) -> None:
        if count > len(self._router_cpus):
            raise TunnelUnavailable("this testbed was set up with one CPU for the router")
        undo.callback(self._give_router, 1)
        self._give_router(count)

    def _give_router(self, count: int) -> None:
        if self._router_cpus[:count] == self.router.cpus:
            return
        self.router.cpus = self._router_cpus[:count]
        for device in (self.lan_device, self.wan_device):
            self._steer(self.router, device)

    def set_up(self) -> None:
        if os.geteuid() != 0:
            raise CannotHere("network namespaces need root", "run it again as root, or with sudo")
        link = self.spec.link
        if self.far:
            self._hosts.append(self.far)
        self.cables = cables = list[NamespaceHost]()
        if link.needs_cable or self._has_lines:
            self.cables = cables = [
                self._namespace_host("cable-lan", self.client.cpus),
                self._namespace_host("cable-wan", self.client.cpus),
            ]
            self._hosts += cables
        self.local.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for host in self._hosts:
            host.create()
        self._setup = UntilChanged([host.namespace for host in self._hosts])
        near, far = self.cable_devices
        if cables:
            self._connect(self.client, self.lan_device, cables[0], near)
            self._connect(cables[0], far, self.router, self.lan_device)
            self._connect(self.router, self.wan_device, cables[1], near)
            self._connect(cables[1], far, self.far_host, self.wan_device)
            for cable in cables:
                self._join(cable)
            self._cable_queues = [self._queues_of(cable) for cable in cables]
        else:
            self._connect(self.client, self.lan_device, self.router, self.lan_device)
            self._connect(self.router, self.wan_device, self.far_host, self.wan_device)
        if self.far:
            self._connect(self.far, self.server_device, self.server, self.server_device)
        self._address()

    def let_testers_merge(self, wanted: bool, *, has_tunnel: bool) -> None:
        ends = self._ends_of_traffic if wanted and not self._cannot_merge else []
        if has_tunnel:  # a tester that ends the tunnel would merge packets before the rules there count them
            ends = [end for end in ends if end[0] is not self.tunnel_cable[0]]
        merging = {(host.name, device): host for host, device in ends}
        for key in [key for key in self._merging if key not in merging]:
            ended = self._merging.pop(key)
            ended.stop()
            self._steer(ended.host, ended.device)
        for key in [key for key in merging if key not in self._merging]:
            host, device = merging[key], key[1]
            try:
                self._merging[key] = merge(host, device)
            except CannotMerge as error:
                self._cannot_merge = str(error)
                return
            host.set_kernel_file(RPS_FILE.format(device), "0")

    @property
    def merging(self) -> str:
        if self._merging:
            where = [f"{each.device} on the {each.host.name} ({_cpus(each.cpus)})" for each in self._merging.values()]
            return f"packets were merged after they had arrived, on {' and '.join(where)}"
        return self._cannot_merge and f"the testers received each packet by itself: {self._cannot_merge}"

    @property
    def _ends_of_traffic(self) -> list[tuple[NamespaceHost, str]]:
        """The testers, each with the device that receives the measured traffic."""
        if self._direct:
            return [(self.client, self._direct.client_device), (self.server, self._direct.server_device)]
        return [(self.client, self.lan_device), (self.server, self.server_device if self.far else self.wan_device)]

    def _connect(self, left: NamespaceHost, left_device: str, right: NamespaceHost, right_device: str) -> None:
        """Make a veth pair with each end inside its namespace: the machine's own network never has it."""
        # fmt: off
        left.ip("link", "add", left_device, "type", "veth",
                "peer", "name", right_device, "netns", right.namespace)
        # fmt: on
        for host, device in ((left, left_device), (right, right_device)):
            self._set_offloads_off(host, device)
            if host in (self.client, self.server):
                # The tester computes its checksums, and not the router's tun device (rule 2).
                host.run(["ethtool", "-K", device, "tx", "off"])
            self._steer(host, device)
            host.ip("link", "set", device, "mtu", str(self.spec.link.mtu_bytes), "up")

    def _set_offloads_off(self, host: Host, device: str) -> None:
        """Switch off the offloads that merge packets. Raises CannotHere if one stays on."""
        self._without_offloads[device, host.name] = None
        if merging := offloads.merging(host, device):
            words = [word for name in merging for word in (name, "off")]
            host.run(["ethtool", "-K", device, *words], check=False)
        if left_on := offloads.merging(host, device):
            raise CannotHere(f"{device} on the {host.name} keeps {', '.join(left_on)} on, which merges packets")

    def _steer(self, host: Host, device: str) -> None:
        """Let only the host's own CPUs process packets that arrive at a device (RPS)."""
        mask = format(sum(1 << cpu for cpu in host.cpus), "x")
        # The kernel reads and prints the mask as groups of 32 bits, the highest first.
        groups = [mask[max(0, end - 8) : end] for end in range(len(mask), 0, -8)]
        host.set_kernel_file(RPS_FILE.format(device), ",".join(reversed(groups)))

    def _join(self, cable: NamespaceHost) -> None:
        """Bridge the two ends of a cable, and shape the traffic that leaves each of them."""
        link = self.spec.link
        cable.ip_batch(
            "link add bridge type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set bridge mtu {link.mtu_bytes} up",
            *(f"link set {device} master bridge" for device in self.cable_devices),
        )
        self._shape_both(cable)

    def _shape_both(self, cable: NamespaceHost) -> None:
        near, far = self.cable_devices
        self._shape(cable, far, self.spec.link.rate_out_mbps)
        self._shape(cable, near, self.spec.link.rate_in_mbps)

    def use_line(self, name: LineName | None, undo: ExitStack) -> None:
        if name is None:
            return
        if not self.cables:
            raise TunnelUnavailable("this testbed was set up without cables that can be shaped")
        number = 0 if self.is_road_warrior else 1
        cable, line = self.cables[number], LINES[name]
        near, far = self.cable_devices
        undo.callback(self._end_line, number, self._cable_queues[number])
        self._unshape(cable)
        ways = ((far, line.rate_out_mbps), (near, line.rate_in_mbps))
        has_netem = {self._make_line(cable, device, rate_mbps, line) for device, rate_mbps in ways} == {True}
        self._cable_queues[number] = self._queues_of(cable)
        self.line, self.line_lacks = line, "" if has_netem else f"this kernel has no sch_netem: without {line.path}"

    def _end_line(self, number: int, queues: list[str]) -> None:
        """Give a cable its usual shape again, with these queues."""
        self.line, self.line_lacks, self._cable_queues[number] = None, "", queues
        self._unshape(self.cables[number])
        self._shape_both(self.cables[number])

    def use_bridge(self, router_device: str, far_device: str, undo: ExitStack) -> None:
        if self.is_road_warrior:
            raise TunnelUnavailable(f"bridged cannot be had: {NO_BRIDGE_TO_LAN}")
        a, lan = self.addresses, self.lan_device
        ways = (
            (self.client, [a.target, "via", a.server_inner, "dev", lan, "onlink"]),
            (self.far_host, [a.client_lan, "dev", far_device]),
        )
        # The router's address gets another hardware address, and loses it again.
        undo.callback(self.client.run, ["ip", "neigh", "flush", "dev", lan], check=False)
        undo.callback(self.router.run, ["ip", "addr", "replace", f"{a.router_lan}/24", "dev", lan], check=False)
        undo.callback(self.router.run, ["ip", "link", "del", ROUTER_BRIDGE], check=False)
        self.router.ip_batch(
            f"link add {ROUTER_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            *(f"link set {device} master {ROUTER_BRIDGE}" for device in (lan, router_device)),
            f"addr del {a.router_lan}/24 dev {lan}",
            f"addr add {a.router_lan}/24 dev {ROUTER_BRIDGE}",
            f"link set {ROUTER_BRIDGE} up",
        )
        for path in BRIDGE_FILTER_FILES:
            if self.router.has_path(path):
                self.router.set_kernel_file(path, "0")
        self.client.run(["ip", "neigh", "flush", "dev", lan])
        for host, way in ways:
            host.ip("route", "add", *way)
            undo.callback(host.run, ["ip", "route", "del", *way], check=False)

    def _unshape(self, cable: NamespaceHost) -> None:
        for device in self.cable_devices:
            cable.run(["tc", "qdisc", "del", "dev", device, "root"], check=False)  # a cable without a rate has none

    def _make_line(self, cable: NamespaceHost, device: str, rate_mbps: float, line: Line) -> bool:
        """Shape one way of a line; return False if the kernel can give it no delay and no loss.

        The delay comes before the rate, whose queue then has the usual 50 ms and does not grow with the delay.
        """
        if not line.needs_netem:
            self._shape(cable, device, rate_mbps)
            return True
        # fmt: off
        delayed = cable.run(["tc", "qdisc", "add", "dev", device, "root", "handle", "2:", *SIZE_TABLE, "netem",
                             "delay", f"{line.delay_ms:g}ms", "loss", f"{line.loss_percent:g}%",
                             "limit", "100000"], check=False)
        # fmt: on
        has_netem = delayed.returncode == 0
        self._limit_rate(cable, device, rate_mbps, ["parent", "2:1"] if has_netem else ["root"])
        return has_netem

    def link_burst_bytes(self, rate_mbps: float) -> int:
        # The bytes of one timer tick at high rates; two frames at low rates, to pace packets as Ethernet does. A frame
        # that is longer than the burst is dropped.
        return max(2 * (self.spec.link.mtu_bytes + 50), round(rate_mbps * 1e6 / 8 * 250e-6))

    def _limit_rate(self, cable: NamespaceHost, device: str, rate_mbps: float, parent: Sequence[str]) -> None:
        rate_bps = round(rate_mbps * 1e6)
        table = SIZE_TABLE if parent == ["root"] else []  # the kernel takes it at the root only
        # fmt: off
        cable.run(["tc", "qdisc", "add", "dev", device, *parent, "handle", "1:", *table,
                   "tbf", "rate", f"{rate_bps}bit", "burst", str(self.link_burst_bytes(rate_mbps)), "latency", "50ms"])
        # fmt: on

    def _shape(self, cable: NamespaceHost, device: str, rate_mbps: float | None) -> None:
        if rate_mbps is not None:
            self._limit_rate(cable, device, rate_mbps, ["root"])
        if self.spec.link.delay_ms > 0:
            parent = ["parent", "1:"] if rate_mbps is not None else ["root"]
            delay = ["netem", "delay", f"{self.spec.link.delay_ms}ms", "limit", "100000"]
            try:
                cable.run(["tc", "qdisc", "add", "dev", device, *parent, *delay])
            except CommandFailed:
                raise CannotHere(
                    f"this kernel cannot delay packets (no sch_netem), and testbed {self.spec.name} asks for "
                    f"link.delay_ms = {self.spec.link.delay_ms:g}",
                    "run with --set link.delay_ms=0, or on a kernel that has sch_netem",
                ) from None

    def _address(self) -> None:
        a = self.addresses
        self.client.ip_batch(
            f"addr add {a.client_lan}/24 dev {self.lan_device}",
            f"route add default via {a.router_lan}",
        )
        self.router.ip_batch(
            f"addr add {a.router_lan}/24 dev {self.lan_device}",
            f"addr add {a.router_wan}/24 dev {self.wan_device}",
        )
        self.far_host.ip("addr", "add", f"{a.server_wan}/24", "dev", self.wan_device)
        self.server.ip("addr", "add", f"{a.target}/32", "dev", "lo")
        if self.far:
            self.far.ip("addr", "add", f"{a.far_lan}/24", "dev", self.server_device)
            self.far.ip("route", "add", a.target, "via", a.server_far)
            self.server.ip("addr", "add", f"{a.server_far}/24", "dev", self.server_device)
            self.server.ip("route", "add", a.lan_network, "via", a.far_lan)
            self.far.set_kernel_file(IP_FORWARD, "1")
        if self.is_road_warrior:  # no tunnel joins router and server then
            self.client.ip("addr", "add", f"{a.client_inside}/32", "dev", "lo")
            self.router.ip("route", "add", a.target, "via", a.server_wan)
            self.server.ip("route", "add", a.inside_network, "via", a.router_wan)
        self.router.set_kernel_file(IP_FORWARD, "1")

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        self._set_offloads_off(host, device)
        self._steer(host, device)

    def late_offloads(self) -> Mapping[str, Sequence[str]]:
        return self._setup.read(self._late_offloads)

    def _late_offloads(self) -> Mapping[str, Sequence[str]]:
        testers = (self.client, self.server)
        cables = (self.lan_device, self.wan_device, self.server_device)
        found = {}
        for host in self._namespaces:
            for device in self._prepared_devices(host):
                left_on = offloads.late(host, device, with_checksums=host in testers and device in cables)
                if (host.name, device) in self._merging:
                    left_on = [name for name in left_on if name not in TESTER_OFFLOADS]
                if left_on:
                    found[f"{device} on the {host.name}"] = left_on
        return found

    @property
    def _namespaces(self) -> list[NamespaceHost]:
        """The hosts that the traffic passes, without the cables."""
        return [self.client, self.router, *([self.far] if self.far else []), self.server]

    def _prepared_devices(self, host: NamespaceHost) -> list[str]:
        """Return the devices of a host whose offloads were switched off; not those of tunnels that are down again."""
        present = parse_net_dev(host.read("/proc/net/dev"))
        return [device for device, name in self._without_offloads if name == host.name and device in present]

    def misplaced(self, daemons: Sequence[Daemon], testers: Sequence[Daemon] = ()) -> Sequence[str]:
        found = []
        for host in self._namespaces:
            for device in self._prepared_devices(host):
                try:
                    steered = set(parse_cpu_mask(host.read(RPS_FILE.format(device))))
                except FileNotFoundError:  # the device has gone since
                    continue
                merging = self._merging.get((host.name, device))
                # A kernel that isolates CPUs leaves them out of the mask. Without any CPU, packets are not steered.
                if (not steered and not merging) or steered - set(host.cpus):
                    where = f"steered to {_cpus(steered - set(host.cpus))}" if steered else "not steered to its CPUs"
                    found.append(f"packets of {device} on the {host.name} are {where}")
                by_thread = "merged on the CPU of their sender" if merging else "processed by a thread"
                for file, usual, means in (
                    (FLOW_FILE, 0, "steered by flow (RFS)"),
                    (THREADED_FILE, int(merging is not None), by_thread),
                ):
                    with suppress(OSError, ValueError):  # the device has gone, or the kernel has no such file
                        if int(host.read(file.format(device))) != usual:
                            found.append(f"packets of {device} on the {host.name} are {means}")
                if merging and (others := merging.cpus - set(host.cpus)):
                    found.append(f"packets of {device} on the {host.name} may be processed on {_cpus(others)}")
        for own, where, cpus in (
            (daemons, "on the router", self.router.cpus),
            (testers, "of the testers", self.client.cpus),
        ):
            found += [
                f"{daemon.name} {where} may run on {_cpus(others)}"
                for daemon in own
                if (others := allowed_cpus(with_children(daemon.pid)) - set(cpus))
            ]
        return found

    def router_packets(self) -> tuple[int, int] | None:
        devices = parse_net_dev(self.router.read("/proc/net/dev")).values()
        arrived = sum(device.rx_packets for device in devices)
        try:
            return parse_softnet(Path("/proc/net/softnet_stat").read_text(), self.router.cpus), arrived
        except (OSError, UnexpectedOutput):  # a kernel whose file is not known
            return None

    def altered(self) -> Sequence[str]:
        found = [*self._setup.read(self._altered)]
        for host in self._namespaces:  # the kernel reports neither of these: legacy tables, BPF, packet sockets
            found += self._legacy_tables(host)
            found += [
                f"the kernel runs a BPF program for the packets of {device} on the {host.name}"
                for device in (*devices_with_programs(host.namespace), *self._devices_with_xdp(host))
            ]
            if taps := len(host.read("/proc/net/packet").splitlines()) - 1:
                found.append(f"on the {host.name}, {counted(taps, 'packet socket')} received copies of packets")
        return found

    def _altered(self) -> Sequence[str]:
        """Return those sentences of `altered` about which the kernel sends messages."""
        usual = {*USUAL_QUEUES, *_default_queue()}
        found = []
        for host in self._namespaces:
            queues = [line.split() for line in self._queues_of(host) if line.startswith("qdisc ")]
            found += [
                f"the {host.name} has a queue {queue[1]} that the testbed has not made: {' '.join(queue[:5])}"
                for queue in queues
                if queue[1] not in usual or queue[2] != KERNEL_HANDLE
            ]
        for cable, before in zip(self.cables, self._cable_queues, strict=True):
            if (now := self._queues_of(cable)) != before:
                found.append(f"the queues of {cable.name} have changed to: {', '.join(now)}")
        for tester in (self.client, self.server):
            tables = tester.run(["nft", "list", "tables"], check=False).stdout.splitlines()
            found += [
                f"the {tester.name} has a packet filter: {table}"
                for table in tables
                if not table.startswith(OWN_TABLES)
            ]
        for host in self._namespaces:
            if rules := [rule for rule in self._rules_of(host) if rule not in USUAL_RULES]:
                count = f" and {len(rules) - 1} more" if len(rules) > 1 else ""
                found.append(f"the {host.name} has a rule of routing that the testbed has not made: {rules[0]}{count}")
            if policies := foreign_policies(host.run(["ip", "xfrm", "policy"], check=False).stdout):
                count = f" and {len(policies) - 1} more" if len(policies) > 1 else ""
                found.append(f"the {host.name} has an IPsec policy without a tunnel: {policies[0]}{count}")
        return found

    @contextmanager
    def watched(self) -> Iterator[Callable[[], Sequence[str]]]:
        with ExitStack() as stack:
            watches = []
            for host in self._hosts:
                try:
                    watches.append((host, stack.enter_context(closing(SetupWatch(host.namespace)))))
                except OSError as error:
                    raise CannotHere(f"the network of the {host.name} cannot be watched: {error}") from None
            yield lambda: [
                f"changed on the {host.name} during the trial: {', '.join(changes)}"
                for host, watch in watches
                if (changes := watch.changes())
            ]

    def _legacy_tables(self, host: Host) -> list[str]:
        """Name the tables of iptables-legacy of a host. A router without nft has the filter of the plan in them."""
        if host is self.router and not host.has_program("nft"):
            return []
        found = []
        for file in LEGACY_TABLES_FILES:
            with suppress(FileNotFoundError):
                if tables := host.read(file).split():
                    found.append(f"the {host.name} has a packet filter of iptables-legacy: {', '.join(tables)}")
        return found

    @staticmethod
    def _queues_of(host: Host) -> list[str]:
        """Return the lines of `tc qdisc` of a host, such as `qdisc noqueue 0: dev wan root refcnt 2`."""
        return host.run(["tc", "qdisc", "show"], check=False).stdout.splitlines()

    @staticmethod
    def _devices_with_xdp(host: Host) -> list[str]:
        """Return the devices of a host whose driver gives each packet to a program of BPF (ip-link(8), xdp)."""
        lines = host.run(["ip", "-o", "link", "show"], check=False).stdout.splitlines()
        return [line.split(": ")[1].partition("@")[0] for line in lines if " xdp" in line.partition(" link/")[0]]

    @staticmethod
    def _rules_of(host: Host) -> list[str]:
        """Return the rules of routing of a host, such as `0: from all lookup local`."""
        lines = host.run(["ip", "rule", "show"], check=False).stdout.splitlines()
        return [" ".join(line.split()) for line in lines]

    def late_rules(self) -> int:
        return self._setup.read(self._late_rules)

    def _late_rules(self) -> int:
        return other_rules(self.router.run(["nft", "list", "ruleset"], check=False).stdout)

    @contextmanager
    def back_to_back(self) -> Iterator[BackToBack]:
        link = BackToBack("198.18.5.1", "198.18.5.2", "direct", "direct", is_veth=True)
        self._connect(self.client, link.client_device, self.server, link.server_device)
        try:
            self.client.ip("addr", "add", f"{link.client_address}/24", "dev", link.client_device)
            self.server.ip("addr", "add", f"{link.server_address}/24", "dev", link.server_device)
            self._direct = link
            yield link
        finally:
            self.let_testers_merge(False, has_tunnel=False)
            self._direct = None
            self.client.run(["ip", "link", "del", link.client_device], check=False)  # its peer goes with it

    def take_down(self) -> None:
        self._setup.close()
        with ExitStack() as stack:  # each host is closed, even if another one cannot be
            for host in reversed(self._hosts):
                stack.callback(host.close)


def foreign_policies(listed: str) -> list[str]:
    """Return the IPsec policies in the output of `ip xfrm policy` that belong to no tunnel, such as `src ... dst ...`.

    Policies of a tunnel have a template (`tmpl`), and those of charon's own sockets have no direction (`dir`). The
    kernel compares each packet with every policy, which costs CPU time.
    """
    policies: list[list[str]] = []
    for line in listed.splitlines():
        if not line.startswith("\t"):
            policies.append([])
        if policies:
            policies[-1].append(line.strip())
    return [
        policy[0]
        for policy in policies
        if any(line.startswith("dir ") for line in policy) and not any(line.startswith("tmpl ") for line in policy)
    ]


def _default_queue() -> list[str]:
    """Return the queue that the machine gives to new devices (net.core.default_qdisc); empty if it is unknown."""
    with suppress(OSError):
        return Path("/proc/sys/net/core/default_qdisc").read_text().split()
    return []


def _cpus(numbers: Iterable[int]) -> str:
    return f"CPU {', '.join(map(str, sorted(numbers)))}"


def share_cpus(available: Sequence[int], router_cpu: int | None) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
    """Return the router's CPU, the testers' CPUs, and notes on the limits of that split.

    The router gets the last CPU unless the testbed names one: interrupts and housekeeping favour the first. Raises
    CannotHere if the named CPU is not available.
    """
    if router_cpu is not None and router_cpu not in available:
        raise CannotHere(
            f"router_cpu = {router_cpu} is not a CPU that this process may use ({', '.join(map(str, available))})"
        )
    chosen = available[-1] if router_cpu is None else router_cpu
    testers = tuple(cpu for cpu in available if cpu != chosen)
    if not testers:
        shared = "one CPU only: router and testers share it, so the router's CPU figures include the testers' work"
        return chosen, (chosen,), (shared,)
    notes = []
    if siblings := sorted(core_of(chosen) & set(testers)):
        notes.append(
            f"CPU {chosen} of the router is one core with CPU {', '.join(map(str, siblings))} of the testers: "
            "each slows the other"
        )
    if len(testers) < ENOUGH_TESTER_CPUS:
        crowded = (
            f"{len(available)} CPUs: client, server and the tunnel's far end share {len(testers)} and are likely to be "
            "saturated before the router"
        )
        notes.append(crowded)
    return chosen, testers, tuple(notes)


def too_few_cpus(router: int, available: int, topology: str = ROUTER_SERVER) -> str:
    """Return the reason why a router cannot have so many CPUs; empty: it can. The testers need two of their own."""
    has_gateway = topology == GATEWAY_PAIR
    needed = router + FEWEST_TESTER_CPUS + has_gateway
    if available >= needed:
        return ""
    others = "two of them for the testers" + " and one for the gateway" * has_gateway
    return f"{router} CPUs of the router need {needed} CPUs, {others}; this machine has {available}"


def core_of(cpu: int) -> set[int]:
    """Return the CPUs that are threads of the same core, the CPU itself included; only itself if unknown."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return {cpu}
    return parse_cpu_list(text)
