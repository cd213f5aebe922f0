"""A router with one or two CPUs: which CPUs it gets, how packets are steered to them, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import cast

import pytest
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.host.command import Completed
from tunnelbench.model.conditions import Conditions
from tunnelbench.model.errors import CannotHere, TunnelUnavailable
from tunnelbench.model.testbed import GATEWAY_PAIR, HostAccess, RouterSpec, TestbedSpec
from tunnelbench.plan import check_file, read_plan
from tunnelbench.testbed import KINDS, netns, refused_in_plans
from tunnelbench.testbed.netns import RPS_FILE, NetnsTestbed
from tunnelbench.testbed.router_cpus import LIST_AFFINITIES, ONLINE_FILE, RESTORE
from tunnelbench.testbed.ssh import SshTestbed
from tunnelbench.tunnel import option_schemas

PLAN = '[[tunnel]]\nkind = "vxlan"\nname = "V, {cpus}"\ncpus = [1, 2]\n'


@pytest.fixture
def cpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Give this process so many CPUs, each a core of its own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)))
    monkeypatch.setattr(netns, "core_of", lambda cpu: {cpu})


def lab_with(folder: Path) -> NetnsTestbed:
    return NetnsTestbed(TestbedSpec("lab", "netns"), "20250314-092653-abcdef", folder)


@pytest.mark.parametrize("cpus", [4], indirect=True)
@pytest.mark.usefixtures("cpus")
def test_a_second_cpu_is_taken_from_the_testers_for_the_whole_run(tmp_path: Path) -> None:
    testbed = lab_with(tmp_path)
    testbed.prepare_for([Conditions(), Conditions(cpus=2)])
    assert (testbed.router.cpus, testbed.client.cpus, testbed.server.cpus, testbed.local.cpus) == (
        (3,),
        (0, 1),
        (0, 1),
        (0, 1),
    )
    router = FakeHost("router", tmp_path)
    router.cpus = testbed.router.cpus
    testbed.router = router  # type: ignore[assignment]
    masks: list[tuple[str, str]] = []
    router.set_kernel_file = lambda path, value: masks.append((path, value))  # type: ignore[method-assign]
    with ExitStack() as undo:
        testbed.use_router_cpus(1, undo)
        assert masks == []
    with ExitStack() as undo:
        testbed.use_router_cpus(2, undo)
        assert sorted(router.cpus) == [2, 3]
        assert masks == [(RPS_FILE.format(device), "c") for device in ("lan", "wan")]
    assert router.cpus == (3,)
    assert masks[2:] == [(RPS_FILE.format(device), "8") for device in ("lan", "wan")]


@pytest.mark.parametrize("cpus", [4], indirect=True)
@pytest.mark.usefixtures("cpus")
def test_without_a_second_cpu_in_the_plan_the_testers_keep_theirs(tmp_path: Path) -> None:
    testbed = lab_with(tmp_path)
    testbed.prepare_for([Conditions()])
    assert (testbed.router.cpus, testbed.client.cpus) == ((3,), (0, 1, 2))
    with pytest.raises(TunnelUnavailable, match="one CPU for the router"):
        testbed.use_router_cpus(2, ExitStack())


@pytest.mark.parametrize("cpus", [3], indirect=True)
@pytest.mark.usefixtures("cpus")
def test_three_cpus_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(CannotHere, match="need 4 CPUs, two of them for the testers; this machine has 3"):
        lab_with(tmp_path).prepare_for([Conditions(cpus=2)])


@pytest.mark.parametrize(
    ("cpus", "gateway", "testers"), [(5, (3,), (0, 1, 2)), (3, (1,), (0,)), (2, (0,), (0,))], indirect=["cpus"]
)
@pytest.mark.usefixtures("cpus")
def test_a_gateway_gets_a_cpu_of_its_own_if_there_are_three(
    gateway: tuple[int, ...], testers: tuple[int, ...], tmp_path: Path
) -> None:
    testbed = NetnsTestbed(TestbedSpec("lab", "netns", topology=GATEWAY_PAIR), "20250314-092653-abcdef", tmp_path)
    assert (testbed.far_host.name, testbed.far_host.cpus) == ("gateway", gateway)
    assert testbed.client.cpus == testbed.server.cpus == testbed.local.cpus == testers
    is_shared = gateway == testers
    assert any("its own CPU time is unknown" in note for note in testbed.notes) is is_shared
    with pytest.raises(CannotHere, match=r"5 CPUs, .* one for the gateway") if len(testers) < 3 else nullcontext():
        testbed.prepare_for([Conditions(cpus=2)])


class FakeRouter(FakeHost):
    """A router behind SSH with two CPUs, whose kernel can switch `switchable` off."""

    def __init__(self, folder: Path) -> None:
        super().__init__("router", folder)
        self.cpus: tuple[int, ...] = (0, 1)
        self.switchable: tuple[int, ...] = (1,)
        self.done: list[tuple[str, ...]] = []

    def has_path(self, path: str) -> bool:
        return path in {ONLINE_FILE.format(cpu) for cpu in self.switchable}

    def shell(self, script: str) -> str:
        assert script == LIST_AFFINITIES
        return "/proc/irq/0/smp_affinity\n/proc/irq/24/smp_affinity 2\n/proc/irq/25/smp_affinity 3; reboot\n"

    def set_kernel_file(self, path: str, value: str) -> None:
        self.done.append((path, value))

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        self.done.append(("undo", *undo))

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        self.done.append(tuple(argv))
        return super().run(argv)


@pytest.fixture
def own_router(tmp_path: Path) -> SshTestbed:
    """A testbed with a real router; its plan gives the router two CPUs for a tunnel."""
    spec = TestbedSpec("mine", "ssh", router=RouterSpec(HostAccess("root@192.168.1.1")))
    testbed = SshTestbed(spec, "20250314-092653-abcdef", tmp_path)
    testbed.router = FakeRouter(tmp_path)  # type: ignore[assignment]
    testbed.prepare_for([Conditions(), Conditions(cpus=2)])
    return testbed


def test_a_real_router_has_its_second_cpu_and_its_interrupts_back_after_a_tunnel(own_router: SshTestbed) -> None:
    router = cast("FakeRouter", own_router.router)
    restore = ("sh", "-c", RESTORE, "sh", "/proc/irq/24/smp_affinity", "2")
    with ExitStack() as undo:
        own_router.use_router_cpus(1, undo)
        assert [*router.cpus] == [0]
        assert router.done == [("undo", *restore), (ONLINE_FILE.format(1), "0")]
    assert [*router.cpus] == [0, 1]
    assert router.done[2:] == [(ONLINE_FILE.format(1), "1"), restore]
    with ExitStack() as undo:
        own_router.use_router_cpus(2, undo)
        assert [*router.cpus] == [0, 1]
    assert len(router.done) == 4


def test_a_real_router_keeps_all_its_cpus_in_a_plan_that_chooses_none(own_router: SshTestbed) -> None:
    own_router.prepare_for([Conditions()])
    own_router.use_router_cpus(1, ExitStack())
    assert cast("FakeRouter", own_router.router).done == []


def test_a_real_router_that_cannot_have_so_many_cpus_says_why(own_router: SshTestbed) -> None:
    router = cast("FakeRouter", own_router.router)
    router.switchable = ()
    with pytest.raises(TunnelUnavailable, match=r"cannot switch its CPU 1 off \(CONFIG_HOTPLUG_CPU\)"):
        own_router.use_router_cpus(1, ExitStack())
    router.cpus = (0,)
    with pytest.raises(TunnelUnavailable, match=r"the router has 1 CPU$"):
        own_router.use_router_cpus(2, ExitStack())
    own_router.use_router_cpus(1, ExitStack())
    assert router.done == []


def errors(folder: Path, kind: str, text: str = PLAN) -> list[str]:
    path = folder / "plan.toml"
    path.write_text(text)
    found = check_file(str(path), option_schemas(), KINDS, refused=refused_in_plans(TestbedSpec("lab", kind)))
    return [f"{error.line}: {error.key}: {error.message}" for error in found]


@pytest.mark.parametrize(
    ("cpus", "kind", "message"),
    [
        (4, "netns", ""),
        (2, "netns", "cannot be chosen on testbed lab: 2 CPUs of the router need 4 CPUs, two of them for the testers"),
        (2, "ssh", ""),
        (4, "qemu", "cannot be chosen on testbed lab: the CPUs of the router can be chosen on testbeds of the kinds"),
    ],
    indirect=["cpus"],
)
@pytest.mark.usefixtures("cpus")
def test_check_says_where_the_cpus_of_a_router_cannot_be_chosen(kind: str, message: str, tmp_path: Path) -> None:
    found = errors(tmp_path, kind)
    assert len(found) == bool(message)
    assert all(each.startswith(f"4: tunnel[1].cpus: {message}") for each in found), found


def test_each_number_of_cpus_makes_a_tunnel(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    found = read_plan(str(path), option_schemas()).plan.tunnels[1:]
    assert [(each.name, each.conditions.cpus, dict(each.options).get("cpus")) for each in found] == [
        ("V, 1", 1, None),
        ("V, 2", 2, 2),
    ]
    assert str(Conditions(cpus=2)) == "cpus=2"
