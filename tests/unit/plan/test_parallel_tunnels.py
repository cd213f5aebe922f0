"""Parallel tunnels of a plan: traffic that leaves one of them idle is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.testbed import TestbedSpec

TUNNEL = '[[tunnel]]\nkind = "openvpn"\nreneg_sec = 2\nprocesses = [1, 2, 4]\n'
NETNS = TestbedSpec("lab", "netns")


@pytest.mark.parametrize(
    ("traffic", "refused"),
    [
        ("", [("tcp.streams is 1", "tcp.streams = 16"), ("tcp.streams is 1", "tcp.streams = 32")]),
        ("[tcp]\nstreams = 2\n", [("tcp.streams is 2", "tcp.streams = 32")]),
        ("[tcp]\nstreams = 4\n", []),
        ("[udp]\n", [("udp.flows is 1", "udp.flows = 16"), ("udp.flows is 1", "udp.flows = 32")]),
        ("[udp]\nflows = 3\n", [("udp.flows is 3", "udp.flows = 32")]),
        ("[udp]\nflows = 256\n", []),
        ("[connections]\n", []),
        ("[soak]\nrate = 100\n", [("one flow", "leave [soak] out")] * 2),
        ('[udp]\ntest = "rekey"\nrate = 100\n', [("one flow", "set processes = 1")] * 2),
    ],
)
def test_fewer_flows_than_tunnels_are_refused(traffic: str, refused: list[tuple[str, str]], tmp_path: Path) -> None:
    found = errors_of(tmp_path, traffic + TUNNEL, NETNS)
    assert len(found) == len(refused)
    for each, (reason, hint) in zip(found, refused, strict=True):
        assert "tunnel[1].processes: " in each
        assert reason in each
        assert each.endswith(hint)


@pytest.mark.parametrize("flows", ["0", "257", '"2"'])
def test_numbers_of_flows_that_the_engine_refuses_are_errors(flows: str, tmp_path: Path) -> None:
    (found,) = errors_of(tmp_path, f'[udp]\nflows = {flows}\n[[tunnel]]\nkind = "vxlan"\n', NETNS)
    assert found.startswith("2: udp.flows")


def test_the_gap_of_one_flow_is_not_measured_with_several(tmp_path: Path) -> None:
    text = '[udp]\ntest = "rekey"\nrate = 100\nflows = 2\n[[tunnel]]\nkind = "vxlan"\n'
    (found,) = errors_of(tmp_path, text, NETNS)
    assert "which the packets of others would fill: leave flows out" in found


def test_the_flows_are_part_of_the_plan(tmp_path: Path) -> None:
    udp = plan_of(tmp_path, '[udp]\nflows = 16\n[[tunnel]]\nkind = "vxlan"\n').udp
    assert udp is not None
    assert udp.flows == 16
