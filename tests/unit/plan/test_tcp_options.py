"""The options `window_bytes` and `write_bytes`, which every tunnel has and `[tcp]` gives to all tunnels of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_filters import errors
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.conditions import Conditions, conditions_of
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.tunnel import adapters

BLOCK = '[[tunnel]]\nkind = "{kind}"\nwindow_bytes = [0, 65536]\nwrite_bytes = [131072, 8192]\n'
SIZES = [(0, 131_072), (0, 8192), (65_536, 131_072), (65_536, 8192)]
IN_TCP = '[tcp]\nwindow_bytes = 65536\n[[tunnel]]\nkind = "vxlan"\nwrite_bytes = 8192\n'


def sizes_of(conditions: Conditions) -> tuple[int, int]:
    return conditions.window_bytes, conditions.write_bytes


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_tunnel_has_a_window_and_a_size_of_writes(kind: str, tmp_path: Path) -> None:
    own = [tunnel for tunnel in plan_of(tmp_path, BLOCK.format(kind=kind)).tunnels if tunnel.kind == kind]
    assert [sizes_of(tunnel.conditions) for tunnel in own] == SIZES
    named = "no tunnel" if kind == "none" else kind
    assert [tunnel.name for tunnel in own] == [f"{named} window_bytes={window} write_bytes={w}" for window, w in SIZES]


def test_the_usual_sizes_are_no_options_and_others_are_in_the_name(tmp_path: Path) -> None:
    text = BLOCK.format(kind="vxlan") + 'name = "V"\n'
    usual, *_, other = plan_of(tmp_path, text).tunnels[1:]
    assert (usual.name, other.name) == ("V", "V window_bytes=65536 write_bytes=8192")
    assert not usual.options.keys() & {"window_bytes", "write_bytes"}
    assert (other.options["window_bytes"], other.options["write_bytes"]) == (65_536, 8192)
    named = plan_of(tmp_path, text.replace('"V"', '"V, {window_bytes}"')).tunnels[1:]
    names = ["V, 0", "V, 0 write_bytes=8192", "V, 65536", "V, 65536 write_bytes=8192"]
    assert [tunnel.name for tunnel in named] == names


def test_the_values_of_tcp_are_those_of_each_tunnel_without_its_own(tmp_path: Path) -> None:
    text = (
        "[tcp]\nwindow_bytes = [0, 65536]\nwrite_bytes = 8192\n"
        '[[tunnel]]\nkind = "none"\nname = "plain"\n'
        '[[tunnel]]\nkind = "vxlan"\nname = "V"\n'
        '[[tunnel]]\nkind = "gre"\nname = "G"\nwindow_bytes = 4096\nwrite_bytes = 131072\n'
    )
    plan = plan_of(tmp_path, text)
    assert [(tunnel.name, *sizes_of(tunnel.conditions)) for tunnel in plan.tunnels] == [
        ("no tunnel", 0, 131_072),
        ("plain write_bytes=8192", 0, 8192),
        ("plain window_bytes=65536 write_bytes=8192", 65_536, 8192),
        ("V write_bytes=8192", 0, 8192),
        ("V window_bytes=65536 write_bytes=8192", 65_536, 8192),
        ("G window_bytes=4096", 4096, 131_072),
    ]
    assert [tunnel.is_baseline for tunnel in plan.tunnels] == [True, *[False] * 5]


def test_the_baseline_of_a_list_is_the_one_with_the_usual_sizes(tmp_path: Path) -> None:
    text = '[tcp]\nwindow_bytes = [65536, 0]\n[[tunnel]]\nkind = "none"\nname = "plain"\n'
    assert [(each.name, each.is_baseline) for each in plan_of(tmp_path, text).tunnels] == [
        ("plain", True),
        ("plain window_bytes=65536", False),
    ]


def test_sizes_that_no_plan_has_count_as_usual() -> None:
    odd: list[dict[str, object]] = [
        {"window_bytes": "64K", "write_bytes": True},
        {"window_bytes": -1, "write_bytes": 0},
        {"window_bytes": 1.5, "write_bytes": None},
    ]
    assert [conditions_of(options) for options in odd] == [Conditions()] * 3


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("window_bytes = 4095", "window_bytes: must be 0 or at least 4096, not 4095"),
        ("window_bytes = -1", "window_bytes: must be at least 0, not -1"),
        ("window_bytes = 268435457", "window_bytes: must be at most 268435456, not 268435457"),
        ('window_bytes = "64K"', 'window_bytes: must be a whole number, not the string "64K"'),
        ("write_bytes = 0", "write_bytes: must be at least 1, not 0"),
        ("write_bytes = 1048577", "write_bytes: must be at most 1048576, not 1048577"),
    ],
)
def test_other_sizes_are_refused(key: str, error: str, tmp_path: Path) -> None:
    assert errors(tmp_path, f'[[tunnel]]\nkind = "vxlan"\n{key}\n') == [f"tunnel[1].{error}"]
    assert errors(tmp_path, f'[tcp]\n{key}\n[[tunnel]]\nkind = "vxlan"\n') == [f"tcp.{error}"]


@pytest.mark.parametrize("key", ["bytes", "amount", "amount_mb", "amount_bytes"])
def test_an_amount_in_place_of_the_duration_is_refused_with_the_reason(key: str, tmp_path: Path) -> None:
    (error,) = errors(tmp_path, f'[tcp]\n{key} = 1000\n[[tunnel]]\nkind = "vxlan"\n')
    assert error.startswith(f"tcp.{key}: a TCP trial has a duration and no amount of data, which would take minutes")
    assert error.endswith("set tcp.duration_s")


@pytest.mark.parametrize("other", ["[udp]", "[connections]", "[soak]\nrate = 1000"])
def test_other_traffic_has_no_such_sizes(other: str, tmp_path: Path) -> None:
    text = f"{other}\n[tcp]\nwindow_bytes = [0, 65536]\nwrite_bytes = 131072\n{BLOCK.format(kind='vxlan')}"
    reason = f"is for the TCP of iperf3 only: leave {other.partition(']')[0]}] out"
    assert errors(tmp_path, text) == [
        f"tcp.window_bytes: 65536 {reason}",
        f"tunnel[1].window_bytes: 65536 {reason}",
        f"tunnel[1].write_bytes: 8192 {reason}",
    ]
    assert errors(tmp_path, f'{other}\n[tcp]\nwindow_bytes = 0\n[[tunnel]]\nkind = "vxlan"\n') == []


def test_a_simulated_testbed_has_no_model_of_the_sizes(tmp_path: Path) -> None:
    found = errors_of(tmp_path, IN_TCP, TestbedSpec("model", "simulated"))
    assert [each.partition(" cannot run")[0] for each in found] == ["2: tcp.window_bytes:", "5: tunnel[1].write_bytes:"]
    assert all(each.endswith("has a model of the usual buffers and writes of iperf3") for each in found)


def test_a_window_is_refused_beside_a_router_of_fixed_speed(tmp_path: Path) -> None:
    assert errors_of(tmp_path, IN_TCP, TestbedSpec("slow", "qemu", board="malta")) == []
    (found,) = errors_of(tmp_path, IN_TCP, TestbedSpec("slow", "qemu", board="malta", speed_mips=125.0))
    assert found.startswith("2: tcp.window_bytes: cannot be chosen on testbed slow: beside a router of fixed speed")
    in_tunnel = IN_TCP.replace("write_bytes = 8192", "window_bytes = [4096, 8192]")
    found_in_both = errors_of(tmp_path, in_tunnel, TestbedSpec("slow", "qemu", board="malta", speed_mips=125.0))
    assert [each.partition(": cannot")[0] for each in found_in_both] == [
        "2: tcp.window_bytes",
        "5: tunnel[1].window_bytes",
    ]
