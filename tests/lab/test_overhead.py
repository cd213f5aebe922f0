"""What each adapter says that it adds to a packet, against captured packets: no byte of difference at any size."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from tests.lab.bench import open_tunnel
from tests.lab.machine import changed_since, snapshot

from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.proof import gather, judge_packets, prove, prove_reach
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel import adapters
from tunnelbench.tunnel.base import Tunnel

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
    ("openvpn", {"cipher": "AES-128-CBC", "auth": "SHA256"}),
    ("openvpn", {"cipher": "BF-CBC", "auth": "SHA1", "mode": "static-key"}),
    ("openvpn", {"cipher": "CHACHA20-POLY1305", "transport": "tcp", "dev": "tap"}),
    ("openvpn", {"tls_wrap": "tls-crypt", "aes_instructions": False, "sndbuf": 262144, "reneg_sec": 0}),
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
