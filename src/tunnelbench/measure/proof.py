"""The proof of a tunnel, before anything is timed (rule 3).

(a) it answers pings; (b) only the expected outer packets carry the data; (c) a known pattern can be read in them when
there is no cipher, and cannot otherwise; (d) cipher and digest in use are those asked for, and the outer length agrees
with them to the byte; (e) both ends route through the tunnel's device.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.host.host import Host
from tunnelbench.measure.capture import Packet, capture_ip
from tunnelbench.measure.counters import read_host
from tunnelbench.measure.tcp_trial import warm_up
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.plan import TcpTraffic
from tunnelbench.model.result import Check, TunnelProof, Verdict
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import ping
from tunnelbench.tunnel.base import End, Outer, Tunnel

ANSWER_TIMEOUT_S = 10.0
"""For the first answer through a tunnel that says that it is up."""

SETTLE_TIMEOUT_S = 3.0
"""So long may the pattern take the wrong way after a tunnel says that it has settled."""

FEWEST_ATTEMPTS = 3
"""On a machine so slow that one of them takes all of that time, a ping is lost easily."""

ICMP_HEADER_BYTES = 8
PATTERN_PAYLOADS_BYTES = (211, 600)
"""Two sizes: a wrong header and a wrong padding both show."""
PINGS_PER_SIZE = 3


def prove(testbed: Testbed, tunnel: Tunnel[Any], reach: Check) -> TunnelProof:
    """Evidence for or against a tunnel that is up, answers and has settled; `reach` is what `prove_reach` found."""
    checks = [reach, *_prove_routes(testbed, tunnel), *_prove_packets(testbed, tunnel), *tunnel.negotiated()]
    checks += _prove_sharing(testbed, tunnel)
    versions: dict[str, str] = {}
    for end, _ in tunnel.ends:
        versions |= {f"{end.host.name}.{name}": version for name, version in tunnel.versions(end).items()}
    return TunnelProof(
        checks=tuple(checks),
        versions=versions,
        configuration=dict(tunnel.configuration),
        inner_mtu_bytes=_device_mtu_bytes(tunnel.ends.router, tunnel),
        raw={
            f"{end.host.name}.{daemon.log_path.name}": daemon.output(LOG_KEPT_BYTES)
            for end, daemons in (
                (tunnel.ends.router, tunnel.router_daemons),
                (tunnel.ends.server, tunnel.server_daemons),
            )
            for daemon in daemons
        },
    )


LOG_KEPT_BYTES = 20_000


def prove_reach(testbed: Testbed) -> Check:
    """(a). Raises TunnelRefused where nothing answers."""
    target = testbed.addresses.target
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = ping.parse(testbed.client.run(ping.command(target, count=1), check=False).stdout)
        if answer.answered:
            return Check("reach", Verdict.OK, f"{target} answers in {answer.worst_ms:g} ms", rule=3)
    raise TunnelRefused(f"it came up and carries nothing: no ping was answered through it in {ANSWER_TIMEOUT_S:g} s")


def _prove_routes(testbed: Testbed, tunnel: Tunnel[Any]) -> list[Check]:
    """(e)"""
    ways = ((tunnel.ends.router, testbed.addresses.target), (tunnel.ends.server, testbed.client_address))
    checks = []
    for end, destination in ways:
        found = _route_device(end.host, destination)
        expected = tunnel.devices_at(end)
        verdict = Verdict.OK if found in expected else Verdict.VOID
        reason = f"{end.host.name} routes {destination} through {found}, expected {' or '.join(expected)}"
        checks.append(Check(f"route-{end.host.name}", verdict, reason, rule=3))
    return checks


def _route_device(host: Host, destination: str) -> str:
    # As text, for BusyBox's `ip` knows no JSON.
    found = re.search(r"\bdev (\S+)", host.ip("route", "get", destination).stdout)
    return found[1] if found else "no device"


def _prove_packets(testbed: Testbed, tunnel: Tunnel[Any]) -> list[Check]:
    """(b), (c) and the outer length of (d), from a capture of pings that carry a pattern."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    attempts = 0
    while True:
        evidence = gather(testbed)
        checks = judge_packets(evidence, tunnel)
        attempts += 1
        is_over = attempts >= FEWEST_ATTEMPTS and time.monotonic() > deadline
        if is_over or all(check.verdict is Verdict.OK for check in checks):
            return checks


STREAMS_PER_TUNNEL = 16
"""That none of two tunnels is chosen by 32 connections happens once in two thousand million times."""


def _prove_sharing(testbed: Testbed, tunnel: Tunnel[Any]) -> list[Check]:
    """Where connections are shared out among several tunnels, each of them carries some both ways."""
    server = tunnel.ends.server
    devices = tunnel.devices_at(server)
    if len(devices) < 2:
        return []
    before = read_host(server.host).devices
    warm_up(testbed, TcpTraffic(streams=STREAMS_PER_TUNNEL * len(devices)))
    after = read_host(server.host).devices
    carried = {
        device: (
            after[device].rx_packets - before[device].rx_packets,
            after[device].tx_packets - before[device].tx_packets,
        )
        for device in devices
    }
    verdict = Verdict.OK if all(min(ways) > 0 for ways in carried.values()) else Verdict.VOID
    told = ", ".join(f"{device} {received} in and {sent} out" for device, (received, sent) in carried.items())
    return [Check("sharing", verdict, f"the {server.host.name}'s devices carried packets: {told}", rule=3)]


@dataclass(frozen=True)
class Evidence:
    """Packets on the WAN while pings with a pattern went to and fro."""

    packets: tuple[Packet, ...]
    pattern: bytes
    answered: int
    inner_packet_bytes: tuple[int, ...]


def gather(
    testbed: Testbed, payloads_bytes: Sequence[int] = PATTERN_PAYLOADS_BYTES, pings: int = PINGS_PER_SIZE
) -> Evidence:
    """Captured pings of these payloads, so many of each."""
    pattern = os.urandom(16)
    answered = 0
    with capture_ip(*testbed.tunnel_cable) as capture:
        for size in payloads_bytes:
            argv = ping.command(testbed.addresses.target, count=pings, interval_s=0.02, payload_bytes=size)
            argv[1:1] = ["-p", pattern.hex()]
            answered += ping.parse(testbed.client.run(argv, check=False).stdout).answered
    inner = tuple(size + ICMP_HEADER_BYTES + 20 for size in payloads_bytes)
    return Evidence(tuple(capture.packets), pattern, answered, inner)


def judge_packets(evidence: Evidence, tunnel: Tunnel[Any]) -> list[Check]:
    """What the captured packets prove; no I/O.

    Each answered ping crossed the WAN twice. A tunnel's packets are expected to be as many (as many pieces, where it
    splits packets itself), each of the length that follows from the inner packet, cipher and digest. Others of that
    size or more would be data on a wrong way.
    """
    outer = tunnel.outer
    expected = [packet for packet in evidence.packets if matches(packet, outer)]
    others = [packet for packet in evidence.packets if not matches(packet, outer)]
    smallest_inner = min(evidence.inner_packet_bytes)
    crossings = 2 * evidence.answered
    pieces = [tunnel.outer_packets_bytes(inner) for inner in evidence.inner_packet_bytes]
    wanted = sorted({length for lengths in pieces for length in lengths})
    smallest_outer = 0 if tunnel.compresses else min(smallest_inner, *wanted)
    carried = [packet for packet in expected if packet.length_bytes >= smallest_outer]
    astray = [packet for packet in others if packet.length_bytes >= smallest_inner]
    ways = sorted({describe(packet) for packet in astray})
    if astray or not carried or not crossings:
        reason = f"data travels by {', '.join(ways)}, not by {outer}" if astray else f"no data was seen on {outer}"
        checks = [Check("outer-protocol", Verdict.VOID, reason, rule=3)]
    else:
        checks = [Check("outer-protocol", Verdict.OK, f"all data travels by {outer}", rule=3)]

    visible = sum(evidence.pattern in packet.content for packet in evidence.packets)
    hidden_as_asked = (visible == 0) == tunnel.hides_payload
    expectation = "hidden" if tunnel.hides_payload else "readable"
    checks.append(
        Check(
            "payload-pattern",
            Verdict.OK if hidden_as_asked else Verdict.VOID,
            f"the payload is to be {expectation}; a known pattern was in {visible} of {len(evidence.packets)} packets",
            rule=3,
        )
    )
    found = sorted({packet.length_bytes for packet in carried})
    aim, counted = f"are to make outer ones of {_join(wanted)}", ""
    if tunnel.compresses:
        # A pattern that repeats itself shrinks below what any of the packets was.
        agrees = bool(found) and found[-1] < smallest_inner and len(carried) >= crossings
        aim = f"and a repeated pattern are to make outer ones below {smallest_inner}"
    elif tunnel.has_exact_outer_packets:
        # As many pings of each size were sent.
        due = crossings * sum(map(len, pieces)) // len(pieces)
        agrees = found == wanted and len(carried) == due
        if found == wanted and not agrees:
            counted = f", {len(carried)} packets where {due} are due"
    else:
        agrees = set(wanted) <= set(found)
    checks.append(
        Check(
            "outer-length",
            Verdict.OK if agrees else Verdict.VOID,
            f"inner packets of {_join(evidence.inner_packet_bytes)} bytes {aim}; "
            f"seen: {_join(found) or 'none'}{counted}",
            rule=3,
        )
    )
    return checks


def matches(packet: Packet, outer: Outer) -> bool:
    """Whether a packet is one of those that are to carry the data."""
    if outer.protocol == "plain":
        return packet.protocol == "icmp"
    if (packet.protocol, packet.ip_version) != (outer.protocol, outer.ip_version):
        return False
    return packet.ports is None or any(map(outer.has_port, packet.ports))


def describe(packet: Packet) -> str:
    """Protocol and lower port of a packet, for people."""
    words = packet.protocol if packet.ports is None else f"{packet.protocol} port {min(packet.ports)}"
    return words if packet.ip_version == 4 else f"{words} over IPv6"


def _join(sizes: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, sizes))


def _device_mtu_bytes(end: End, tunnel: Tunnel[Any]) -> int | None:
    shown = end.host.ip("link", "show", "dev", tunnel.device_at(end)).stdout
    found = re.search(r"\bmtu (\d+)", shown)
    return int(found[1]) if found else None
