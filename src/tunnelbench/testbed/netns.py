"""Testbed `netns`: client, router and server as network namespaces of this machine, joined by veth pairs.

The router's share of the work runs on a CPU of its own: packets that arrive at its devices are steered there (RPS) and
its programs are bound to it. Everything else, the far end of the tunnel and the cables included, runs on the others.

    client(lan) --- (lan)router(wan) --- (wan)server          the link as fast as the machine
    client(lan) --- cable --- (lan)router(wan) --- cable --- (wan)server      a link with a rate or a delay

A cable is a namespace with a bridge and a shaper each way, so that shaping costs the router nothing.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.host.host import Host, LocalHost, NamespaceHost
from tunnelbench.host.procfs import parse_cpu_list
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec
from tunnelbench.testbed.base import BackToBack, Testbed

PREFIX = "tb-"
"""Every namespace of ours is called tb-MARK-ROLE, MARK being the end of the run's id."""

ROLES = ("client", "router", "server", "cable-lan", "cable-wan", "scratch")

LAST_PROCESS_LIMIT_S = 2.0
"""How long processes that were killed have to vanish."""

MERGING_OFFLOADS = {
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
}
"""What makes one frame out of several packets, on any device, as ethtool calls it (rule 1)."""

ETHERNET_OVERHEAD_BYTES = 24
"""What a frame costs on a cable beyond what a veth counts: FCS 4, preamble 8, gap 12 (IEEE 802.3)."""

ETHERNET_MINIMUM_BYTES = 84
"""The smallest frame, 64 bytes, with preamble and gap."""

SYSCTLS_EVERYWHERE = {
    # Without IPv6 in use, its neighbour discovery would only be noise on the WAN's counters.
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1",
    # Tunnels are routed one way and measured both ways: a strict check of the return path is not under test.
    "/proc/sys/net/ipv4/conf/all/rp_filter": "0",
    "/proc/sys/net/ipv4/conf/default/rp_filter": "0",
    # What TCP learnt in one trial (ssthresh, RTT) must not shape the next.
    "/proc/sys/net/ipv4/tcp_no_metrics_save": "1",
}


class NetnsTestbed(Testbed):
    """Three network namespaces on one machine."""

    kind = "netns"
    topologies: ClassVar[tuple[str, ...]] = (ROUTER_SERVER, ROAD_WARRIOR)

    client: NamespaceHost
    router: NamespaceHost
    server: NamespaceHost

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        router_cpu, tester_cpus, self.notes = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        self.local = LocalHost("local", self._host_folder("local"), tester_cpus)
        self.client = self._host("client", tester_cpus)
        self.router = self._host("router", (router_cpu,))
        self.server = self._host("server", tester_cpus)
        self._hosts: list[NamespaceHost] = [self.client, self.router, self.server]

    def _host_folder(self, role: str) -> Path:
        return self.folder / role

    def _host(self, role: str, cpus: Sequence[int]) -> NamespaceHost:
        return NamespaceHost(role, self._host_folder(role), cpus, namespace_name(self.mark, role))

    def set_up(self) -> None:
        if os.geteuid() != 0:
            raise CannotHere("network namespaces need root", "run it again as root, or with sudo")
        link = self.spec.link
        cables: list[NamespaceHost] = []
        if link.needs_cable:
            cables = [self._host("cable-lan", self.client.cpus), self._host("cable-wan", self.client.cpus)]
            self._hosts += cables
        self.local.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for host in self._hosts:
            host.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            run_command(["ip", "netns", "add", host.namespace])
            for path, value in SYSCTLS_EVERYWHERE.items():
                self._set_sysctl_if_there(host, path, value)
            host.ip("link", "set", "lo", "up")
            host.drop_anchor()
        if cables:
            self._connect(self.client, self.lan_device, cables[0], "near")
            self._connect(cables[0], "far", self.router, self.lan_device)
            self._connect(self.router, self.wan_device, cables[1], "near")
            self._connect(cables[1], "far", self.server, self.wan_device)
            for cable in cables:
                self._join(cable)
        else:
            self._connect(self.client, self.lan_device, self.router, self.lan_device)
            self._connect(self.router, self.wan_device, self.server, self.wan_device)
        self._address()

    def _set_sysctl_if_there(self, host: NamespaceHost, path: str, value: str) -> None:
        """A kernel without IPv6 has none of its settings, which is as good as switched off."""
        if Path(path).exists():
            host.set_kernel_file(path, value)

    def _connect(self, left: NamespaceHost, left_device: str, right: NamespaceHost, right_device: str) -> None:
        """A veth pair whose both ends are made inside their namespaces: the machine's own never sees it."""
        # fmt: off
        left.ip("link", "add", left_device, "type", "veth",
                "peer", "name", right_device, "netns", right.namespace)
        # fmt: on
        for host, device in ((left, left_device), (right, right_device)):
            self._set_offloads_off(host, device)
            if host in (self.client, self.server):
                # The tester pays for its checksums, not the router's tun device (rule 2).
                host.run(["ethtool", "-K", device, "tx", "off"])
            self._steer(host, device)
            host.ip("link", "set", device, "mtu", str(self.spec.link.mtu_bytes), "up")

    def _set_offloads_off(self, host: Host, device: str) -> None:
        """Switch off what merges packets, and make sure that it is off."""
        if merging := self._active_offloads(host, device):
            words = [word for name in merging for word in (name, "off")]
            host.run(["ethtool", "-K", device, *words], check=False)
        if left_on := self._active_offloads(host, device):
            raise CannotHere(f"{device} on the {host.name} keeps {', '.join(left_on)} on, which merges packets")

    def _active_offloads(self, host: Host, device: str) -> list[str]:
        (features,) = json.loads(host.run(["ethtool", "--json", "-k", device]).stdout)
        return [name for name in MERGING_OFFLOADS if features.get(name, {}).get("active")]

    def _steer(self, host: Host, device: str) -> None:
        """Packets that arrive at the device are processed on the host's CPUs (Documentation/networking/scaling.rst)."""
        mask = format(sum(1 << cpu for cpu in host.cpus), "x")
        # Groups of 32 bits, the highest first, are how the kernel reads and prints it.
        groups = [mask[max(0, end - 8) : end] for end in range(len(mask), 0, -8)]
        host.set_kernel_file(f"/sys/class/net/{device}/queues/rx-0/rps_cpus", ",".join(reversed(groups)))

    def _join(self, cable: NamespaceHost) -> None:
        """Bridge the two ends of a cable, and shape what leaves it each way."""
        link = self.spec.link
        cable.ip_batch(
            "link add bridge type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set bridge mtu {link.mtu_bytes} up",
            "link set near master bridge",
            "link set far master bridge",
        )
        self._shape(cable, "far", link.rate_out_mbps)
        self._shape(cable, "near", link.rate_in_mbps)

    def _shape(self, cable: NamespaceHost, device: str, rate_mbps: float | None) -> None:
        # fmt: off
        if rate_mbps is not None:
            rate_bps = round(rate_mbps * 1e6)
            # One timer tick's worth at high rates; two frames at low ones, so that pacing is Ethernet's.
            burst_bytes = max(3100, round(rate_bps / 8 * 250e-6))
            cable.run(["tc", "qdisc", "add", "dev", device, "root", "handle", "1:",
                       "stab", "overhead", str(ETHERNET_OVERHEAD_BYTES), "mpu", str(ETHERNET_MINIMUM_BYTES),
                       "tbf", "rate", f"{rate_bps}bit", "burst", str(burst_bytes), "latency", "50ms"])
        if self.spec.link.delay_ms > 0:
            parent = ["parent", "1:"] if rate_mbps is not None else ["root"]
            try:
                cable.run(["tc", "qdisc", "add", "dev", device, *parent,
                           "netem", "delay", f"{self.spec.link.delay_ms}ms", "limit", "100000"])
            except CommandFailed:
                raise CannotHere(
                    f"this kernel cannot delay packets (no sch_netem), and testbed {self.spec.name} asks for "
                    f"link.delay_ms = {self.spec.link.delay_ms:g}",
                    "run with --set link.delay_ms=0, or on a kernel that has sch_netem",
                ) from None
        # fmt: on

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
        self.server.ip_batch(
            f"addr add {a.server_wan}/24 dev {self.wan_device}",
            f"addr add {a.target}/32 dev lo",
        )
        if self.is_road_warrior:  # the way between router and server, which is no tunnel's then
            self.client.ip("addr", "add", f"{a.client_inside}/32", "dev", "lo")
            self.router.ip("route", "add", a.target, "via", a.server_wan)
            self.server.ip("route", "add", a.client_inside, "via", a.router_wan)
        self.router.set_kernel_file("/proc/sys/net/ipv4/ip_forward", "1")

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        self._set_offloads_off(host, device)
        self._steer(host, device)

    @contextmanager
    def back_to_back(self) -> Iterator[BackToBack]:
        link = BackToBack("198.18.5.1", "198.18.5.2", "direct", "direct")
        self._connect(self.client, link.client_device, self.server, link.server_device)
        try:
            self.client.ip("addr", "add", f"{link.client_address}/24", "dev", link.client_device)
            self.server.ip("addr", "add", f"{link.server_address}/24", "dev", link.server_device)
            yield link
        finally:
            self.client.run(["ip", "link", "del", link.client_device], check=False)  # its peer goes with it

    def take_down(self) -> None:
        for host in self._hosts:
            host.weigh_anchor()
            remove_namespace(host.namespace)


def namespace_name(mark: str, role: str) -> str:
    """The name of the namespace that plays a role in the run with that mark."""
    return f"{PREFIX}{mark}-{role}"


def left_namespaces(mark: str) -> list[str]:
    """Which of a run's namespaces exist."""
    ours = {namespace_name(mark, role) for role in ROLES}
    listed = json.loads(run_command(["ip", "-j", "netns", "list"]).stdout or "[]")
    return sorted(ours & {entry["name"] for entry in listed})


def remove_namespace(name: str) -> list[int]:
    """End every process in a namespace and remove it, with all devices in it; returns the processes' numbers.

    Does no harm where there is no such namespace.
    """
    listed = run_command(["ip", "netns", "pids", name], check=False)
    if listed.returncode != 0:
        return []
    pids = [int(pid) for pid in listed.stdout.split()]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Deleting only unlinks the name: the devices go when the last process has left.
    deadline = time.monotonic() + LAST_PROCESS_LIMIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.005)
    run_command(["ip", "netns", "del", name], check=False)
    return pids


def share_cpus(available: Sequence[int], router_cpu: int | None) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
    """Who gets which CPU: the router's, the testers', and what a reader must know of it.

    The router gets the last CPU unless the testbed names one: interrupts and housekeeping favour the first.
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


def core_of(cpu: int) -> set[int]:
    """The CPUs that are threads of the same core, itself included; itself alone where the kernel does not tell."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return {cpu}
    return parse_cpu_list(text)


ENOUGH_TESTER_CPUS = 3
"""One each for the client, the server and the tunnel's far end."""
