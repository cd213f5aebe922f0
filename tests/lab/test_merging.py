"""Testers that merge packets are cheaper, cost the router nothing, and put one packet into each frame."""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import fmean

import pytest
from tests.lab.bench import NO_TUNNEL, check, make_plan, measure
from tests.lab.lies import MidTrial
from tests.lab.merged import BothWays, Row, measure_in_turn

from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord, Verdict
from tunnelbench.testbed.merging import THREADED_FILE, polling_threads
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = [pytest.mark.lab, pytest.mark.alone]

LONGEST_FRAME_BYTES = 1514


@pytest.fixture(scope="module")
def rows(lab_obstacle: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Row, BothWays]:
    """Trials of both kinds of testers in turn; `benches/merging.py` prints such figures with their targets."""
    if lab_obstacle:
        pytest.skip(lab_obstacle)
    return measure_in_turn(tmp_path_factory.mktemp("merging"), rounds=8, duration_s=1)


def test_testers_that_merge_packets_carry_more(rows: dict[Row, BothWays]) -> None:
    gains = {row: both.gain for row, both in rows.items()}
    assert len(gains) == 4
    assert fmean(gains.values()) > 1, gains


def test_a_packet_costs_the_router_the_same_if_testers_merge(rows: dict[Row, BothWays]) -> None:
    costs = {row: both.router_cost for row, both in rows.items()}
    assert fmean(costs.values()) < 1.1, costs


def test_each_frame_is_one_packet(rows: dict[Row, BothWays]) -> None:
    for both in rows.values():
        for record in both.merged:
            assert "merged after they had arrived" in check(record, "offloads").reason
            assert check(record, "merged-frames").verdict is Verdict.OK, record
            assert longest_mean_bytes(record) <= LONGEST_FRAME_BYTES


def longest_mean_bytes(record: TrialRecord) -> float:
    """Return the largest mean length of the frames of a device and a direction in a trial [bytes]."""
    before, after = record.raw["counters_before"], record.raw["counters_after"]
    means: list[float] = []
    for host in ("client", "router", "server"):
        for device, later in after[host]["devices"].items():
            earlier = before[host]["devices"][device]
            for way in ("rx", "tx"):
                packets = later[f"{way}_packets"] - earlier[f"{way}_packets"]
                means.append((later[f"{way}_bytes"] - earlier[f"{way}_bytes"]) / max(1, packets))
    return max(means)


def test_the_tester_at_the_end_of_the_tunnel_merges_nothing(testbed: NetnsTestbed) -> None:
    both = (Direction.IN, Direction.OUT)
    for spec in (NO_TUNNEL, TunnelSpec("vxlan", "vxlan")):
        for record in measure(testbed, make_plan(spec, direction=both)):
            reason = check(record, "offloads").reason
            assert "lan on the client (CPU" in reason
            assert ("wan on the server" in reason) == (spec is NO_TUNNEL)
            assert check(record, "merged-frames").verdict is Verdict.OK
            assert check(record, "outer-protocol-in-trial").verdict is Verdict.OK
            assert check(record, "router-setup").verdict is Verdict.OK


def merges_on_the_routers_cpu(testbed: NetnsTestbed) -> None:
    testbed.client.set_kernel_file(THREADED_FILE.format("lan"), "0")


def moves_the_thread_to_the_router(testbed: NetnsTestbed) -> None:
    for thread in polling_threads("lan"):
        os.sched_setaffinity(thread, testbed.router.cpus)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (merges_on_the_routers_cpu, "packets of lan on the client are merged on the CPU of their sender"),
        (moves_the_thread_to_the_router, "packets of lan on the client may be processed on CPU"),
    ],
)
def test_merging_on_the_routers_cpu_is_void(
    testbed: NetnsTestbed, lie: Callable[[NetnsTestbed], None], words: str
) -> None:
    watcher = MidTrial(actions=[lambda: lie(testbed)])
    (record,) = measure(testbed, make_plan(NO_TUNNEL, direction=(Direction.IN,), duration_s=3), watcher)
    found = check(record, "router-setup")
    assert found.verdict is Verdict.VOID
    assert words in found.reason


def test_nothing_is_left_of_the_threads(testbed: NetnsTestbed) -> None:
    testbed.let_testers_merge(True, has_tunnel=False)
    assert len(polling_threads("lan")) == 1
    testbed.let_testers_merge(False, has_tunnel=False)
    assert polling_threads("lan") == set()
    assert testbed.late_offloads() == {}
    assert testbed.misplaced([]) == []
