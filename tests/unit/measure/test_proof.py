"""The proof of a tunnel from packets on the WAN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from tests.unit.measure.pcap import ipv4, packet

from tunnelbench.measure.capture import Packet, parse_ipv4
from tunnelbench.measure.proof import (
    ICMP_HEADER_BYTES,
    PATTERN_PAYLOADS_BYTES,
    SHORT_PAYLOADS_BYTES,
    Evidence,
    describe,
    judge_packets,
    matches,
    proof_payloads_bytes,
)
from tunnelbench.model.conditions import Content
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import Outer, Tunnel

PATTERN = bytes.fromhex("00112233445566778899aabbccddeeff")
INNER_BYTES = (239, 468)
OVERHEAD_BYTES = 50
PORT = 1194


@dataclass
class Claimed:
    """Expected values of a tunnel, as far as the functions that judge it read them."""

    outer: Outer = Outer("udp", PORT)  # noqa: RUF009 - it is frozen
    hides_payload: bool = True
    has_exact_outer_packets: bool = True
    splits: bool = False
    compresses: bool = False
    longest_uncompressed_bytes: int = 0
    pauses_compression: bool = False
    content: Content = Content.RANDOM
    inside: IpVersion = IpVersion.IPV4
    client_devices: tuple[str, ...] = ()

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return inner_packet_bytes + OVERHEAD_BYTES

    def outer_packets_bytes(self, inner_packet_bytes: int) -> tuple[int, ...]:
        whole = self.outer_packet_bytes(inner_packet_bytes)
        return (whole // 2, whole - whole // 2) if self.splits else (whole,)


def crossing(inner_bytes: int, content: bytes = b"", protocol: str = "udp", port: int = PORT) -> list[Packet]:
    """A ping and its answer on their way through the tunnel."""
    there = packet(protocol, inner_bytes + OVERHEAD_BYTES, (50000, port), content)
    back = packet(protocol, inner_bytes + OVERHEAD_BYTES, (port, 50000), content)
    return [there, back]


def pings(content: bytes = b"", protocol: str = "udp", port: int = PORT) -> list[Packet]:
    """Three of each size."""
    return [seen for size in INNER_BYTES for _ in range(3) for seen in crossing(size, content, protocol, port)]


def later_fragment() -> Packet:
    """One that has no ports."""
    return parse_ipv4(ipv4("udp", bytes(318), offset=42))


def judge(
    packets: list[Packet],
    answered: int = 6,
    *,
    sizes: tuple[int, ...] = INNER_BYTES,
    is_after_trial: bool = False,
    **claims: Any,
) -> dict[str, Check]:
    evidence = Evidence(tuple(packets), PATTERN, answered, sizes)
    tunnel = cast("Tunnel[Any]", Claimed(**claims))
    checks = judge_packets(evidence, tunnel, is_after_trial=is_after_trial)
    return {check.name: check for check in checks}


def void(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check.verdict is not Verdict.OK}


def test_a_tunnel_that_is_as_it_says_is_proven() -> None:
    checks = judge(pings())
    assert void(checks) == set()
    assert checks["outer-protocol"].reason == "all data travels by udp port 1194"
    assert checks["payload-pattern"].reason == (
        "the payload should be hidden; a known pattern was readable in 0 of 12 packets"
    )
    assert checks["outer-length"].reason == (
        "inner packets of 239, 468 bytes should make outer packets of 289, 518 bytes; seen: 289, 518"
    )
    assert {check.rule for check in checks.values()} == {3}


def test_a_tunnel_without_a_cipher_is_proven_by_a_pattern_that_can_be_read() -> None:
    checks = judge(pings(PATTERN), hides_payload=False)
    assert void(checks) == set()
    assert "should be readable; a known pattern was readable in 12 of 12 packets" in checks["payload-pattern"].reason


def test_data_on_another_protocol_are_reported_with_that_protocol() -> None:
    checks = judge(pings(protocol="tcp", port=655))
    assert void(checks) == {"outer-protocol", "outer-length"}
    assert checks["outer-protocol"].reason == "data travels by tcp port 655, not by udp port 1194"
    assert checks["outer-length"].reason.endswith("seen: none")


def test_one_large_packet_astray_is_enough() -> None:
    astray = packet("tcp", INNER_BYTES[0], (655, 40000))
    assert void(judge([*pings(), astray])) == {"outer-protocol"}


def test_a_small_packet_astray_is_control_traffic() -> None:
    control = packet("tcp", INNER_BYTES[0] - 1, (655, 40000))
    assert void(judge([*pings(), control])) == set()


def test_the_right_protocol_on_a_wrong_port_is_astray() -> None:
    checks = judge(pings(port=4789))
    assert checks["outer-protocol"].reason == "data travels by udp port 4789, not by udp port 1194"
    assert "outer-protocol" in void(checks)


def test_data_that_leak_beside_the_tunnel_are_seen() -> None:
    leaked = packet("icmp", INNER_BYTES[0], content=PATTERN)
    checks = judge([*pings(), leaked])
    assert void(checks) == {"outer-protocol", "payload-pattern"}
    assert checks["outer-protocol"].reason == "data travels by icmp, not by udp port 1194"


def test_a_pattern_that_can_be_read_once_where_it_is_to_be_hidden_is_void() -> None:
    packets = pings()
    packets[3:5] = crossing(INNER_BYTES[0], PATTERN)
    checks = judge(packets)
    assert void(checks) == {"payload-pattern"}
    assert "was readable in 2 of 12 packets" in checks["payload-pattern"].reason


def test_a_pattern_that_is_hidden_where_there_is_to_be_no_cipher_is_void() -> None:
    assert void(judge(pings(), hides_payload=False)) == {"payload-pattern"}


def split_pings(pieces: int = 2) -> list[Packet]:
    """Three of each size and their answers, each in pieces."""
    whole = [inner + OVERHEAD_BYTES for inner in INNER_BYTES for _ in range(6)]
    halves = [(length // 2, length - length // 2)[:pieces] for length in whole]
    return [packet("udp", piece, (50000, PORT)) for lengths in halves for piece in lengths]


def test_a_tunnel_that_splits_packets_is_held_to_the_length_and_number_of_the_pieces() -> None:
    assert void(judge(split_pings(), splits=True)) == set()
    assert void(judge(split_pings(1), splits=True)) == {"outer-length"}
    assert void(judge(pings(), splits=True)) == {"outer-length"}


def test_a_compressing_tunnel_is_proven_by_packets_shorter_than_their_payload() -> None:
    shrunk = [packet("udp", 150, (50000, PORT)) for _ in pings()]
    checks = judge(shrunk, compresses=True)
    assert void(checks) == set()
    assert checks["outer-length"].reason == (
        "inner packets of 239, 468 bytes and a repeated pattern should make outer packets below 289 bytes; seen: 150"
    )
    assert void(judge(shrunk[1:], compresses=True)) == {"outer-length"}
    assert void(judge(pings(), compresses=True)) == {"outer-length"}


SHORT_BYTES = (52, 65)
LZO: dict[str, Any] = {"compresses": True, "longest_uncompressed_bytes": 99, "sizes": (*SHORT_BYTES, *INNER_BYTES)}


def compressed(*, with_short: bool = True, long_bytes: int = 150) -> list[Packet]:
    """Three short pings of each size, which are not compressed, and three long ones of each size."""
    short = [seen for size in SHORT_BYTES for _ in range(3) for seen in crossing(size)]
    long = [packet("udp", long_bytes, (50000, PORT)) for _ in pings()]
    return [*(short if with_short else long), *long]


def test_a_tunnel_that_compresses_long_packets_is_held_to_the_length_of_short_ones() -> None:
    checks = judge(compressed(), 12, **LZO)
    assert void(checks) == set()
    assert checks["outer-length"].reason == (
        "inner packets of 52, 65, 239, 468 bytes and a repeated pattern should make outer packets below 289 bytes, and "
        "the short ones packets of 102, 115 bytes; seen: 102, 115, 150"
    )
    assert void(judge(compressed(with_short=False), 12, **LZO)) == {"outer-length"}
    assert void(judge(compressed(long_bytes=289), 12, **LZO)) == {"outer-length"}
    assert void(judge(compressed()[1:], 12, **LZO)) == {"outer-length"}


def test_a_tunnel_that_pauses_its_compression_may_have_stopped_it_after_a_trial() -> None:
    as_they_are = [*compressed()[:12], *pings()]
    for pauses, is_after_trial, is_void in ((True, True, False), (True, False, True), (False, True, True)):
        found = judge(as_they_are, 12, pauses_compression=pauses, is_after_trial=is_after_trial, **LZO)
        assert void(found) == ({"outer-length"} if is_void else set())
    found = judge(as_they_are, 12, pauses_compression=True, is_after_trial=True, content=Content.REPEATING, **LZO)
    assert void(found) == {"outer-length"}
    other = [*compressed()[:12], *(packet("udp", 300, (50000, PORT)) for _ in pings())]
    assert void(judge(other, 12, pauses_compression=True, is_after_trial=True, **LZO)) == {"outer-length"}


def test_short_pings_are_sent_only_where_they_are_not_compressed() -> None:
    assert proof_payloads_bytes(cast("Tunnel[Any]", Claimed())) == PATTERN_PAYLOADS_BYTES
    compresses = cast("Tunnel[Any]", Claimed(compresses=True, longest_uncompressed_bytes=85))
    assert proof_payloads_bytes(compresses) == (*SHORT_PAYLOADS_BYTES, *PATTERN_PAYLOADS_BYTES)
    # Over IPv6, with the longest header, none is compressed.
    assert max(SHORT_PAYLOADS_BYTES) + ICMP_HEADER_BYTES + IpVersion.IPV6.header_bytes <= 85


def test_a_tunnel_is_held_to_the_ip_version_of_its_packets() -> None:
    by_ipv6 = [replace(seen, ip_version=6) for seen in pings()]
    assert void(judge(by_ipv6, outer=Outer("udp", PORT, ip_version=6))) == set()
    checks = judge(pings(), outer=Outer("udp", PORT, ip_version=6))
    assert checks["outer-protocol"].reason == "data travels by udp port 1194, not by udp port 1194 over IPv6"


def test_packets_of_a_wrong_length_are_void() -> None:
    packets = pings()
    packets[0] = packet("udp", INNER_BYTES[0] + OVERHEAD_BYTES + 4, (50000, PORT))
    checks = judge(packets)
    assert void(checks) == {"outer-length"}
    assert checks["outer-length"].reason.endswith("seen: 289, 293, 518")


@pytest.mark.parametrize("change", [-1, 1, 12])
def test_more_or_fewer_outer_packets_than_inner_ones_are_void(change: int) -> None:
    packets = pings()
    changed = packets[:change] if change < 0 else packets + packets[:change]
    assert void(judge(changed)) == {"outer-length"}


def test_fragments_of_one_packet_are_not_taken_for_one() -> None:
    packets = pings()
    larger, *_ = (seen for seen in packets if seen.length_bytes == INNER_BYTES[1] + OVERHEAD_BYTES)
    halves = [packet("udp", 360, (50000, PORT)), later_fragment()]
    assert "outer-length" in void(judge([*(seen for seen in packets if seen is not larger), *halves]))


def test_nothing_seen_proves_nothing() -> None:
    checks = judge([], answered=0)
    assert void(checks) == {"outer-protocol", "outer-length"}
    assert checks["outer-protocol"].reason == "no data was seen on udp port 1194"


def test_answers_without_packets_mean_that_data_take_another_cable() -> None:
    assert void(judge([], answered=6)) == {"outer-protocol", "outer-length"}


def test_packets_shorter_than_the_pings_are_not_called_none() -> None:
    small = [packet("udp", 90, (50000, PORT)) for _ in range(12)]
    reason = judge(small, answered=6)["outer-protocol"].reason
    assert reason.startswith("the packets on udp port 1194 have at most 90 bytes, and those of the pings at least ")


def test_packets_without_an_answer_prove_nothing() -> None:
    assert "outer-protocol" in void(judge(pings(), answered=0))


def test_in_a_stream_each_length_must_be_seen_among_others() -> None:
    stream = Outer("tcp", PORT)
    packets = [*pings(protocol="tcp"), packet("tcp", 1500, (PORT, 50000)), packet("tcp", 52, (PORT, 50000))]
    assert void(judge(packets, outer=stream, has_exact_outer_packets=False)) == set()
    one_size = [seen for seen in packets if seen.length_bytes != INNER_BYTES[1] + OVERHEAD_BYTES]
    assert void(judge(one_size, outer=stream, has_exact_outer_packets=False)) == {"outer-length"}


@pytest.mark.parametrize(
    ("seen", "outer", "expected"),
    [
        (packet("udp", 300, (50000, 1194)), Outer("udp", 1194), True),
        (packet("udp", 300, (1194, 50000)), Outer("udp", 1194), True),
        (packet("udp", 300, (50000, 1195)), Outer("udp", 1194), False),
        (packet("tcp", 300, (50000, 1194)), Outer("udp", 1194), False),
        (later_fragment(), Outer("udp", 1194), True),
        (packet("icmp", 300), Outer("udp", 1194), False),
        (packet("icmp", 300), Outer("plain"), True),
        (packet("icmp", 300), Outer("plain", ip_version=6), False),
        (replace(packet("icmp", 300), protocol="icmpv6", ip_version=6), Outer("plain", ip_version=6), True),
        (replace(packet("icmp", 300), protocol="icmpv6", ip_version=6), Outer("plain"), False),
        (packet("udp", 300, (50000, 1194)), Outer("plain"), False),
    ],
)
def test_a_packet_is_expected_by_protocol_and_either_port(seen: Packet, outer: Outer, expected: bool) -> None:
    assert matches(seen, outer) is expected


def test_a_packet_is_described_by_its_lower_port() -> None:
    assert describe(packet("tcp", 300, (655, 40000))) == "tcp port 655"
    assert describe(packet("tcp", 300, (40000, 655))) == "tcp port 655"
    assert describe(packet("icmp", 300)) == "icmp"
