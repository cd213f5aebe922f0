"""What the path's counters say before and after a trial."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tunnelbench.host.procfs import DeviceCounters, parse_net_dev, parse_snmp
from tunnelbench.host.host import Host
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import PathCounters
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel.base import Outer

TABLE = "tunnelbench"
ETHERNET_HEADER_BYTES = 14


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


def install_outer_counters(testbed: Testbed, outer: Outer) -> None:
    """Count on the server what the WAN carries: the tunnel's packets, and everything else that is IP.

    The server counts, not the router: it must not pay for it. Counted before defragmentation (priority -450), where a
    later fragment has no port and counts as its protocol's.
    """
    server, device, target = testbed.server, testbed.wan_device, testbed.addresses.target
    if outer.protocol == "plain":
        matches = [f"ip saddr {target}", f"ip daddr {target}"]
    else:
        fragment = f"meta l4proto {outer.protocol} ip frag-off & 0x1fff != 0"
        matches = [f"{outer.protocol} dport {outer.port}", f"{outer.protocol} sport {outer.port}", fragment]
    rules = "\n".join(f"{match} counter name expected accept" for match in matches)
    ruleset = f"""
        table ip {TABLE}
        delete table ip {TABLE}
        table ip {TABLE} {{
            counter expected {{}}
            counter other {{}}
            chain arriving {{
                type filter hook prerouting priority -450
                iifname != "{device}" accept
                {rules}
                counter name other
            }}
            chain leaving {{
                type filter hook postrouting priority 300
                oifname != "{device}" accept
                {rules}
                counter name other
            }}
        }}
    """
    server.run(["nft", "-f", "-"], stdin=ruleset)


def read_path(testbed: Testbed) -> Snapshot:
    """All counters of the path."""
    listed = testbed.server.run(["nft", "--json", "list", "counters", "table", "ip", TABLE]).stdout
    outer = {
        entry["counter"]["name"]: (int(entry["counter"]["packets"]), int(entry["counter"]["bytes"]))
        for entry in json.loads(listed)["nftables"]
        if "counter" in entry
    }
    return Snapshot(_read(testbed.client), _read(testbed.router), _read(testbed.server), outer)


def _read(host: Host) -> HostCounters:
    text = host.read("/proc/net/dev", "/proc/net/snmp")
    devices, mark, statistics = text.partition("Ip: ")
    return HostCounters(parse_net_dev(devices), parse_snmp(mark + statistics))


def path_counters(
    before: Snapshot, after: Snapshot, direction: Direction, lan_device: str, server_device: str, pings_answered: int
) -> PathCounters:
    """What changed on the path, as counts of one trial.

    Packets are counted where they arrive: on the client's LAN device and on the server's tunnel device (its WAN device
    where there is no tunnel). Answers to the pings that accompany the trial arrive on the client's too and are taken
    off.
    """
    at_client = _change(before.client, after.client, lan_device)
    at_server = _change(before.server, after.server, server_device)
    ping_frame_bytes = ETHERNET_HEADER_BYTES + 20 + 8 + 56
    client_packets = at_client.rx_packets - pings_answered
    client_bytes = at_client.rx_bytes - pings_answered * ping_frame_bytes
    if direction is Direction.IN:
        data_packets, data_bytes, ack_packets = client_packets, client_bytes, at_server.rx_packets
    else:
        data_packets, data_bytes, ack_packets = at_server.rx_packets, at_server.rx_bytes, client_packets

    def snmp(name: str, *hosts: str) -> int:
        return sum(
            getattr(after, host).snmp.get(name, 0) - getattr(before, host).snmp.get(name, 0) for host in hosts
        )

    def outer(name: str) -> tuple[int, int]:
        (packets_after, bytes_after), (packets_before, bytes_before) = after.outer[name], before.outer[name]
        return packets_after - packets_before, bytes_after - bytes_before

    expected_packets, expected_bytes = outer("expected")
    other_packets, other_bytes = outer("other")
    return PathCounters(
        data_packets=data_packets,
        data_bytes=data_bytes,
        ack_packets=ack_packets,
        forwarded_packets=snmp("Ip.ForwDatagrams", "router"),
        outer_expected_packets=expected_packets,
        outer_expected_bytes=expected_bytes,
        outer_other_packets=other_packets,
        outer_other_bytes=other_bytes,
        fragments_created=snmp("Ip.FragCreates", "router", "server"),
        reassembled=snmp("Ip.ReasmOKs", "router", "server"),
        dropped_packets=sum(
            _dropped(getattr(before, host), getattr(after, host)) for host in ("client", "router", "server")
        ),
    )


def _change(before: HostCounters, after: HostCounters, device: str) -> DeviceCounters:
    earlier, later = before.devices[device], after.devices[device]
    return DeviceCounters(*(getattr(later, name) - getattr(earlier, name) for name in DeviceCounters.__annotations__))


def _dropped(before: HostCounters, after: HostCounters) -> int:
    changes = [_change(before, after, device) for device in after.devices if device in before.devices]
    return sum(change.rx_dropped + change.tx_dropped for change in changes)
