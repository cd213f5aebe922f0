"""The balance of the path: packets that went into a section of it against those that came out. It does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunnelbench.measure.counters import (
    FRAGMENTS_ARRIVED,
    FRAGMENTS_CREATED,
    IPV6_REFUSALS,
    NO_PACKETS,
    OUTER_FRAGMENTS,
    OUTER_PACKETS_CUT,
    PACKETS_CUT,
    REASSEMBLED,
    CountingPoints,
    HostCounters,
    QueueCounters,
    Snapshot,
    dropped_packets,
)
from tunnelbench.model.plan import Direction
from tunnelbench.tunnel.base import Tunnel

REFUSALS = ("Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.InDiscards", "Ip.OutDiscards", "Ip.OutNoRoutes", *IPV6_REFUSALS)
"""Counters of packets that IP did not forward. With forwarding off, they are InAddrErrors (net/ipv4/route.c)."""

SOCKET_DROPS = ("Udp.RcvbufErrors", "Udp6.RcvbufErrors")

SEGMENTS = "Tcp.OutSegs"
"""Counter of the segments that a host sent over all its TCP connections, without retransmitted ones."""

DUPLICATES = ("TcpExt.TCPDSACKRecv", "TcpExt.TCPDSACKOfoRecv")
"""Counters of segments that a sender retransmitted although they had arrived: the receiver reports such a segment with
a duplicate SACK (RFC 2883)."""


@dataclass(frozen=True)
class TunnelDevices:
    """The tunnel's devices at both ends."""

    names: Collection[str] = ()
    have_queue: bool = True
    """True if a program or a worker takes the packets from a queue of the device. A device without a queue counts as
    dropped what another device, or a rule of a firewall, has dropped."""


def devices_of(tunnel: Tunnel[Any]) -> TunnelDevices:
    """Return the devices that a tunnel has made; plain forwarding has made none."""
    made = {device for end, _ in tunnel.ends for device in tunnel.devices_at(end) if device != end.wan_device}
    return TunnelDevices(made, have_queue=bool(tunnel.daemons) or tunnel.works_on_all_cpus)


@dataclass(frozen=True)
class PathBalance:
    """Packets at the ends of the path's sections, from just before the traffic to just after it."""

    offered_packets: int
    """Packets that client and server sent into the path, both directions."""
    router_in_packets: int
    router_out_packets: int
    """Frames that arrived at the router on LAN and WAN, and that left it there."""
    router_cable_packets: int
    """Frames on the tunnel's cable, both directions, as the router's device counts them."""
    neighbour_cable_packets: int
    """Frames on the tunnel's cable, both directions, as the device at the cable's other end counts them."""
    router_dropped_packets: int
    """Packets that the router's devices, queues and UDP sockets count as dropped."""
    router_refused_packets: int
    """Packets that the router's IP counts as not forwarded."""
    added_by_router_packets: int = 0
    """Packets that the router's IP made of forwarded ones by cutting them into fragments: all fragments but one of each
    packet. The fragments of the tunnel's own packets are not among them."""
    added_packets: int = 0
    """The same on the whole path, less the fragments that the router put together, as its connection tracking does."""
    counted_losses_packets: int = 0
    """Packets that devices and UDP sockets of all hosts, and the queues of router and link, count as dropped."""
    receiver_segments: int | None = None
    """TCP segments that the receiver of the data sent: its ACKs. None: unknown."""
    sender_packets: int | None = None
    """Packets that the data's sender sent into its cable, or dropped there; None if it sends into a tunnel's device,
    whose queue may drop packets without a counter."""
    duplicate_segments: int = 0
    """TCP segments that client and server retransmitted although the first ones had arrived."""
    queues: Mapping[str, QueueCounters] = field(default_factory=dict)
    """Queues of the router that delayed packets during the trial, or that dropped or still hold packets of LAN or WAN.

    A tunnel's device may drop packets while its program is busy. Waiting packets are those at the end."""


def path_balance(
    before: Snapshot,
    after: Snapshot,
    place: CountingPoints,
    router_lan_device: str,
    router_wan_device: str,
    *,
    tunnel: TunnelDevices,
) -> PathBalance:
    """Return the balance of the path between two readings."""
    cables = (router_lan_device, router_wan_device)
    arrived, left = _frames(before.router, after.router, cables)
    sent = _frames(before.router, after.router, cables[:1] if place.is_lan else cables[1:])
    neighbours = (before.client, after.client) if place.is_lan else _far(before, after)
    counted = _frames(*neighbours, (place.wan_device,))
    _, client_sent = _frames(before.client, after.client, place.client_devices)
    _, server_sent = _frames(before.server, after.server, place.server_devices)
    pings = _change(before.client, after.client, "Icmp.OutEchos") if place.has_pings else 0
    queues = _queues(before.router, after.router, cables)
    at_queues = sum(queue.dropped_packets for queue in queues.values())
    hosts = [(before.client, after.client), (before.server, after.server)]
    if before.far and after.far:
        hosts.append((before.far, after.far))
    receiver = (before.client, after.client) if place.direction is Direction.IN else (before.server, after.server)
    sender = (before.server, after.server) if place.direction is Direction.IN else (before.client, after.client)
    sending = place.server_devices if place.direction is Direction.IN else place.client_devices
    in_router = _counted(before.router, after.router, place.veths, tunnel)
    added_by_router = _cut(before.router, after.router) - _cut_from_tunnel(before, after)
    end = (before.client, after.client) if place.is_lan else _far(before, after)
    at_end = _cut(*end) - _joined(before.router, after.router)
    elsewhere = sum(_counted(*host, place.veths, tunnel) for host in hosts) + _link_drops(after) - _link_drops(before)
    return PathBalance(
        offered_packets=client_sent + server_sent - pings,
        router_in_packets=arrived,
        router_out_packets=left,
        router_cable_packets=sum(sent),
        neighbour_cable_packets=sum(counted),
        router_dropped_packets=in_router + at_queues,
        router_refused_packets=_change(before.router, after.router, *REFUSALS),
        added_by_router_packets=added_by_router,
        # A tester that ends the tunnel has cut its packets before the tunnel's device counts them as offered.
        added_packets=added_by_router + (at_end if after.far else min(0, at_end)),
        counted_losses_packets=in_router + at_queues + elsewhere,
        receiver_segments=_change(*receiver, SEGMENTS) if SEGMENTS in receiver[1].snmp else None,
        sender_packets=_left(*sender, sending) if {*sending} <= {*place.veths} else None,
        duplicate_segments=sum(_change(*host, *DUPLICATES) for host in hosts[:2]),
        queues=queues,
    )


def _cut(before: HostCounters, after: HostCounters) -> int:
    """Return how many packets a host has made of others by cutting them, inside the tunnel and outside."""
    return _change(before, after, *FRAGMENTS_CREATED) - _change(before, after, *PACKETS_CUT)


def _joined(before: HostCounters, after: HostCounters) -> int:
    """Return how many packets a host has spared by putting fragments together, inside the tunnel and outside."""
    return _change(before, after, *FRAGMENTS_ARRIVED) - _change(before, after, *REASSEMBLED)


def _cut_from_tunnel(before: Snapshot, after: Snapshot) -> int:
    """Return how many packets the router has made of the tunnel's own packets by cutting them, as they arrived."""
    fragments, packets = (after.outer[name][0] - before.outer[name][0] for name in (OUTER_FRAGMENTS, OUTER_PACKETS_CUT))
    return fragments - packets


def _far(before: Snapshot, after: Snapshot) -> tuple[HostCounters, HostCounters]:
    return before.far or before.server, after.far or after.server


def _link_drops(snapshot: Snapshot) -> int:
    return snapshot.link_dropped_packets + snapshot.link_unsent_packets


def _frames(before: HostCounters, after: HostCounters, devices: Sequence[str]) -> tuple[int, int]:
    """Return the frames that arrived at some devices, and that left them."""
    pairs = [(before.devices.get(name, NO_PACKETS), after.devices.get(name, NO_PACKETS)) for name in devices]
    return (
        sum(later.rx_packets - earlier.rx_packets for earlier, later in pairs),
        sum(later.tx_packets - earlier.tx_packets for earlier, later in pairs),
    )


def _left(before: HostCounters, after: HostCounters, devices: Collection[str]) -> int:
    """Return the packets that some devices sent, or dropped instead."""
    pairs = [(before.devices.get(name, NO_PACKETS), after.devices.get(name, NO_PACKETS)) for name in devices]
    return sum(
        later.tx_packets + later.tx_dropped - earlier.tx_packets - earlier.tx_dropped for earlier, later in pairs
    )


def _counted(before: HostCounters, after: HostCounters, veths: Collection[str], tunnel: TunnelDevices) -> int:
    """Return the packets that a host's devices and UDP sockets count as dropped, each of them once."""
    dropped = dropped_packets(before, after, veths) + _change(before, after, *SOCKET_DROPS)
    if not tunnel.have_queue:
        for name in tunnel.names:  # a host has only some of them
            later, earlier = after.devices.get(name, NO_PACKETS), before.devices.get(name, NO_PACKETS)
            dropped -= later.tx_dropped - earlier.tx_dropped
    return dropped


def _change(before: HostCounters, after: HostCounters, *names: str) -> int:
    return sum(after.snmp.get(name, 0) - before.snmp.get(name, 0) for name in names)


def _queues(before: HostCounters, after: HostCounters, cables: Sequence[str]) -> dict[str, QueueCounters]:
    changes = {}
    for name, later in after.queues.items():
        earlier = before.queues.get(name, QueueCounters())
        change = QueueCounters(
            later.dropped_packets - earlier.dropped_packets, later.delayed - earlier.delayed, later.waiting_packets
        )
        is_of_cable = any(f" on {device} " in name for device in cables)
        if change.delayed or (is_of_cable and change != QueueCounters()):
            changes[name] = change
    return changes
