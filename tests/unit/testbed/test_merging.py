"""Testers whose devices merge packets: what is switched on, and what is undone where it cannot be had."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.tunnel.fakes import FakeHost, commands

from tunnelbench.host.command import Completed, run_command
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec
from tunnelbench.testbed import merging
from tunnelbench.testbed.merging import NOT_SEEN, TOO_OLD, CannotMerge, merge
from tunnelbench.testbed.netns import NetnsTestbed

ON = "ethtool -K lan generic-receive-offload on generic-segmentation-offload on"
OFF = "ethtool -K lan generic-receive-offload off generic-segmentation-offload off"
THREADED = "tee /sys/class/net/lan/threaded"


class OldHost(FakeHost):
    """A host whose kernel has no file `threaded`."""

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        done = super().run(argv)
        return run_command(["false"]) if argv[0] == "tee" else done


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Sequence[int]]]:
    """Threads that were bound, and their CPUs; none is bound in truth."""
    found: list[tuple[int, Sequence[int]]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: found.append((thread, cpus)))
    return found


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads that the kernel starts for the next device."""
    started: list[int] = []
    looks = []

    def polling(_device: str) -> set[int]:
        looks.append(1)
        return {1} | (set(started) if len(looks) % 2 == 0 else set())

    monkeypatch.setattr(merging, "polling_threads", polling)
    return started


def test_the_new_thread_of_the_device_is_bound_to_the_testers_cpus(
    threads: list[int], bound: list[tuple[int, Sequence[int]]], tmp_path: Path
) -> None:
    threads.append(7)
    host = FakeHost("client", tmp_path)
    made = merge(host, "lan")
    assert made.threads == {7}
    assert bound == [(7, (0,))]
    assert commands(host) == [ON, THREADED]
    made.stop()
    assert commands(host)[2:] == [THREADED, OFF]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("kind", "reason"), [(FakeHost, NOT_SEEN), (OldHost, TOO_OLD)])
def test_a_device_that_cannot_merge_on_the_testers_cpus_is_switched_back(
    kind: type[FakeHost], reason: str, tmp_path: Path
) -> None:
    host = kind("client", tmp_path)
    with pytest.raises(CannotMerge) as caught:
        merge(host, "lan")
    assert str(caught.value) == reason
    assert commands(host)[-1] == OFF


@pytest.mark.parametrize(
    ("topology", "without", "through"),
    [
        (ROUTER_SERVER, ["lan", "wan"], ["lan"]),
        (ROAD_WARRIOR, ["lan", "wan"], ["wan"]),
        (GATEWAY_PAIR, ["far", "lan"], ["far", "lan"]),
    ],
)
def test_a_tester_that_ends_the_tunnel_merges_nothing(
    topology: str, without: list[str], through: list[str], threads: list[int], tmp_path: Path
) -> None:
    testbed = NetnsTestbed(TestbedSpec("netns", "netns", topology=topology), "20250314-092653-abcdef", tmp_path)
    for name in ("client", "server"):
        setattr(testbed, name, FakeHost(name, tmp_path))
    threads.append(7)
    found = []
    for has_tunnel in (False, True, False):
        testbed.let_testers_merge(True, has_tunnel=has_tunnel)
        found.append(sorted(device for _, device in testbed._merging))
    assert found == [without, through, found[0]]
    testbed.let_testers_merge(False, has_tunnel=False)
    assert testbed.merging == ""


def test_a_testbed_asks_once_and_says_why_the_testers_merge_nothing(threads: list[int], tmp_path: Path) -> None:
    testbed = NetnsTestbed(TestbedSpec("netns", "netns"), "20250314-092653-abcdef", tmp_path)
    testbed.client = client = FakeHost("client", tmp_path)  # type: ignore[assignment]
    for _ in range(2):
        testbed.let_testers_merge(True, has_tunnel=True)
    assert commands(client).count(ON) == 1
    assert testbed.merging == f"the testers received each packet by itself: {NOT_SEEN}"
