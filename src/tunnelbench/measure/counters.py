"""The counters of the path before and after a trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tunnelbench.host.host import Host
from tunnelbench.host.parsing import UNREADABLE, count, json_of, parsing
from tunnelbench.host.procfs import DeviceCounters, parse_net_dev, parse_snmp, parse_snmp6
from tunnelbench.host.ssh import SshServer
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, IP_PROTOCOLS
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import Direction
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.tunnel.base import Outer, Tunnel, undone_unless_kept

TABLE = "tunnelbench"
GUARD_TABLE = "tunnelbench-guard"
"""Tables of nftables at the far end."""

NO_PACKETS = DeviceCounters(0, 0, 0, 0, 0, 0)

FORWARDED = ("Ip.ForwDatagrams", "Ip6.OutForwDatagrams")
FRAGMENTS_CREATED = ("Ip.FragCreates", "Ip6.FragCreates")
REASSEMBLED = ("Ip.ReasmOKs", "Ip6.ReasmOKs")
FRAGMENTS_ARRIVED = ("Ip.ReasmReqds", "Ip6.ReasmReqds")
PACKETS_CUT = ("Ip.FragOKs", "Ip6.FragOKs")
"""Counters of forwarded packets, of fragments, and of packets that were cut into fragments, of both IP versions."""

INNER_FRAGMENTS, OUTER_FRAGMENTS, OUTER_PACKETS_CUT = "inner_fragments", "outer_fragments", "outer_packets_cut"
COUNTERS = ("expected", "other", INNER_FRAGMENTS, OUTER_FRAGMENTS, OUTER_PACKETS_CUT)
"""Counters of the table TABLE. The last one counts the first fragment of each packet of the tunnel that was cut."""

IPV6_REFUSALS = ("Ip6.InHdrErrors", "Ip6.InAddrErrors", "Ip6.InDiscards", "Ip6.OutDiscards", "Ip6.OutNoRoutes")
"""Counters of IPv6 packets that IP did not forward."""

IPV6_STATISTICS = frozenset(
    (
        FORWARDED[1],
        FRAGMENTS_CREATED[1],
        REASSEMBLED[1],
        FRAGMENTS_ARRIVED[1],
        PACKETS_CUT[1],
        *IPV6_REFUSALS,
        "Udp6.RcvbufErrors",
    )
)
"""The counters of IPv6 that a reading keeps, of about a hundred."""


@dataclass(frozen=True)
class QueueCounters:
    """Counters of one queue (qdisc) of a device; a shaper is one, too."""

    dropped_packets: int = 0
    delayed: int = 0
    """Number of times that a packet had to wait for the queue's rate: `overlimits` of tc."""
    waiting_packets: int = 0


@dataclass(frozen=True)
class HostCounters:
    """One host's devices, IP statistics and, of the router only, queues."""

    devices: dict[str, DeviceCounters]
    snmp: dict[str, int]
    queues: Mapping[str, QueueCounters] = field(default_factory=dict)
    """Queues by kind, device and handle, such as `tbf on wan (1:)`."""


@dataclass(frozen=True)
class Snapshot:
    """All counters of the path, read at one moment."""

    client: HostCounters
    router: HostCounters
    server: HostCounters
    outer: dict[str, tuple[int, int]]
    """IP packets and bytes on the WAN in both directions: `expected` counts the tunnel's, `other` all other traffic.
    Fragments that arrived at the host which counts: on the tunnel's cable, and on other devices (COUNTERS)."""
    far: HostCounters | None = None
    """Counters of the tunnel's far end; None unless it is a separate machine."""
    link_dropped_packets: int = 0
    """Packets that the shapers of the testbed's own cables have dropped so far."""
    link_unsent_packets: int = 0
    """Frames that the devices of the testbed's own cables have dropped so far when they sent them."""


def install_outer_counters(testbed: Testbed, outer: Outer) -> None:
    """Install rules at the far end that count the tunnel's packets, and all other IP packets, on the WAN.

    The rules also count the fragments that arrive there, which is before they are put together, and the first fragment
    of each packet of the tunnel that was cut.

    The far end counts, so that counting costs the router no CPU time. A road warrior's tunnel is on the LAN: there the
    client counts, without the pings to the router, which do not go through the tunnel. The SSH connections that control
    the hosts do not count either. Arriving packets are counted before defragmentation (priority -450), where a later
    fragment has no port and is matched by its protocol alone. With IPsec, leaving packets pass the rules twice, before
    and after the encryption; the rules count them only after it.
    """
    tester, device = testbed.tunnel_cable
    if outer.protocol == "plain":
        family, version = ("ip", IpVersion.IPV4) if outer.ip_version == 4 else ("ip6", IpVersion.IPV6)
        target = testbed.traffic_ends(version)[1]
        matches = [f"{family} saddr {target}", f"{family} daddr {target}"]
    else:
        family = f"meta nfproto ipv{outer.ip_version}"
        if outer.port is None:
            matches = [f"{family} meta l4proto {IP_PROTOCOLS[outer.protocol]}"]
        else:
            offset = "ip frag-off & 0x1fff" if outer.ip_version == 4 else "frag frag-off"
            fragment = f"meta l4proto {outer.protocol} {offset} != 0"
            wanted = f"{outer.port}-{outer.port + outer.ports - 1}"
            ports = [f"{family} {outer.protocol} {way} {wanted}" for way in ("dport", "sport")]
            if outer.second_protocol:
                ports += [f"{family} {outer.second_protocol} {way} {outer.port}" for way in ("dport", "sport")]
            matches = [*ports, fragment]
    pinged = testbed.addresses.router_lan
    on_cable = INNER_FRAGMENTS if outer.protocol == "plain" else OUTER_FRAGMENTS
    rules = "\n".join(f"{match} counter name expected accept" for match in matches)
    cut = (
        ("ip frag-off & 0x3fff == 0x2000", "frag frag-off 0 frag more-fragments 1") if outer.protocol != "plain" else ()
    )
    first_fragments = "\n".join(f"{match} counter name {OUTER_PACKETS_CUT}" for match in cut)
    control = control_rules(testbed.control_connections)
    ruleset = f"""
        table inet {TABLE}
        delete table inet {TABLE}
        table inet {TABLE} {{
            counter expected {{}}
            counter other {{}}
            counter {INNER_FRAGMENTS} {{}}
            counter {OUTER_FRAGMENTS} {{}}
            counter {OUTER_PACKETS_CUT} {{}}
            chain arriving {{
                type filter hook prerouting priority -450
                iifname != "{device}" ip frag-off & 0x3fff != 0 counter name {INNER_FRAGMENTS}
                iifname != "{device}" exthdr frag exists counter name {INNER_FRAGMENTS}
                iifname != "{device}" accept
                ip frag-off & 0x3fff != 0 counter name {on_cable}
                exthdr frag exists counter name {on_cable}
                {first_fragments}
                icmp type echo-reply ip saddr {pinged} accept
                {rules}
                {control}
                counter name other
            }}
            chain leaving {{
                type filter hook postrouting priority 300
                oifname != "{device}" accept
                rt ipsec exists accept
                icmp type echo-request ip daddr {pinged} accept
                {rules}
                {control}
                counter name other
            }}
        }}
    """
    tester.run_undoable(["nft", "-f", "-"], ["nft", "delete", "table", "inet", TABLE], stdin=ruleset)


def control_rules(servers: Iterable[SshServer]) -> str:
    """Return the rules of nftables that leave out the packets from and to SSH servers."""
    families = {4: "ip", 6: "ip6"}
    return "\n".join(
        f"{families[each.address.version]} {way}addr {each.address} tcp {way}port {each.port} accept"
        for each in servers
        for way in ("s", "d")
    )


@contextmanager
def closed_ports(testbed: Testbed, tunnel: Tunnel[Any]) -> Iterator[None]:
    """Let only the router, and the far end itself, reach the ports of a tunnel's programs at the far end.

    Some programs listen on all addresses, and the far end may be a laptop that is in another network, too. A namespace
    is in no other network. The router gets no such rule, because it would cost the router CPU time for each packet.
    The rule is removed after the block, unless the tunnel has failed and stays up for a user to examine.
    """
    host, device = testbed.tunnel_cable
    if not tunnel.open_ports or host.namespace:
        yield
        return
    ruleset = f"""
        table inet {GUARD_TABLE}
        delete table inet {GUARD_TABLE}
        table inet {GUARD_TABLE} {{
            chain arriving {{
                type filter hook input priority -300
                iifname != {{ "{device}", "lo" }} udp dport {{ {", ".join(map(str, tunnel.open_ports))} }} drop
            }}
        }}
    """
    undo = ["nft", "delete", "table", "inet", GUARD_TABLE]
    host.run_undoable(["nft", "-f", "-"], undo, stdin=ruleset)
    with undone_unless_kept(tunnel.ends.keep) as stack:
        stack.callback(host.run, undo, check=False)
        yield


def read_path(testbed: Testbed) -> Snapshot:
    """Read all counters of the path."""
    tester, _ = testbed.tunnel_cable
    listed = tester.run(["nft", "--json", "list", "counters", "table", "inet", TABLE]).stdout
    outer = parse_outer(listed)
    far = _read_both_versions(testbed.far_host) if testbed.has_own_far_end else None
    router = replace(_read_both_versions(testbed.router), queues=read_queues(testbed.router))
    return Snapshot(
        _read_both_versions(testbed.client),
        router,
        _read_both_versions(testbed.server),
        outer,
        far,
        sum(queue.dropped_packets for cable in testbed.cables for queue in read_queues(cable).values()),
        sum(
            device.tx_dropped
            for cable in testbed.cables
            for name, device in read_host(cable).devices.items()
            if name in testbed.cable_devices
        ),
    )


@parsing("the counters of `nft --json`")
def parse_outer(listed: str) -> dict[str, tuple[int, int]]:
    """Return packets and bytes of the counters of TABLE."""
    counters = [entry["counter"] for entry in json_of(listed, dict)["nftables"] if "counter" in entry]
    by_name = {str(each["name"]): each for each in counters}
    return {name: (count(by_name[name]["packets"]), count(by_name[name]["bytes"])) for name in COUNTERS}


def _read_both_versions(host: Host) -> HostCounters:
    """Read one host's devices and its statistics of IPv4 and IPv6."""
    found = read_host(host)
    if not host.has_ipv6:
        return found
    ipv6 = parse_snmp6(host.read("/proc/net/snmp6"))
    return replace(found, snmp=found.snmp | {name: ipv6[name] for name in ipv6.keys() & IPV6_STATISTICS})


def read_host(host: Host) -> HostCounters:
    """Read one host's devices and its statistics of IPv4."""
    text = host.read("/proc/net/dev", "/proc/net/snmp", "/proc/net/netstat")
    devices, mark, statistics = text.partition("Ip: ")
    return HostCounters(parse_net_dev(devices), parse_snmp(mark + statistics))


def read_queues(host: Host) -> dict[str, QueueCounters]:
    """Read the queues of a host's devices; empty if the host has no `tc`, or one without JSON."""
    try:
        found = json_of(host.run(["tc", "-s", "-j", "qdisc", "show"], check=False).stdout, list)
        return {
            f"{entry['kind']} on {entry['dev']} ({entry['handle']})": QueueCounters(
                count(entry["drops"]), count(entry["overlimits"]), count(entry["qlen"])
            )
            for entry in found
        }
    except UNREADABLE:
        return {}


@dataclass(frozen=True)
class Arrivals:
    """Packets that have arrived at both ends since the machine's start, without the answers to pings.

    The client's LAN device and the server's tunnel device count them. Without a tunnel the server's WAN device counts.
    If the tunnel ends on a separate far end, the server's only device counts.
    """

    data_packets: int
    data_bytes: int
    """Bytes of the arrived packets: with the Ethernet header if the device has one, without FCS."""
    ack_packets: int

    def __sub__(self, earlier: Arrivals) -> Arrivals:
        return Arrivals(
            self.data_packets - earlier.data_packets,
            self.data_bytes - earlier.data_bytes,
            self.ack_packets - earlier.ack_packets,
        )


def arrivals(client: HostCounters, server: HostCounters, place: CountingPoints) -> Arrivals:
    """Return the packets and bytes that have arrived at the receiver and at the sender of the data.

    Raises TrialFailed if a device no longer exists, as when a tunnel's daemon has ended.
    """
    at_client, at_server = _arrived(client, place.client_devices), _arrived(server, place.server_devices)
    answers = _statistic(client, "Icmp.InEchoReps") if place.has_pings else 0
    client_packets = at_client[0] - answers
    client_bytes = at_client[1] - answers * PING_FRAME_BYTES
    if place.direction is Direction.IN:
        return Arrivals(client_packets, client_bytes, at_server[0])
    return Arrivals(*at_server, client_packets)


def _arrived(host: HostCounters, devices: Sequence[str]) -> tuple[int, int]:
    """Return the sum of packets and bytes that have arrived at some devices of a host."""
    found = [_device(host, device) for device in devices]
    return sum(each.rx_packets for each in found), sum(each.rx_bytes for each in found)


def data_shares(before: Snapshot, after: Snapshot, place: CountingPoints) -> dict[str, int]:
    """Return how many packets each tunnel device of the far end carried in the direction of the data."""
    is_client = len(place.client_devices) > 1
    is_arrival = (place.direction is Direction.IN) == is_client

    def count(snapshot: Snapshot, device: str) -> int:
        host = snapshot.client if is_client else snapshot.far or snapshot.server
        counters = _device(host, device)
        return counters.rx_packets if is_arrival else counters.tx_packets

    devices = place.client_devices if is_client else place.far_devices or place.server_devices
    return {device: count(after, device) - count(before, device) for device in devices}


@dataclass(frozen=True)
class CountingPoints:
    """The devices on which a trial's packets are counted."""

    direction: Direction
    client_devices: tuple[str, ...]
    server_devices: tuple[str, ...]
    """Tunnel devices at the server; parallel tunnels have several."""
    wan_device: str
    """WAN device of the far end; if `is_lan`, the client's LAN device."""
    is_lan: bool = False
    """True if the tunnel's packets are counted on the LAN."""
    has_pings: bool = True
    """True if the router's answers to the client's pings arrive among the data."""
    far_devices: tuple[str, ...] = ()
    """Tunnel devices of the far end; empty unless the far end is a separate machine."""
    veths: Collection[str] = ()
    """Devices that are ends of veth pairs, as in `Testbed.veths`."""
    bridge_port: str = ""
    """The tunnel's device at the router, if a bridge joins it with the LAN; the router then routes no packets."""
    has_tunnel: bool = True
    """False for plain forwarding: all fragments on the cable are then those of the traffic."""


def place_of(testbed: Testbed, tunnel: Tunnel[Any], direction: Direction) -> CountingPoints:
    """Return the devices that count the packets of a trial through a tunnel."""
    lan, wan = testbed.lan_device, testbed.wan_device
    devices, has_tunnel = tunnel.devices_at(tunnel.far_end), tunnel.outer.protocol != "plain"
    if testbed.is_road_warrior:
        has_pings = lan in devices
        return CountingPoints(
            direction,
            devices,
            (wan,),
            lan,
            is_lan=True,
            has_pings=has_pings,
            veths=testbed.veths,
            has_tunnel=has_tunnel,
        )
    server, far = ((testbed.server_device,), devices) if testbed.has_own_far_end else (devices, ())
    port = tunnel.device_at(tunnel.end_under_test) if tunnel.is_bridged else ""
    return CountingPoints(
        direction, (lan,), server, wan, far_devices=far, veths=testbed.veths, bridge_port=port, has_tunnel=has_tunnel
    )


def direct_place(link: BackToBack, direction: Direction) -> CountingPoints:
    """Return the devices that count the packets of a calibration. Its pings to the router use another link."""
    device = link.server_device
    veths = (link.client_device, device) if link.is_veth else ()
    return CountingPoints(direction, (link.client_device,), (device,), device, has_pings=False, veths=veths)


PING_FRAME_BYTES = ETHERNET_HEADER_BYTES + 20 + 8 + 56
"""Frame of a ping to the router [bytes]: IPv4, ICMP and the usual payload of ping."""


def read_arrivals(testbed: Testbed, place: CountingPoints) -> Arrivals:
    """Read the counters of arrived packets at both ends."""
    return arrivals(read_host(testbed.client), read_host(testbed.server), place)


def path_counters(before: Snapshot, after: Snapshot, place: CountingPoints) -> PathCounters:
    """Return the increase of all counters of the path between two readings."""

    ends = ((before.client, before.server), (after.client, after.server))
    direct = direct_counters(*ends, place, (before.far, after.far) if before.far and after.far else None)
    inner_fragments, outer_fragments = _fragments(before, after, place)
    return replace(
        direct,
        forwarded_packets=_forwarded(before.router, after.router, place.bridge_port),
        **_outer(before, after),
        inner_fragments=inner_fragments,
        outer_fragments=outer_fragments,
        fragments_created=direct.fragments_created + _on(FRAGMENTS_CREATED, before, after, "client", "router"),
        reassembled=direct.reassembled + _on(REASSEMBLED, before, after, "client", "router"),
        dropped_packets=direct.dropped_packets
        + dropped_packets(before.router, after.router, place.veths)
        + after.link_unsent_packets
        - before.link_unsent_packets,
    )


def _forwarded(before: HostCounters, after: HostCounters, bridge_port: str) -> int:
    """Return the packets that the router forwarded: by IP, or with a bridge those through its port that IP did not."""
    by_ip = _both(FORWARDED, before, after)
    return _frames(after, bridge_port) - _frames(before, bridge_port) - by_ip if bridge_port else by_ip


def _on(names: tuple[str, str], before: Snapshot, after: Snapshot, *hosts: str) -> int:
    """Return the increase of a counter of both IP versions, summed over some hosts of the path."""
    return sum(_both(names, getattr(before, host), getattr(after, host)) for host in hosts)


def _fragments(before: Snapshot, after: Snapshot, place: CountingPoints) -> tuple[int, int | None]:
    """Return the fragments that arrived inside the tunnel and outside; None: unknown.

    The host at the router's neighbour on the tunnel's cable counts by its rules, because it may get both kinds. Of the
    other hosts, only a router that tracks connections counts both kinds in its kernel.
    """
    inner, outer = (after.outer[name][0] - before.outer[name][0] for name in (INNER_FRAGMENTS, OUTER_FRAGMENTS))
    if after.far is not None:  # it forwards inner fragments, which the two testers count
        inner = _on(FRAGMENTS_ARRIVED, before, after, "client", "server")
    else:
        inner += _on(FRAGMENTS_ARRIVED, before, after, "server" if place.is_lan else "client")
    at_router = _outer_fragments_at_router(before, after, place)
    return inner, None if at_router is None else outer + at_router


def _outer_fragments_at_router(before: Snapshot, after: Snapshot, place: CountingPoints) -> int | None:
    """Return the fragments of the tunnel's packets that arrived at the router; None: unknown.

    A router that tracks connections puts the fragments of the traffic together, too. It cuts such a packet again when
    it forwards it, and the tester that gets it puts it together once more.
    """
    beyond = ("client",) if place.is_lan else ("server",) if after.far is None else ("server", "far")
    tester = "server" if place.is_lan else "client"
    found = _on(FRAGMENTS_ARRIVED, before, after, "router")
    if not place.has_tunnel or not _on(FRAGMENTS_CREATED, before, after, beyond[-1]):
        return 0
    is_traffic_whole = not any(_on(names, before, after, tester) for names in (FRAGMENTS_CREATED, FRAGMENTS_ARRIVED))
    cut_outside = after.outer[OUTER_PACKETS_CUT][0] - before.outer[OUTER_PACKETS_CUT][0]
    if is_traffic_whole or _on(PACKETS_CUT, before, after, "router") == cut_outside:
        return found
    # All that was cut on the other side of the router were then packets of the traffic, and none was the tunnel's.
    if _on(PACKETS_CUT, before, after, *beyond) == _on(REASSEMBLED, before, after, tester):
        return 0
    return None


def outer_counters(before: Snapshot, after: Snapshot) -> PathCounters:
    """Return the increase of the WAN's counters, with all other counters zero: a tunnel that came up again has new
    devices, whose counters began at zero."""
    nothing = PathCounters(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    outer = _outer(before, after)
    return replace(nothing, wan_packets=outer["outer_expected_packets"], **outer)


def _outer(before: Snapshot, after: Snapshot) -> dict[str, int]:
    """Return the fields of PathCounters that the far end's rules count."""
    return {
        f"outer_{name}_{unit}": after.outer[name][place] - before.outer[name][place]
        for name in ("expected", "other")
        for place, unit in enumerate(("packets", "bytes"))
    }


def direct_counters(
    before: tuple[HostCounters, HostCounters],
    after: tuple[HostCounters, HostCounters],
    place: CountingPoints,
    far: tuple[HostCounters, HostCounters] | None = None,
) -> PathCounters:
    """Return the counters of a calibration, from client and server alone: it has no router and no WAN.

    `far` has the readings of the tunnel's far end, where it is a machine of its own.
    """
    (client_before, server_before), (client_after, server_after) = before, after
    arrived = arrivals(client_after, server_after, place) - arrivals(client_before, server_before, place)
    if place.is_lan:
        cable_packets = _frames(client_after, place.wan_device) - _frames(client_before, place.wan_device)
        cable_packets -= 2 * _snmp("Icmp.InEchoReps", client_before, client_after)
    else:
        far_before, far_after = far or (server_before, server_after)
        cable_packets = _frames(far_after, place.wan_device) - _frames(far_before, place.wan_device)
    beyond = [(server_before, server_after), *([far] if far else [])]
    return PathCounters(
        data_packets=arrived.data_packets,
        data_bytes=arrived.data_bytes,
        ack_packets=arrived.ack_packets,
        forwarded_packets=0,
        outer_expected_packets=0,
        outer_expected_bytes=0,
        outer_other_packets=0,
        outer_other_bytes=0,
        wan_packets=cable_packets,
        fragments_created=sum(_both(FRAGMENTS_CREATED, *each) for each in beyond),
        reassembled=sum(_both(REASSEMBLED, *each) for each in beyond),
        dropped_packets=sum(dropped_packets(*each, place.veths) for each in ((client_before, client_after), *beyond)),
    )


def _snmp(name: str, before: HostCounters, after: HostCounters) -> int:
    return _statistic(after, name) - _statistic(before, name)


def _both(names: tuple[str, str], before: HostCounters, after: HostCounters) -> int:
    """Return the increase of a counter of IPv4 and of its equal of IPv6, which a kernel without IPv6 lacks."""
    ipv4, ipv6 = names
    return _snmp(ipv4, before, after) + after.snmp.get(ipv6, 0) - before.snmp.get(ipv6, 0)


def _statistic(host: HostCounters, name: str) -> int:
    if name not in host.snmp:
        raise TrialFailed(f"/proc/net/snmp has no counter {name}")
    return host.snmp[name]


def _device(host: HostCounters, device: str) -> DeviceCounters:
    if device not in host.devices:
        raise TrialFailed(f"the device {device} has gone")
    return host.devices[device]


def _frames(host: HostCounters, device: str) -> int:
    counters = _device(host, device)
    return counters.rx_packets + counters.tx_packets


def dropped_packets(before: HostCounters, after: HostCounters, veths: Collection[str]) -> int:
    """Return the packets that a host's devices dropped between two readings; a veth counts only those it did not send.

    A frame that a veth did not receive is counted at the other end, as not sent.
    """
    dropped = 0
    for name, later in after.devices.items():
        earlier = before.devices.get(name, NO_PACKETS)
        dropped += later.tx_dropped - earlier.tx_dropped
        if name not in veths:
            dropped += later.rx_dropped - earlier.rx_dropped
    return dropped
