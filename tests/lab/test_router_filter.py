"""The router's packet filter of a plan: its counters agree with connections that were made, and it is proven."""

from __future__ import annotations

import sys

import pytest
from tests.lab.bench import NO_TUNNEL, check, open_tunnel
from tests.lab.lies import MidTrial, script, trial
from tests.watcher import Watcher

from tunnelbench.measure.router_filter import FILTER_CHECK, installed_filter, read_filter
from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.testbed.nftables_filter import FROM_CLIENT, FROM_ROUTER
from tunnelbench.testbed.router_filter import FILTER_NAME, NEW, TRANSLATED

pytestmark = pytest.mark.lab

STATEFUL = TunnelSpec("vxlan", "VXLAN stateful", {"firewall": "stateful"})
BEHIND_NAT = TunnelSpec("vxlan", "VXLAN behind NAT", {"firewall": "stateful-nat", "rules": 20})
CONNECTIONS = 7
PORT = 4321

LISTEN = f"""
import socket, sys
with socket.create_server((sys.argv[1], {PORT})) as listener:
    print("listening", flush=True)
    for _ in range({CONNECTIONS}):
        connection, peer = listener.accept()
        connection.close()
        print("peer", peer[0], flush=True)
print("end", flush=True)
"""
CONNECT = f"""
import socket, sys
for _ in range({CONNECTIONS}):
    with socket.create_connection((sys.argv[1], {PORT}), timeout=5) as connection:
        connection.recv(1)
"""


def peers_seen(bed: NetnsTestbed) -> list[str]:
    """Make CONNECTIONS connections from the client to the target; return the addresses that the server sees."""
    target = bed.addresses.target
    server = bed.server.start([sys.executable, "-c", LISTEN, target])
    try:
        assert server.wait_for("listening", 5), server.last_line()
        bed.client.run([sys.executable, "-c", CONNECT, target])
        assert server.wait_for("end", 5), server.last_line()
        return [line.split()[1] for line in server.output().splitlines() if line.startswith("peer")]
    finally:
        server.stop()


@pytest.mark.parametrize("firewall", [Firewall.STATEFUL, Firewall.STATEFUL_NAT])
def test_the_tracker_counts_as_many_connections_as_were_made(testbed: NetnsTestbed, firewall: Firewall) -> None:
    wanted = RouterFilter(firewall, rules=3)
    with open_tunnel(testbed, NO_TUNNEL), installed_filter(testbed, wanted) as installed:
        before = read_filter(testbed, wanted, installed)
        peers = peers_seen(testbed)
        after = read_filter(testbed, wanted, installed)
    assert before
    assert before.counters
    assert after
    assert after.counters
    assert (before.connections, after.connections) == (0, CONNECTIONS)
    assert after.counters[NEW][0] - before.counters[NEW][0] == CONNECTIONS
    assert after.rules == 3
    a = testbed.addresses
    if firewall.has_nat:
        assert peers == [a.router_wan] * CONNECTIONS
        assert after.counters[TRANSLATED][0] == CONNECTIONS
        assert after.seen
        assert after.seen[FROM_ROUTER][0] >= 3 * CONNECTIONS  # SYN, ACK, FIN
        assert after.seen[FROM_CLIENT][0] == 0
    else:
        assert peers == [a.client_lan] * CONNECTIONS
    assert FILTER_NAME not in testbed.router.run(["nft", "list", "ruleset"]).stdout


def test_trials_through_the_filter_are_proven_and_the_router_is_as_before(testbed: NetnsTestbed) -> None:
    for spec, way in ((STATEFUL, Direction.OUT), (BEHIND_NAT, Direction.IN)):
        record = trial(testbed, Watcher(), spec, way)
        assert check(record, FILTER_CHECK).verdict is Verdict.OK, check(record, FILTER_CHECK).reason
        assert check(record, "router-setup").verdict is Verdict.OK
        assert check(record, "path-setup").verdict is Verdict.OK
    assert testbed.router.run(["nft", "list", "ruleset"]).stdout == ""
    assert "tunnelbench-seen" not in testbed.server.run(["nft", "list", "ruleset"]).stdout
    plain = trial(testbed, Watcher())
    assert check(plain, FILTER_CHECK).reason == "the router tracked no new connection"


def test_a_trial_whose_stateful_rule_is_taken_away_is_void(testbed: NetnsTestbed) -> None:
    def take_away() -> None:
        testbed.router.run(["nft", "flush", "chain", "ip", FILTER_NAME, "trial"])

    record = trial(testbed, MidTrial(actions=[take_away]), STATEFUL)
    assert check(record, FILTER_CHECK).verdict is Verdict.VOID
    assert "packets were forwarded by the state of their connection" in check(record, FILTER_CHECK).reason


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("insert rule ip {0} trial counter name established accept", "'counter name"),
        ("add chain ip {0} unmet; add rule ip {0} unmet ip saddr 240.0.0.1 drop", "'chain unmet"),
    ],
)
def test_rules_that_are_changed_before_a_trial_make_it_void(testbed: NetnsTestbed, lie: str, words: str) -> None:
    def plant(_: object) -> None:
        testbed.router.run(["nft", lie.format(FILTER_NAME)])

    record = trial(testbed, Watcher(at_trial=plant), STATEFUL)
    found = check(record, FILTER_CHECK)
    assert found.verdict is Verdict.VOID
    assert f"the rules on the router were not those that were set up: {words}" in found.reason


def test_rules_that_an_earlier_trial_left_behind_make_a_trial_void(testbed: NetnsTestbed) -> None:
    table = f"table ip {FILTER_NAME}"
    with script(testbed.router, f"nft '{table} {{ chain left {{ accept; }}; }}'", f"nft delete {table}"):
        record = trial(testbed, Watcher())
    assert check(record, FILTER_CHECK).verdict is Verdict.VOID
    assert "of an earlier trial" in check(record, FILTER_CHECK).reason


def test_a_tracker_that_the_plan_does_not_ask_for_makes_a_trial_void(testbed: NetnsTestbed) -> None:
    tracker = "table ip lie { chain lie { type filter hook forward priority 0; ct state invalid drop; }; }"
    with script(testbed.router, f"nft '{tracker}'", "nft delete table ip lie"):
        record = trial(testbed, Watcher())
    assert check(record, FILTER_CHECK).verdict is Verdict.VOID
    assert "although the plan has no firewall" in check(record, FILTER_CHECK).reason
