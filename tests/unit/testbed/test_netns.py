"""The decisions that the testbed of namespaces makes before it changes anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tunnel.fakes import FakeHost, commands

from tunnelbench.host.host import LocalHost
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, TOPOLOGIES, Link, TestbedSpec
from tunnelbench.testbed import KINDS, netns, open_testbed
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.testbed.netns import RPS_FILE, NetnsTestbed, core_of, foreign_policies, share_cpus

CPUS = st.sets(st.integers(0, 1023), min_size=1, max_size=40).map(sorted)
RUN_ID = "20250314-092653-abcdef"


class KernelFiles(LocalHost):
    """A host that only remembers what is written into the kernel's files."""

    def __init__(self, cpus: list[int]) -> None:
        super().__init__("router", Path("/nowhere"), cpus)
        self.files: dict[str, str] = {}

    def set_kernel_file(self, path: str, value: str) -> None:
        self.files[path] = value


def rps_mask(cpus: list[int]) -> str:
    host = KernelFiles(cpus)
    NetnsTestbed(TestbedSpec("netns", "netns"), RUN_ID, Path("/nowhere"))._steer(host, "wan")
    return host.files["/sys/class/net/wan/queues/rx-0/rps_cpus"]


def cpus_of(mask: str) -> list[int]:
    """Return the CPUs of a mask as the kernel reads it (lib/bitmap-str.c): groups of 32 bits, the lowest group last."""
    groups = mask.split(",")
    assert all(1 <= len(group) <= 8 for group in groups)
    return [
        position * 32 + bit
        for position, group in enumerate(reversed(groups))
        for bit in range(32)
        if int(group, 16) >> bit & 1
    ]


@pytest.fixture(scope="module", autouse=True)
def cores() -> Iterator[dict[int, set[int]]]:
    """Every CPU is a core of its own, unless a test says otherwise."""
    siblings: dict[int, set[int]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netns, "core_of", lambda cpu: siblings.get(cpu, {cpu}))
        yield siblings
        siblings.clear()


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [
        ([0], "1"),
        ([1], "2"),
        ([0, 1, 2, 3], "f"),
        ([31], "80000000"),
        ([32], "1,00000000"),
        ([33, 0], "2,00000001"),
        ([64], "1,00000000,00000000"),
        ([127], "80000000,00000000,00000000,00000000"),
    ],
)
def test_packets_are_steered_by_a_mask_in_groups_of_32_cpus(cpus: list[int], mask: str) -> None:
    assert rps_mask(cpus) == mask


@pytest.mark.parametrize(
    ("name", "means"), [("queues/rx-0/rps_flow_cnt", "steered by flow (RFS)"), ("threaded", "processed by a thread")]
)
def test_packets_that_the_kernel_may_process_elsewhere_are_misplaced(name: str, means: str, tmp_path: Path) -> None:
    testbed, router = prepared(tmp_path)
    files = {"/proc/net/dev": NET_DEV, RPS_FILE.format("wan"): "2\n", f"/sys/class/net/wan/{name}": "1\n"}
    router.cpus = (1,)
    router.answer = lambda argv: files.get(argv[-1], "0\n")
    assert testbed.misplaced([]) == [f"packets of wan on the router are {means}"]


@given(CPUS)
def test_the_kernel_reads_the_same_cpus_from_the_mask(cpus: list[int]) -> None:
    assert cpus_of(rps_mask(cpus)) == cpus


@pytest.mark.parametrize(
    ("mask", "misplaced"),
    [
        ("6", []),
        ("2", []),
        ("7", ["packets of wan on the router are steered to CPU 0"]),
        ("0", ["packets of wan on the router are not steered to its CPUs"]),
    ],
)
def test_packets_may_be_steered_to_fewer_cpus_but_to_none_of_another_host(
    mask: str, misplaced: list[str], tmp_path: Path
) -> None:
    testbed, router = prepared(tmp_path)
    router.cpus = (1, 2)
    files = {"/proc/net/dev": NET_DEV, RPS_FILE.format("wan"): f"{mask}\n"}
    router.answer = lambda argv: files.get(argv[-1], "0\n")
    assert testbed.misplaced([]) == misplaced


NET_DEV = f"\n\nwan:{' 0' * 16}\n"
"""A device in /proc/net/dev, behind its two lines of headings."""


def prepared(folder: Path) -> tuple[NetnsTestbed, FakeHost]:
    """Return a testbed, and its router with the device `wan`; `tun0`, of a tunnel that was up earlier, has gone."""
    testbed = NetnsTestbed(TestbedSpec("netns", "netns"), RUN_ID, folder)
    client, router, server = (
        FakeHost(name, folder, lambda argv: "[{}]" if argv[0] == "ethtool" else "")
        for name in ("client", "router", "server")
    )
    for host in (client, router, server):
        setattr(testbed, host.name, host)
    for device in ("wan", "tun0"):
        testbed.prepare_tunnel_device(router, device)
    router.commands.clear()
    return testbed, router


def test_offloads_are_looked_for_on_devices_that_are_still_there(tmp_path: Path) -> None:
    testbed, router = prepared(tmp_path)
    features = json.dumps([{"generic-receive-offload": {"active": True}}])
    router.answer = lambda argv: features if argv[0] == "ethtool" else NET_DEV
    assert testbed.late_offloads() == {"wan on the router": ["generic-receive-offload"]}
    assert commands(router) == ["cat /proc/net/dev", "ethtool --json -k wan"]


@given(CPUS)
def test_the_router_has_the_last_cpu_for_itself_and_the_testers_all_others(available: list[int]) -> None:
    router, testers, notes = share_cpus(available, None)
    assert router == available[-1]
    if len(available) == 1:
        assert testers == (router,)
    else:
        assert [*testers, router] == available
    assert bool(notes) == (len(available) < 4)


def test_a_testbed_may_name_the_routers_cpu() -> None:
    assert share_cpus([0, 1, 2, 3, 4], 2) == (2, (0, 1, 3, 4), ())


def test_a_cpu_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(CannotHere, match=r"router_cpu = 7 .*\(0, 2\)"):
        share_cpus([0, 2], 7)


@pytest.mark.parametrize(
    ("available", "words"),
    [
        ([0], "one CPU only: router and testers share it"),
        ([0, 1], "2 CPUs: client, server and the tunnel's far end share 1 "),
        ([0, 1, 2], "3 CPUs: client, server and the tunnel's far end share 2 "),
    ],
)
def test_too_few_cpus_are_reported(available: list[int], words: str) -> None:
    (note,) = share_cpus(available, None)[2]
    assert note.startswith(words)


def test_a_router_that_shares_its_core_with_a_tester_is_reported(cores: dict[int, set[int]]) -> None:
    cores[7] = {3, 7}
    try:
        _, testers, notes = share_cpus(range(8), None)
    finally:
        cores.clear()
    assert testers == (0, 1, 2, 3, 4, 5, 6)
    assert notes == ("CPU 7 of the router is one core with CPU 3 of the testers: each slows the other",)


def test_a_cpu_that_the_kernel_does_not_describe_is_a_core_of_its_own() -> None:
    assert core_of(100_000) == {100_000}


def test_namespaces_are_named_by_the_end_of_the_run() -> None:
    testbed = open_testbed(TestbedSpec("netns", "netns"), RUN_ID, Path("/nowhere"))
    assert isinstance(testbed, NetnsTestbed)
    names = [host.namespace for host in (testbed.client, testbed.router, testbed.server)]
    assert names == ["tb-abcdef-client", "tb-abcdef-router", "tb-abcdef-server"]


def test_router_and_testers_get_their_cpus() -> None:
    available = sorted(os.sched_getaffinity(0))
    testbed = open_testbed(TestbedSpec("netns", "netns", router_cpu=available[0]), RUN_ID, Path("/nowhere"))
    assert testbed.router.cpus == (available[0],)
    assert testbed.client.cpus == testbed.server.cpus == testbed.local.cpus


def test_a_user_who_is_not_root_gets_an_error_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    testbed = open_testbed(TestbedSpec("netns", "netns"), RUN_ID, tmp_path / "run")
    with pytest.raises(CannotHere, match="need root") as caught:
        testbed.set_up()
    assert "root" in caught.value.hint
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("link", "needed"),
    [
        (Link(), False),
        (Link(mtu_bytes=9000), False),
        (Link(rate_in_mbps=100), True),
        (Link(rate_out_mbps=100), True),
        (Link(delay_ms=5), True),
    ],
)
def test_only_a_link_that_shapes_needs_a_cable(link: Link, needed: bool) -> None:
    assert link.needs_cable is needed


class Recorded(Testbed):
    """A testbed that makes nothing and says what is asked of it."""

    kind = "recorded"

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(TestbedSpec("recorded", "recorded"), RUN_ID, Path("/nowhere"))
        self.calls: list[str] = []
        self.error = error

    def set_up(self) -> None:
        self.calls.append("set up")
        if self.error:
            raise self.error

    def take_down(self) -> None:
        self.calls.append("take down")

    def prepare_tunnel_device(self, host: object, device: str) -> None:
        raise NotImplementedError

    def back_to_back(self) -> AbstractContextManager[BackToBack]:
        raise NotImplementedError


@pytest.mark.parametrize("error", [CannotHere("no"), KeyboardInterrupt(), SystemExit(143)])
def test_a_testbed_that_cannot_be_set_up_is_taken_down_and_the_reason_is_reported(error: BaseException) -> None:
    testbed = Recorded(error)
    with pytest.raises(type(error)), testbed:
        testbed.calls.append("used")
    assert testbed.calls == ["set up", "take down"]


def test_a_testbed_is_taken_down_whatever_happens_in_it() -> None:
    testbed = Recorded()

    def use() -> None:
        with testbed:
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        use()
    assert testbed.calls == ["set up", "take down"]


def test_every_kind_of_testbed_is_found_by_its_name() -> None:
    assert sorted(KINDS) == ["netns", "qemu", "simulated", "ssh"]
    assert {name: kind.kind for name, kind in KINDS.items()} == {name: name for name in KINDS}


def test_the_topology_names_the_tunnels_cable_and_the_source_of_client_traffic() -> None:
    found = {}
    for topology in TOPOLOGIES:
        testbed = NetnsTestbed(TestbedSpec("mine", "netns", topology=topology), RUN_ID, Path("/nowhere"))
        tester, device = testbed.tunnel_cable
        found[topology] = (tester.name, device, testbed.client_address)
    assert found == {
        ROUTER_SERVER: ("server", "wan", "198.18.1.2"),
        ROAD_WARRIOR: ("client", "lan", "198.18.6.1"),
        GATEWAY_PAIR: ("gateway", "wan", "198.18.1.2"),
    }


def test_each_host_is_closed_although_another_one_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def close(host: NamespaceHost) -> None:
        closed.append(host.name)
        if host.name != "server":
            raise CannotHere(f"{host.name} stays")

    monkeypatch.setattr(NamespaceHost, "close", close)
    with pytest.raises(CannotHere, match="stays"):
        NetnsTestbed(TestbedSpec("lab", "netns"), RUN_ID, tmp_path).take_down()
    assert closed == ["client", "router", "server"]


POLICIES = """\
src 203.0.113.0/24 dst 203.0.113.0/24
\tdir fwd priority 0 ptype main
src 10.1.1.0/24 dst 10.2.2.0/24
\tdir out priority 0 ptype main
\ttmpl src 198.18.2.1 dst 198.18.2.2
\t\tproto esp reqid 1 mode tunnel
src 0.0.0.0/0 dst 0.0.0.0/0
\tsocket in priority 0 ptype main
"""


def test_policies_of_tunnels_and_of_sockets_are_not_foreign() -> None:
    assert foreign_policies(POLICIES) == ["src 203.0.113.0/24 dst 203.0.113.0/24"]
    assert foreign_policies("") == []


@pytest.mark.parametrize(
    ("mtu_bytes", "rate_mbps", "burst_bytes"), [(1500, 10, 3100), (9000, 10, 18100), (1500, 1000, 31250)]
)
def test_the_burst_of_a_cable_holds_two_frames(
    mtu_bytes: int, rate_mbps: float, burst_bytes: int, tmp_path: Path
) -> None:
    spec = TestbedSpec("netns", "netns", link=Link(rate_in_mbps=rate_mbps, mtu_bytes=mtu_bytes))
    cable = FakeHost("cable-wan", tmp_path)
    NetnsTestbed(spec, RUN_ID, tmp_path)._limit_rate(cable, "near", rate_mbps, ["root"])  # type: ignore[arg-type]
    (found,) = commands(cable)
    assert f"burst {burst_bytes} " in found
