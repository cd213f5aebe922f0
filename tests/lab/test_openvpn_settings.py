"""Settings of OpenVPN whose effect is known: compression, queue of the device, fast-io, crypto library, bridge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.lab import old_openvpn
from tests.lab.bench import NO_TUNNEL, check, make_plan, make_testbed, measure, open_tunnel
from tests.lab.test_overhead import DATAGRAMS, lengths_of_random_packets

from tunnelbench.measure.counters import read_host
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.proof import prove_reach
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import CONTROL_PACKETS, Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

COMPRESSIONS = ({"compress": "lzo"}, {"compress": "lz4"}, {"compress": "lz4-v2"}, {"comp_lzo": "adaptive"})


def trial(testbed: NetnsTestbed, direction: Direction = Direction.OUT, **options: Any) -> TrialRecord:
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", options), direction=(direction,)))
    assert record.outcome is Outcome.MEASURED, record.reason
    assert check(record, "outer-protocol-in-trial").verdict is Verdict.OK
    assert check(record, "proof-after").verdict is Verdict.OK, check(record, "proof-after").reason
    return record


def outer_share(record: TrialRecord) -> float:
    """Return the bytes on the WAN as a share of those of the arrived inner packets with data."""
    assert record.tcp is not None
    return record.tcp.counters.outer_expected_bytes / record.tcp.counters.data_bytes


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda each: "-".join(each.values()))
@pytest.mark.parametrize("direction", [*Direction])
def test_compression_shortens_repeating_data_and_not_random_ones(
    testbed: NetnsTestbed, compression: dict[str, Any], direction: Direction
) -> None:
    assert outer_share(trial(testbed, direction, **compression, content="repeating")) < 0.4
    assert outer_share(trial(testbed, direction, **compression, content="random")) > 1


@pytest.mark.parametrize("stub", [{}, {"compress": "stub"}, {"comp_lzo": "no"}])
def test_without_compression_repeating_data_are_as_long_as_others(testbed: NetnsTestbed, stub: dict[str, Any]) -> None:
    assert outer_share(trial(testbed, **stub, content="repeating")) > 1


@pytest.mark.parametrize(
    "options",
    [
        {"compress": "lzo"},
        {"compress": "lz4", "cipher": "AES-128-CBC", "auth": "SHA256"},
        {"compress": "lz4-v2", "cipher": "none", "auth": "none"},
        {"comp_lzo": "yes", "dev": "tap"},
        {"compress": "lzo", "fragment": 500},
    ],
    ids=str,
)
def test_a_packet_of_random_content_is_as_long_as_the_adapter_says(
    testbed: NetnsTestbed, options: dict[str, Any]
) -> None:
    sizes = (500, 777, 1100)
    with on_cpus(testbed.local.cpus), open_tunnel(testbed, TunnelSpec("openvpn", "o", options)) as tunnel:
        prove_reach(testbed)
        found = lengths_of_random_packets(testbed, sizes)
        expected = Counter(length for size in sizes for length in tunnel.outer_packets_bytes(28 + size))
        assert {length: found[length] for length in expected} == {
            length: count * DATAGRAMS for length, count in expected.items()
        }


@pytest.mark.parametrize("fast_io", [True, False])
def test_the_queue_of_the_device_and_fast_io_are_those_of_the_plan(testbed: NetnsTestbed, fast_io: bool) -> None:
    record = trial(testbed, txqueuelen=321, fast_io=fast_io)
    assert record.proof is not None
    names = [each.name for each in record.proof.checks]
    assert (names.count("txqueuelen"), names.count("fast-io")) == (2, fast_io)
    with on_cpus(testbed.local.cpus), open_tunnel(testbed, TunnelSpec("openvpn", "o", {"txqueuelen": 77})) as tunnel:
        for end, _ in tunnel.ends:
            assert " qlen 77" in end.host.ip("link", "show", "dev", tunnel.device_at(end)).stdout


def test_a_program_with_another_crypto_library_is_unavailable(testbed: NetnsTestbed) -> None:
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "mbed", {"library": "mbedtls"})))
    assert record.outcome is Outcome.UNAVAILABLE
    assert "mbed TLS in openvpn is missing (an OpenVPN built with mbed TLS, as program)" in record.reason
    named = trial(testbed, library="openssl")
    assert named.proof is not None
    assert "router.openssl" in named.proof.versions


@pytest.mark.parametrize(("cipher", "mtu_bytes"), [("AES-128-GCM", 1351), ("AES-128-CBC", 1347)])
def test_the_installed_openvpn_computes_the_mtu_from_link_mtu(
    testbed: NetnsTestbed, cipher: str, mtu_bytes: int
) -> None:
    record = trial(testbed, link_mtu_bytes=1400, cipher=cipher)
    assert record.proof is not None
    assert record.proof.inner_mtu_bytes == mtu_bytes
    assert [each.verdict for each in record.proof.checks if each.name == "link-mtu"] == [Verdict.OK] * 2


has_old_openvpn = pytest.mark.skipif(not old_openvpn.PROGRAM.exists(), reason="OpenVPN 2.5 could not be fetched")


@has_old_openvpn
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cipher": "AES-128-CBC", "auth": "SHA256"},
        {"cipher": "BF-CBC"},
        {"cipher": "none", "auth": "none"},
        {"mode": "static-key", "cipher": "AES-256-CBC"},
        {"tls_wrap": "tls-crypt", "transport": "tcp"},
        {"compress": "lz4-v2", "content": "repeating"},
        {"comp_lzo": "adaptive"},
        {"fast_io": True, "txqueuelen": 200},
        {"link_mtu_bytes": 1400},
        {"dev": "tap", "bridged": True},
    ],
    ids=str,
)
def test_openvpn_2_5_carries_the_same_plans(testbed: NetnsTestbed, options: dict[str, Any]) -> None:
    record = trial(testbed, program=str(old_openvpn.PROGRAM), **options)
    assert record.proof is not None
    versions = record.proof.versions
    assert versions["router.openvpn"].startswith("2.5."), versions
    assert versions["router.openssl"].startswith("1.1.1"), versions


@has_old_openvpn
def test_several_clients_of_a_server_of_openvpn_2_5(short_path: Path, lab: None) -> None:
    with make_testbed(short_path / "run", topology=ROAD_WARRIOR) as testbed:
        record = trial(testbed, program=str(old_openvpn.PROGRAM), clients=2)
        assert record.tcp is not None
        assert len(record.tcp.clients) == 2


TAP = {"dev": "tap", "cipher": "AES-128-GCM"}


@pytest.mark.parametrize("topology", [ROUTER_SERVER, GATEWAY_PAIR])
@pytest.mark.parametrize("bridged", [True, False])
def test_a_bridged_tap_is_no_hop_and_a_routed_one_is(bridged: bool, topology: str, short_path: Path, lab: None) -> None:
    with make_testbed(short_path / "run", topology=topology) as testbed:
        spec = TunnelSpec("openvpn", "tap", {**TAP, "bridged": bridged})
        with on_cpus(testbed.local.cpus), LiveTunnel(testbed, spec):
            prove_reach(testbed)
            answer = testbed.client.run(["ping", "-c", "1", testbed.addresses.target]).stdout
        hops = (not bridged) + (topology == GATEWAY_PAIR)
        assert f"ttl={64 - hops} " in answer
        routed_before = read_host(testbed.router).snmp["Ip.ForwDatagrams"]
        for direction in Direction:
            record = trial(testbed, direction, **TAP, bridged=bridged)
            assert record.tcp is not None
            counters = record.tcp.counters
            assert counters.forwarded_packets >= counters.data_packets + counters.ack_packets - CONTROL_PACKETS
        routed = read_host(testbed.router).snmp["Ip.ForwDatagrams"] - routed_before
        assert (routed < 500) == bridged
        (baseline,) = measure(testbed, make_plan(NO_TUNNEL))  # the LAN is as it was
        assert baseline.outcome is Outcome.MEASURED, baseline.reason
