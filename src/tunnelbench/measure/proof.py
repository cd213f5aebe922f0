"""The proof of a tunnel, before anything is timed (rule 3).

(a) it answers pings; (b) only the expected outer packets carry the data; (c) a known pattern is readable in them only
if the tunnel has no cipher; (d) the cipher and digest in use are those of the plan, and the outer length agrees with
them to the byte; (e) both ends route through the tunnel's device.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.host.host import Host
from tunnelbench.measure.capture import Packet, capture_ip
from tunnelbench.measure.counters import read_host
from tunnelbench.measure.tcp_trial import warm_up
from tunnelbench.measure.trial_monitor import LOG_KEPT_BYTES
from tunnelbench.model.conditions import Content
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import TcpTraffic
from tunnelbench.model.result import Check, TunnelProof, Verdict, reasons_of_void
from tunnelbench.model.text import counted, without_keys
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import ping
from tunnelbench.tunnel.base import Outer, Tunnel

ANSWER_TIMEOUT_S = 10.0
"""Time for the first answer through a tunnel that reports that it is up [s]."""

SETTLE_TIMEOUT_S = 3.0
"""Time for which the test packets may take another path after a tunnel reports that it has settled [s]."""

FEWEST_ATTEMPTS = 3
"""Smallest number of attempts at the proof: a single lost ping must not decide, even if one attempt takes all of
SETTLE_TIMEOUT_S."""

ICMP_HEADER_BYTES = 8
PATTERN_PAYLOADS_BYTES = (211, 440)
"""Payload sizes of the pings [bytes]; two sizes show both a wrong header and a wrong padding. The longer one makes
packets of 468 bytes over IPv4, which fit with any tunnel's header into the smallest MTU that a plan may have, 576."""
SHORT_PAYLOADS_BYTES = (24, 37)
"""Payload sizes of additional pings through a tunnel that compresses long packets only [bytes]: their outer packets
have the same length whatever the pings contain."""
PINGS_PER_SIZE = 3


def prove(testbed: Testbed, tunnel: Tunnel[Any], reach: Check) -> TunnelProof:
    """Return the proof of a tunnel that is up: the results of its checks. `reach` comes from `prove_reach`."""
    checks = [reach, *_prove_routes(testbed, tunnel), *_prove_packets(testbed, tunnel), *tunnel.negotiated()]
    checks += _prove_sharing(testbed, tunnel)
    return TunnelProof(
        checks=tuple(checks),
        versions=versions_of(tunnel),
        configuration=dict(tunnel.configuration),
        inner_mtu_bytes=tunnel.inner_mtu_bytes(),
        is_encrypted=tunnel.is_encrypted,
        raw=daemon_logs(tunnel),
    )


def versions_of(tunnel: Tunnel[Any]) -> dict[str, str]:
    """Return the versions of a tunnel's programs at both ends, as in `TunnelProof.versions`; it need not be up."""
    return {
        f"{end.host.name}.{name}": version for end, _ in tunnel.ends for name, version in tunnel.versions(end).items()
    }


def daemon_logs(tunnel: Tunnel[Any]) -> dict[str, str]:
    """Return the end of each daemon's output without keys, by host and file. The tunnel may already be down."""
    return {
        f"{daemon.host_name}.{daemon.log_path.name}": without_keys(daemon.output(LOG_KEPT_BYTES))
        for daemon in tunnel.daemons
    }


def prove_reach(testbed: Testbed, inside: IpVersion = IpVersion.IPV4) -> Check:
    """Make check (a) of the proof: pings are answered, over the IP version `inside` the tunnel.

    Raises TunnelRefused if nothing answers.
    """
    target = testbed.traffic_ends(inside)[1]
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = ping.parse(testbed.client.run(ping.command(target, count=1), check=False).stdout)
        if answer.answered:
            return Check("reach", Verdict.OK, f"{target} answers in {answer.worst_ms:g} ms", rule=3)
    raise TunnelRefused(
        f"the tunnel came up but carries nothing: no ping was answered through it in {ANSWER_TIMEOUT_S:g} s"
    )


def _prove_routes(testbed: Testbed, tunnel: Tunnel[Any]) -> list[Check]:
    """Make check (e) of the proof: both ends route through the tunnel."""
    client, target = testbed.traffic_ends(tunnel.inside)
    ways = ((tunnel.ends.router, target), (tunnel.ends.server, client))
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
    """Make checks (b), (c) and the length check of (d) from captured pings that carry a pattern."""
    checks: list[Check] = []
    for device in tunnel.client_devices or ("",):
        for _ in attempts():
            evidence = gather(testbed, proof_payloads_bytes(tunnel), inside=tunnel.inside, device=device)
            checks = judge_packets(evidence, tunnel)
            if not reasons_of_void(tuple(checks)):
                break
        else:
            return checks
    if tunnel.client_devices:
        checks.append(_prove_clients(testbed, tunnel.client_devices))
    return checks


def _prove_clients(testbed: Testbed, devices: Sequence[str]) -> Check:
    """Check that the packets of each client of a server leave by the client's own device."""
    before = read_host(testbed.client).devices
    for device in devices:
        testbed.client.run(ping.command(testbed.addresses.target, count=1, device=device), check=False)
    after = read_host(testbed.client).devices
    carried = [after[device].rx_packets - before[device].rx_packets for device in devices]
    answered = sum(packets > 0 for packets in carried)
    reason = f"{answered} of {counted(len(devices), 'client')} got an answer on their own device"
    return Check("clients", Verdict.OK if min(carried) > 0 else Verdict.VOID, reason, rule=3)


def attempts() -> Iterator[None]:
    """Yield once for each attempt at a proof, until FEWEST_ATTEMPTS were made and SETTLE_TIMEOUT_S has passed."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    made = 0
    while made < FEWEST_ATTEMPTS or time.monotonic() <= deadline:
        yield
        made += 1


STREAMS_PER_TUNNEL = 16
"""Connections for each parallel tunnel: of two tunnels, one stays idle by chance in 1 of 2 * 10^9 runs."""


def _prove_sharing(testbed: Testbed, tunnel: Tunnel[Any]) -> list[Check]:
    """Check that each of several parallel tunnels carries packets both ways."""
    server = tunnel.ends.server
    devices = tunnel.devices_at(server)
    if len(devices) < 2:
        return []
    before = read_host(server.host).devices
    warm_up(testbed, tunnel, TcpTraffic(streams=STREAMS_PER_TUNNEL * len(devices)))
    after = read_host(server.host).devices
    carried = {
        device: (
            after[device].rx_packets - before[device].rx_packets,
            after[device].tx_packets - before[device].tx_packets,
        )
        for device in devices
    }
    verdict = Verdict.OK if all(min(ways) > 0 for ways in carried.values()) else Verdict.VOID
    counts = ", ".join(f"{device} {received} in and {sent} out" for device, (received, sent) in carried.items())
    return [Check("sharing", verdict, f"the {server.host.name}'s devices carried packets: {counts}", rule=3)]


@dataclass(frozen=True)
class Evidence:
    """Packets captured on the WAN while pings with a known pattern were sent and answered."""

    packets: tuple[Packet, ...]
    pattern: bytes
    answered: int
    inner_packet_bytes: tuple[int, ...]


def proof_payloads_bytes(tunnel: Tunnel[Any]) -> tuple[int, ...]:
    """Return the payload sizes of the pings that prove a tunnel [bytes]."""
    return (*(SHORT_PAYLOADS_BYTES if tunnel.longest_uncompressed_bytes else ()), *PATTERN_PAYLOADS_BYTES)


def gather(
    testbed: Testbed,
    payloads_bytes: Sequence[int] = PATTERN_PAYLOADS_BYTES,
    pings: int = PINGS_PER_SIZE,
    *,
    packets_per_ping: int = 0,
    inside: IpVersion = IpVersion.IPV4,
    device: str = "",
) -> Evidence:
    """Ping `pings` times with each payload size [bytes] through the tunnel, over the IP version `inside` it; return the
    captured packets.

    The pings leave by the client's `device`; if it is empty, by that of the route. With `packets_per_ping`, the number
    of packets that each answered ping makes, the capture ends without a pause.
    """
    pattern = os.urandom(16)
    answered = 0
    with capture_ip(*testbed.tunnel_cable, testbed.control_connections) as capture:
        for size in payloads_bytes:
            target = testbed.traffic_ends(inside)[1]
            argv = ping.command(target, count=pings, interval_s=0.02, payload_bytes=size, device=device)
            argv[1:1] = ["-p", pattern.hex()]
            answered += ping.parse(testbed.client.run(argv, check=False).stdout).answered
        capture.expected_packets = answered * packets_per_ping
    inner = tuple(inside.header_bytes + ICMP_HEADER_BYTES + size for size in payloads_bytes)
    return Evidence(tuple(capture.packets), pattern, answered, inner)


def judge_packets(evidence: Evidence, tunnel: Tunnel[Any], *, is_after_trial: bool = False) -> list[Check]:
    """Return the checks of the captured packets, without I/O.

    After a trial with random data, a tunnel that pauses its compression may have stopped it.
    """
    outer = tunnel.outer
    expected = [packet for packet in evidence.packets if matches(packet, outer)]
    others = [packet for packet in evidence.packets if not matches(packet, outer)]
    smallest_inner = min(size for size in evidence.inner_packet_bytes if size > tunnel.longest_uncompressed_bytes)
    crossings = 2 * evidence.answered
    pieces = [tunnel.outer_packets_bytes(inner) for inner in evidence.inner_packet_bytes]
    wanted = sorted({length for lengths in pieces for length in lengths})
    smallest_outer = 0 if tunnel.compresses else min(smallest_inner, *wanted)
    carried = [packet for packet in expected if packet.length_bytes >= smallest_outer]
    astray = [packet for packet in others if packet.length_bytes >= smallest_inner]
    ways = sorted({describe(packet) for packet in astray})
    if astray or not carried or not crossings:
        reason = f"no data was seen on {outer}"
        if astray:
            reason = f"data travels by {', '.join(ways)}, not by {outer}"
        elif expected and crossings:
            longest = max(packet.length_bytes for packet in expected)
            reason = (
                f"the packets on {outer} have at most {longest} bytes, and those of the pings at least "
                f"{smallest_outer}: the tunnel compresses them, or they travel elsewhere"
            )
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
            f"the payload should be {expectation}; a known pattern was readable in {visible} of "
            f"{len(evidence.packets)} packets",
            rule=3,
        )
    )
    found = sorted({packet.length_bytes for packet in carried})
    aim, counted = f"should make outer packets of {_join(wanted)} bytes", ""
    if tunnel.compresses:
        limit_bytes = tunnel.outer_packet_bytes(smallest_inner)
        short = [tunnel.outer_packet_bytes(size) for size in evidence.inner_packet_bytes if size < smallest_inner]
        aim = f"and a repeated pattern should make outer packets below {limit_bytes} bytes"
        aim += f", and the short ones packets of {_join(short)} bytes" if short else ""
        may_have_paused = is_after_trial and tunnel.pauses_compression and tunnel.content is Content.RANDOM
        may_stay = set(wanted) if may_have_paused else set()
        agrees = _has_compressed(evidence, carried, limit_bytes, short, may_stay)
    elif tunnel.has_exact_outer_packets:
        # As many pings of each size were sent.
        due = crossings * sum(map(len, pieces)) // len(pieces)
        agrees = found == wanted and len(carried) == due
        if found == wanted and not agrees:
            counted = f", {len(carried)} packets were captured; expected were {due}"
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


def _has_compressed(
    evidence: Evidence, carried: Sequence[Packet], limit_bytes: int, short: Sequence[int], may_stay: Collection[int]
) -> bool:
    """Return True if a tunnel that compresses made what it should of the pings.

    A pattern that repeats itself shrinks, so that all outer packets are shorter than `limit_bytes`, or have a length of
    `may_stay`. The packets of the lengths in `short` are those of short pings, whose content the tunnel sends as it is.
    """
    lengths = Counter(packet.length_bytes for packet in carried)
    crossings = 2 * evidence.answered
    has_shrunk = all(length < limit_bytes or length in may_stay for length in lengths)
    has_short = all(lengths[length] >= crossings // len(evidence.inner_packet_bytes) for length in short)
    return len(carried) >= crossings > 0 and has_shrunk and has_short


def matches(packet: Packet, outer: Outer) -> bool:
    """Return True if a packet matches the protocol and port that must carry the tunnel's data."""
    if outer.protocol == "plain":
        return (packet.protocol, packet.ip_version) == ("icmp" if outer.ip_version == 4 else "icmpv6", outer.ip_version)
    if (packet.protocol, packet.ip_version) != (outer.protocol, outer.ip_version):
        return False
    return packet.ports is None or any(map(outer.has_port, packet.ports))


def describe(packet: Packet) -> str:
    """Return protocol and lower port of a packet as text for people."""
    words = packet.protocol if packet.ports is None else f"{packet.protocol} port {min(packet.ports)}"
    return words if packet.ip_version == 4 else f"{words} over IPv6"


def _join(sizes: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, sizes))
