"""A testbed with a virtual router, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tunnelbench.plan import read_testbed
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.qemu import QemuTestbed


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
