"""TCP connections through a router that counts them, and through one that tracks only so many."""

from __future__ import annotations

import pytest
from tests.lab.bench import check, measure

from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.plan import ConnectionTraffic, Plan, Test, TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic.connections import CONNECTION_PORT

pytestmark = pytest.mark.lab

TRACKING = {"firewall": "stateful"}
LIMIT = 500


def connections(testbed: NetnsTestbed, tunnel: TunnelSpec, **traffic: object) -> tuple[TrialRecord, ConnectionCounts]:
    """Measure one trial of connections and return it with its counts."""
    plan = Plan("lab", "", (tunnel,), None, 1, connections=ConnectionTraffic(**traffic))  # type: ignore[arg-type]
    (record,) = measure(testbed, plan)
    assert record.outcome is Outcome.MEASURED, record.reason
    assert {found.reason for found in record.checks if found.verdict is Verdict.VOID and found.rule != 12} == set()
    assert record.udp is not None
    assert record.udp.connections is not None
    return record, record.udp.connections


@pytest.mark.parametrize("kind", ["none", "openvpn"])
def test_router_client_and_server_count_the_same_new_connections(testbed: NetnsTestbed, kind: str) -> None:
    tunnel = TunnelSpec(kind, "tracked", TRACKING)
    record, counts = connections(testbed, tunnel, tests=(Test.CONNECT,), rate=("200",), duration_s=2.0)
    assert 398 <= counts.begun <= 401
    assert counts.begun == counts.established == counts.closed == counts.accepted
    before, after = (record.raw[name]["counters"]["new"] for name in ("firewall_before", "firewall_after"))
    assert after[0] - before[0] == counts.begun, "one packet of each connection is in the state new"
    assert check(record, "firewall").verdict is Verdict.OK
    assert check(record, "tracked").verdict is Verdict.OK
    assert counts.established_per_s == pytest.approx(200, rel=0.02)


def test_a_tracker_that_is_limited_to_500_connections_is_found_at_500(testbed: NetnsTestbed) -> None:
    limit = f"tcp dport {CONNECTION_PORT} ct state new ct count over {LIMIT} drop"
    chain = f"chain limited {{ type filter hook forward priority 10;\n{limit}\n}}"
    testbed.router.run(["nft", "-f", "-"], stdin=f"table ip limited {{\n{chain}\n}}\n")
    traffic = {"tests": (Test.CONCURRENT,), "most": 700, "opening_rate": 350.0}
    record, counts = connections(testbed, TunnelSpec("none", "tracked", TRACKING), **traffic)
    assert (counts.begun, counts.established, counts.open_max) == (700, LIMIT, LIMIT)
    assert counts.timed_out == 700 - LIMIT
    assert counts.shows_limit
    assert check(record, "connections").verdict is Verdict.OK
    assert counts.accepted == LIMIT
    assert counts.tracked_before is not None
    assert counts.tracked is not None
    others = counts.tracked - counts.tracked_before.entries - LIMIT
    assert 0 <= others <= 2, "the client's pings to the router are tracked, too"
    assert check(record, "tracked").verdict is Verdict.OK


def test_without_a_limit_all_connections_are_open_at_the_same_time(testbed: NetnsTestbed) -> None:
    traffic = {"tests": (Test.CONCURRENT,), "most": 2000, "opening_rate": 1000.0}
    record, counts = connections(testbed, TunnelSpec("none", "untracked"), **traffic)
    assert (counts.open_max, counts.not_established, counts.unsent) == (2000, 0, 0)
    assert counts.tracked in {None, 0}
    assert [found for found in record.checks if found.name == "tracked"] == []


@pytest.mark.parametrize("kind", ["none", "openvpn"])
def test_connections_of_ipv6_are_counted_alike_at_both_ends(testbed: NetnsTestbed, kind: str) -> None:
    tunnel = TunnelSpec(kind, "IPv6 inside", {"inside": "ipv6"})
    _, new = connections(testbed, tunnel, tests=(Test.CONNECT,), rate=("200",), duration_s=2.0)
    assert 398 <= new.begun <= 401
    assert new.begun == new.established == new.closed == new.accepted
    traffic = {"tests": (Test.CONCURRENT,), "most": 500, "opening_rate": 500.0}
    _, kept = connections(testbed, tunnel, **traffic)
    assert (kept.open_max, kept.not_established, kept.unsent) == (500, 0, 0)
