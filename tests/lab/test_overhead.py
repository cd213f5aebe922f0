"""Compares the bytes that each adapter says it adds with captured packets: no byte of difference at any size."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from tests.lab.bench import open_tunnel
from tests.lab.machine import changed_since, snapshot
from tests.unit.tunnel.cases import TunnelCase, tunnel_cases

from tunnelbench.measure.capture import capture_ip
from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.ipv6_paths import ipv6_paths
from tunnelbench.measure.proof import gather, judge_packets, prove, prove_reach
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.tinc import Tinc, parse_node

pytestmark = pytest.mark.lab

PAYLOADS_BYTES = (211, *(300 + 17 * step for step in range(16)), 1200)
"""Sizes with every remainder of a cipher's block, all within the smallest of the tunnels' MTUs."""

CASES = [case for case in tunnel_cases().values() if not case.needs_kernel]
"""Tunnels that every kernel carries. The proof inside a guest compares the lengths of the others' packets."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_a_packet_is_longer_by_as_much_as_the_adapter_says(testbed: NetnsTestbed, case: TunnelCase) -> None:
    with on_cpus(testbed.local.cpus):
        before = snapshot() if case.may_change_machine else set()
        for options in case.exact:
            with ExitStack() as stack:
                spec = TunnelSpec(case.kind, case.kind, options)
                if spec.conditions.inside is IpVersion.IPV6:
                    stack.enter_context(ipv6_paths(testbed))
                require_exact(testbed, stack.enter_context(open_tunnel(testbed, spec)))
        if case.may_change_machine:
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
        found = lengths_of_random_packets(testbed, sizes)
        expected = [tunnel.outer_packet_bytes(28 + size) for size in sizes]
        # More than that, if probes of tinc have the same length.
        assert min(found[length] for length in expected) >= DATAGRAMS, (expected, found)


def lengths_of_random_packets(testbed: NetnsTestbed, sizes: Sequence[int]) -> Counter[int]:
    """Send datagrams of random content, DATAGRAMS of each payload size [bytes], and count the outer lengths [bytes]."""
    with capture_ip(testbed.server, testbed.wan_device) as capture:
        for size in sizes:
            send = SEND_RANDOM.format(size=size, target=testbed.addresses.target)
            testbed.client.run([sys.executable, "-c", send])
        time.sleep(0.2)
    return Counter(packet.length_bytes for packet in capture.packets)


def await_mtu(tunnel: Tunnel[Any], least_bytes: int) -> None:
    """Wait until both ends send packets of that length by UDP; with compression this takes half a minute."""
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
    """Assert that all five parts of the proof hold, and the length of every size of packet."""
    install_outer_counters(testbed, tunnel.outer)
    reach = prove_reach(testbed, tunnel.inside)
    tunnel.settle()
    proof = prove(testbed, tunnel, reach)
    assert {check.reason for check in proof.checks if check.verdict is not Verdict.OK} == set()
    assert "unknown" not in proof.versions.values()
    for _ in range(3):  # other messages between the ends may fall into a capture
        evidence = gather(testbed, PAYLOADS_BYTES, 1, inside=tunnel.inside)
        carriers = {packet.ip_version for packet in evidence.packets if packet.length_bytes > min(PAYLOADS_BYTES)}
        assert carriers == {tunnel.outside.number if tunnel.outer.protocol != "plain" else tunnel.inside.number}
        faults = [check.reason for check in judge_packets(evidence, tunnel) if check.verdict is not Verdict.OK]
        if not faults:
            break
    assert faults == [], tunnel.options
