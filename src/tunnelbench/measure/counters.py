"""What the path's counters say before and after a trial."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tunnelbench.host.host import Host
from tunnelbench.host.procfs import DeviceCounters, parse_net_dev, parse_snmp
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, IP_PROTOCOLS
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import PathCounters
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.tunnel.base import Outer, Tunnel

TABLE = "tunnelbench"


@dataclass(frozen=True)
class HostCounters:
    """One host's devices and IP statistics."""

    devices: dict[str, DeviceCounters]
    snmp: dict[str, int]


@dataclass(frozen=True)
class Snapshot:
    """The path at one moment."""

    client: HostCounters
    router: HostCounters
    server: HostCounters
    outer: dict[str, tuple[int, int]]
    """`expected` and `other`: packets, bytes (IP) on the WAN, both directions."""
    far: HostCounters | None = None
    """The tunnel's far end, where it is a machine of its own."""


def install_outer_counters(testbed: Testbed, outer: Outer) -> None:
    """Count at the far end what the WAN carries: the tunnel's packets, and everything else that is IP.

    The far end counts, not the router: it must not pay for it; of a road warrior's tunnel, on the LAN, the client, all
    but the pings to the router, which go beside the tunnel. Counted before defragmentation (priority -450), where a
    later fragment has no port and counts as its protocol's. Those that leave are seen before IPsec changes them, too,
    and then not counted.
    """
    (tester, device), target = testbed.tunnel_cable, testbed.addresses.target
    if outer.protocol == "plain":
        matches = [f"ip saddr {target}", f"ip daddr {target}"]
    else:
        version = f"meta nfproto ipv{outer.ip_version}"
        if outer.port is None:
            matches = [f"{version} meta l4proto {IP_PROTOCOLS[outer.protocol]}"]
        else:
            offset = "ip frag-off & 0x1fff" if outer.ip_version == 4 else "frag frag-off"
            fragment = f"meta l4proto {outer.protocol} {offset} != 0"
            wanted = f"{outer.port}-{outer.port + outer.ports - 1}"
            ports = [f"{version} {outer.protocol} {way} {wanted}" for way in ("dport", "sport")]
            matches = [*ports, fragment]
    pinged = testbed.addresses.router_lan
    rules = "\n".join(f"{match} counter name expected accept" for match in matches)
    ruleset = f"""
        table inet {TABLE}
        delete table inet {TABLE}
        table inet {TABLE} {{
            counter expected {{}}
            counter other {{}}
            chain arriving {{
                type filter hook prerouting priority -450
                iifname != "{device}" accept
                icmp type echo-reply ip saddr {pinged} accept
                {rules}
                counter name other
            }}
            chain leaving {{
                type filter hook postrouting priority 300
                oifname != "{device}" accept
                rt ipsec exists accept
                icmp type echo-request ip daddr {pinged} accept
                {rules}
                counter name other
            }}
        }}
    """
    tester.run(["nft", "-f", "-"], stdin=ruleset)


def read_path(testbed: Testbed) -> Snapshot:
    """All counters of the path."""
    tester, _ = testbed.tunnel_cable
    listed = tester.run(["nft", "--json", "list", "counters", "table", "inet", TABLE]).stdout
    outer = {
        entry["counter"]["name"]: (int(entry["counter"]["packets"]), int(entry["counter"]["bytes"]))
        for entry in json.loads(listed)["nftables"]
        if "counter" in entry
    }
    far = read_host(testbed.far_host) if testbed.has_own_far_end else None
    return Snapshot(read_host(testbed.client), read_host(testbed.router), read_host(testbed.server), outer, far)


def read_host(host: Host) -> HostCounters:
    """One host's devices and IP statistics, as they are now."""
    text = host.read("/proc/net/dev", "/proc/net/snmp")
    devices, mark, statistics = text.partition("Ip: ")
    return HostCounters(parse_net_dev(devices), parse_snmp(mark + statistics))


@dataclass(frozen=True)
class Arrivals:
    """Packets that have arrived at both ends since the machine's start, the answers to pings left out.

    They are counted where they arrive: on the client's LAN device and on the server's tunnel device (its WAN device
    where there is no tunnel, its only one where the tunnel ends before it).
    """

    data_packets: int
    data_bytes: int
    """Ethernet header included where the device has one, FCS not."""
    ack_packets: int

    def __sub__(self, earlier: Arrivals) -> Arrivals:
        return Arrivals(
            self.data_packets - earlier.data_packets,
            self.data_bytes - earlier.data_bytes,
            self.ack_packets - earlier.ack_packets,
        )


def arrivals(client: HostCounters, server: HostCounters, place: Place) -> Arrivals:
    """What has arrived where the data go to, and where they come from.

    Raises TrialFailed where a device has gone, as a tunnel's goes with its daemon.
    """
    at_client, at_server = _arrived(client, place.client_devices), _arrived(server, place.server_devices)
    answers = client.snmp["Icmp.InEchoReps"] if place.has_pings else 0
    client_packets = at_client[0] - answers
    client_bytes = at_client[1] - answers * PING_FRAME_BYTES
    if place.direction is Direction.IN:
        return Arrivals(client_packets, client_bytes, at_server[0])
    return Arrivals(*at_server, client_packets)


def _arrived(host: HostCounters, devices: Sequence[str]) -> tuple[int, int]:
    """Packets and bytes that have arrived at all of some devices."""
    for device in devices:
        if device not in host.devices:
            raise TrialFailed(f"the device {device} has gone")
    found = [host.devices[device] for device in devices]
    return sum(each.rx_packets for each in found), sum(each.rx_bytes for each in found)


def data_shares(before: Snapshot, after: Snapshot, place: Place) -> dict[str, int]:
    """Packets in the direction of the data, by the device at the tunnel's far end that they took."""
    is_client = len(place.client_devices) > 1
    is_arrival = (place.direction is Direction.IN) == is_client

    def count(snapshot: Snapshot, device: str) -> int:
        host = snapshot.client if is_client else snapshot.far or snapshot.server
        counters = host.devices[device]
        return counters.rx_packets if is_arrival else counters.tx_packets

    devices = place.client_devices if is_client else place.far_devices or place.server_devices
    return {device: count(after, device) - count(before, device) for device in devices}


@dataclass(frozen=True)
class Place:
    """Where a trial's packets are counted."""

    direction: Direction
    client_devices: tuple[str, ...]
    server_devices: tuple[str, ...]
    """Several where a tunnel has several."""
    wan_device: str
    """The far end's; with `is_lan` the client's."""
    is_lan: bool = False
    """Whether the tunnel's packets are counted on the LAN."""
    has_pings: bool = True
    """Whether the answers of the router to the client arrive among the data."""
    far_devices: tuple[str, ...] = ()
    """The tunnel's, where its far end is a machine of its own."""


def place_of(testbed: Testbed, tunnel: Tunnel[Any], direction: Direction) -> Place:
    """Where the packets of a trial through a tunnel are counted."""
    lan, wan = testbed.lan_device, testbed.wan_device
    devices = tunnel.devices_at(tunnel.far_end)
    if testbed.is_road_warrior:
        return Place(direction, devices, (wan,), lan, is_lan=True, has_pings=lan in devices)
    if testbed.has_own_far_end:
        return Place(direction, (lan,), (testbed.server_device,), wan, far_devices=devices)
    return Place(direction, (lan,), devices, wan)


def direct_place(link: BackToBack, direction: Direction) -> Place:
    """Where the packets of a calibration are counted: the pings to the router go beside that link."""
    device = link.server_device
    return Place(direction, (link.client_device,), (device,), device, has_pings=False)


PING_FRAME_BYTES = ETHERNET_HEADER_BYTES + 20 + 8 + 56
"""The pings that accompany a trial: IPv4, ICMP and ping's usual payload."""


def read_arrivals(testbed: Testbed, place: Place) -> Arrivals:
    """What has arrived up to now, both ends read at once."""
    return arrivals(read_host(testbed.client), read_host(testbed.server), place)


def path_counters(before: Snapshot, after: Snapshot, place: Place) -> PathCounters:
    """What changed on the path, as counts of one trial."""

    def outer(name: str) -> tuple[int, int]:
        (packets_after, bytes_after), (packets_before, bytes_before) = after.outer[name], before.outer[name]
        return packets_after - packets_before, bytes_after - bytes_before

    ends = ((before.client, before.server), (after.client, after.server))
    direct = direct_counters(*ends, place, (before.far, after.far) if before.far and after.far else None)
    expected_packets, expected_bytes = outer("expected")
    other_packets, other_bytes = outer("other")
    return replace(
        direct,
        forwarded_packets=_snmp("Ip.ForwDatagrams", before.router, after.router),
        outer_expected_packets=expected_packets,
        outer_expected_bytes=expected_bytes,
        outer_other_packets=other_packets,
        outer_other_bytes=other_bytes,
        fragments_created=direct.fragments_created + _snmp("Ip.FragCreates", before.router, after.router),
        reassembled=direct.reassembled + _snmp("Ip.ReasmOKs", before.router, after.router),
        dropped_packets=direct.dropped_packets + _dropped(before.router, after.router),
    )


def outer_counters(before: Snapshot, after: Snapshot) -> PathCounters:
    """What changed on the WAN alone: the devices of a tunnel that was brought up anew count from zero again."""
    changes = {
        name: (after.outer[name][0] - before.outer[name][0], after.outer[name][1] - before.outer[name][1])
        for name in ("expected", "other")
    }
    return PathCounters(0, 0, 0, 0, *changes["expected"], *changes["other"], changes["expected"][0], 0, 0, 0)


def direct_counters(
    before: tuple[HostCounters, HostCounters],
    after: tuple[HostCounters, HostCounters],
    place: Place,
    far: tuple[HostCounters, HostCounters] | None = None,
) -> PathCounters:
    """As `path_counters`, from the readings of client and server alone: nothing is forwarded, and there is no WAN.

    `far`: those of the tunnel's far end, where it is a machine of its own.
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
        fragments_created=sum(_snmp("Ip.FragCreates", *each) for each in beyond),
        reassembled=sum(_snmp("Ip.ReasmOKs", *each) for each in beyond),
        dropped_packets=sum(_dropped(*each) for each in ((client_before, client_after), *beyond)),
    )


def _snmp(name: str, before: HostCounters, after: HostCounters) -> int:
    return after.snmp[name] - before.snmp[name]


def _frames(host: HostCounters, device: str) -> int:
    counters = host.devices[device]
    return counters.rx_packets + counters.tx_packets


def _dropped(before: HostCounters, after: HostCounters) -> int:
    nothing = DeviceCounters(0, 0, 0, 0, 0, 0)
    changes = [(before.devices.get(name, nothing), later) for name, later in after.devices.items()]
    return sum(
        later.rx_dropped + later.tx_dropped - earlier.rx_dropped - earlier.tx_dropped for earlier, later in changes
    )
