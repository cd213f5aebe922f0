"""A testbed with a virtual router, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.image import Image
from tunnelbench.qemu.programs import programs_text
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.qemu import NO_PROFILE, NOT_FIRST, QemuTestbed


@pytest.mark.parametrize(
    ("tester_cpus", "speed_mips", "goes_first"), [([0], 125.0, True), ([0], None, False), ([1], 125.0, False)]
)
def test_a_router_of_fixed_speed_goes_first_on_a_cpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tester_cpus: list[int],
    speed_mips: float | None,
    goes_first: bool,
) -> None:
    def share(_cpus: Sequence[int], _router_cpu: int | None) -> tuple[int, list[int], tuple[str, ...]]:
        return 1, tester_cpus, ()

    monkeypatch.setattr("tunnelbench.testbed.qemu.share_cpus", share)
    spec = replace(read_testbed("malta", KINDS).testbed, speed_mips=speed_mips)
    assert QemuTestbed(spec, "20260101-000000-abcdef", tmp_path).goes_first == goes_first


def test_with_a_gateway_the_devices_of_its_cable_get_the_mtu_too(tmp_path: Path) -> None:
    made = QemuTestbed(read_testbed("malta", KINDS).testbed, "20260101-000000-abcdef", tmp_path)
    places = [(host.name, device) for host, device in made._cable_devices()]
    assert places == [
        ("client", "lan"),
        ("router", "lan"),
        ("router", "wan"),
        ("gateway", "wan"),
        ("gateway", "far"),
        ("server", "far"),
    ]


@pytest.fixture
def with_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give each board an image, and this machine the programs that a virtual machine needs."""
    image = Image(tmp_path, "6.1.0-1", ("linux-image-6.1.0-1 6.1",))
    for name, value in {
        "cached_image": lambda _: image,
        "require_machine_programs": lambda _: None,
        "qemu_version": lambda _: "7.2",
    }.items():
        monkeypatch.setattr(f"tunnelbench.testbed.qemu.{name}", value)


@pytest.mark.usefixtures("with_image")
def test_a_machine_gets_the_programs_that_the_facts_name_if_a_build_replaces_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "openvpn").write_bytes(b"old")
    spec = replace(read_testbed("malta", KINDS).testbed, programs=str(folder))
    made = QemuTestbed(spec, "20260101-000000-abcdef", tmp_path)
    facts = made.look()
    (folder / "openvpn").write_bytes(b"new")
    handed: dict[str, Any] = {}

    def start(*_: object, **options: Any) -> SimpleNamespace:
        handed.update(options)
        return SimpleNamespace()

    monkeypatch.setattr("tunnelbench.testbed.qemu.VirtualMachine", start)
    made._start(made.router, MALTA, [])
    assert handed["programs"] == {"openvpn": b"old"}
    assert facts["guest_programs"] == programs_text(handed["programs"])


@pytest.mark.usefixtures("with_image")
@pytest.mark.parametrize(
    ("goes_first", "is_allowed", "is_noted"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_run_notes_that_qemu_may_not_run_before_other_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, goes_first: bool, is_allowed: bool, is_noted: bool
) -> None:
    monkeypatch.setattr("tunnelbench.testbed.qemu.can_run_first", lambda: is_allowed)
    made = QemuTestbed(read_testbed("malta", KINDS).testbed, "20260101-000000-abcdef", tmp_path)
    made.goes_first = goes_first
    made.look()
    assert (NOT_FIRST in made.notes) == is_noted


@pytest.mark.usefixtures("with_image")
@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("can_profile", [True, False])
def test_a_run_notes_that_qemu_cannot_count_instructions_by_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_asked: bool, can_profile: bool
) -> None:
    monkeypatch.setattr("tunnelbench.testbed.qemu.can_profile", lambda _: can_profile)
    spec = replace(read_testbed("malta", KINDS).testbed, profile=is_asked)
    made = QemuTestbed(spec, "20260101-000000-abcdef", tmp_path)
    made.look()
    assert made.has_profile == (is_asked and can_profile)
    assert (NO_PROFILE in made.notes) == (is_asked and not can_profile)


@pytest.mark.parametrize(
    ("goes_first", "is_allowed", "priority"), [(True, True, 1), (True, False, 0), (False, True, 0)]
)
def test_testers_run_before_other_programs_in_paced_trials_if_the_router_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, goes_first: bool, is_allowed: bool, priority: int
) -> None:
    monkeypatch.setattr("tunnelbench.testbed.qemu.polled", lambda *_: nullcontext({0: "polling"}))
    made = QemuTestbed(read_testbed("malta", KINDS).testbed, "20260101-000000-abcdef", tmp_path)
    made.goes_first = goes_first
    made.router.emulator = SimpleNamespace(in_realtime=lambda: nullcontext(is_allowed))  # type: ignore[assignment]
    with made.awake():
        assert {made.client.realtime_priority, made.server.realtime_priority} == {priority}
        assert made.pollers
    assert {made.client.realtime_priority, made.server.realtime_priority} == {0}
    assert not made.pollers
