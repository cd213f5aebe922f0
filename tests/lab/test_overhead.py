"""What each adapter says that it adds to a packet, against captured packets: no byte of difference at any size."""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import groupby
from typing import Any

import pytest
from tests.lab.bench import open_tunnel
from tests.lab.machine import changed_since, snapshot

from tunnelbench.measure.capture import capture_ip
from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.proof import gather, judge_packets, prove, prove_reach
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel import adapters
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.tinc import Tinc, parse_node

pytestmark = pytest.mark.lab

PAYLOADS_BYTES = (211, *(300 + 17 * step for step in range(16)), 1200)
"""Every remainder of a cipher's block, and none larger than the smallest of the tunnels' MTUs takes whole."""

OPTION_SETS: list[tuple[str, dict[str, Any]]] = [
    ("none", {}),
    ("vxlan", {}),
    ("wireguard-go", {}),
    ("boringtun", {}),
    ("tinc", {"cipher": "aes-128-cbc", "digest": "sha1"}),
    ("tinc", {"cipher": "bf-cbc", "digest": "none", "legacy": True}),
    ("openvpn", {}),
    ("openvpn", {"cipher": "AES-128-CBC", "auth": "SHA256", "fragment": 500}),
    ("openvpn", {"cipher": "BF-CBC", "auth": "SHA1", "mode": "static-key", "outside": "ipv6"}),
    ("openvpn", {"cipher": "CHACHA20-POLY1305", "transport": "tcp", "dev": "tap", "outside": "ipv6"}),
    ("openvpn", {"cipher": "negotiated", "data_ciphers": "CHACHA20-POLY1305:AES-256-GCM", "fragment": 401}),
    (
        "openvpn",
        {"tls_wrap": "tls-crypt", "aes_instructions": False, "sndbuf": 262144, "providers": "legacy:default"},
    ),
    ("n2n", {"mtu": 1364}),
    ("nebula", {}),
    ("nebula", {"cipher": "chachapoly"}),
    ("openconnect", {"cipher": "aes-128-gcm"}),
    ("openconnect", {"cipher": "chacha20-poly1305"}),
    ("openconnect", {"mode": "tls", "cipher": "chacha20-poly1305"}),
    ("ssh", {"cipher": "aes128-gcm"}),
    ("ssh", {"cipher": "chacha20-poly1305"}),
    ("ssh", {"cipher": "aes256-ctr", "mac": "hmac-sha1-etm"}),
    ("ipsec-userspace", {}),
    ("ipsec-userspace", {"cipher": "aes-128-cbc", "digest": "sha1"}),
    ("ipsec-userspace", {"cipher": "none"}),
    ("fastd", {"method": "null"}),
    ("fastd", {"method": "null@l2tp", "mode": "tap"}),
    ("fastd", {"method": "null+aes128-gmac"}),
    ("fastd", {"method": "salsa20+poly1305"}),
]
SETS_BY_KIND = {kind: [options for _, options in sets] for kind, sets in groupby(OPTION_SETS, lambda each: each[0])}
MEDDLERS = {"ipsec-userspace", "openconnect", "ssh"}
"""Whose programs would set routes, the resolver or files in /run, were they let."""

NOT_HERE = {"wireguard", "gre", "ipip", "sit", "geneve", "l2tpv3", "ipsec", "l2tpv2-ppp"}
"""What needs a kernel that has it: inside a guest, their proof holds the length of each packet to the byte."""


def test_every_adapter_is_held_to_its_overhead() -> None:
    assert SETS_BY_KIND.keys() | NOT_HERE == set(adapters())


@pytest.mark.parametrize("kind", SETS_BY_KIND)
def test_a_packet_is_longer_by_as_much_as_the_adapter_says(testbed: NetnsTestbed, kind: str) -> None:
    with on_cpus(testbed.local.cpus):
        before = snapshot() if kind in MEDDLERS else set()
        for options in SETS_BY_KIND[kind]:
            with open_tunnel(testbed, TunnelSpec(kind, kind, options)) as tunnel:
                require_exact(testbed, tunnel)
        if kind in MEDDLERS:
            assert changed_since(before) == set(), "it touched what is the machine's own"


@pytest.mark.parametrize("level", [1, 10])
def test_random_content_grows_by_what_zlib_or_lzo_adds_to_it(testbed: NetnsTestbed, level: int) -> None:
    tunnel_spec = TunnelSpec(
        "tinc", "tinc", {"compression": level, "cipher": "none", "digest": "none", "mode": "switch"}
    )
    sizes = (500, 777, 1100)
    with on_cpus(testbed.local.cpus), open_tunnel(testbed, tunnel_spec) as tunnel:
        prove_reach(testbed)
        await_mtu(tunnel, 1200)
        assert {check.reason for check in tunnel.negotiated() if check.verdict is not Verdict.OK} == set()
        with capture_ip(testbed.server, testbed.wan_device) as capture:
            for size in sizes:
                send = SEND_RANDOM.format(size=size, target=testbed.addresses.target)
                testbed.client.run([sys.executable, "-c", send])
            time.sleep(0.2)
        found = Counter(packet.length_bytes for packet in capture.packets)
        expected = [tunnel.outer_packet_bytes(28 + size) for size in sizes]
        assert min(found[length] for length in expected) >= DATAGRAMS, (expected, found)  # its probes may be as long


def await_mtu(tunnel: Tunnel[Any], least_bytes: int) -> None:
    """Wait until both ends send what is no longer than that by UDP: with compression all of it takes half a minute."""
    assert isinstance(tunnel, Tinc)
    deadline = time.monotonic() + 15
    for daemon, peer in ((tunnel.router_daemons[0], "server"), (tunnel.server_daemons[0], "router")):
        while parse_node(tunnel._nodes(daemon), peer).minimum_mtu_bytes < least_bytes:
            assert time.monotonic() < deadline, daemon.output()
            time.sleep(0.1)


DATAGRAMS = 5

SEND_RANDOM = """
import os, socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    sender.sendto(os.urandom({size}), ("{target}", 9))
    time.sleep(0.01)
"""


def require_exact(testbed: NetnsTestbed, tunnel: Tunnel[Any]) -> None:
    """All five parts of the proof hold, and the length of every size of packet."""
    install_outer_counters(testbed, tunnel.outer)
    reach = prove_reach(testbed)
    tunnel.settle()
    proof = prove(testbed, tunnel, reach)
    assert {check.reason for check in proof.checks if check.verdict is not Verdict.OK} == set()
    assert "unknown" not in proof.versions.values()
    for _ in range(3):  # what else the ends have to tell each other may fall into a capture
        evidence = gather(testbed, PAYLOADS_BYTES, 1)
        faults = [check.reason for check in judge_packets(evidence, tunnel) if check.verdict is not Verdict.OK]
        if not faults:
            break
    assert faults == [], tunnel.options
