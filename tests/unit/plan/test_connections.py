"""`[connections]` of a plan: its trials, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import plan_of

from tunnelbench.model.plan import Direction, Test
from tunnelbench.plan import check_file
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import option_schemas

TUNNEL = '[[tunnel]]\nkind = "vxlan"\n'


def test_each_rate_and_the_number_of_open_ones_are_trials_of_each_tunnel(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f'rounds = 1\n[connections]\nrate = [100, "flat-out"]\nmost = 500\n{TUNNEL}')
    assert plan.tcp is None
    own = [(spec.test, spec.load, spec.direction) for spec in plan.trials() if spec.tunnel.kind == "vxlan"]
    assert own == [
        (Test.CONNECT, "100", Direction.OUT),
        (Test.CONNECT, "flat-out", Direction.OUT),
        (Test.CONCURRENT, "500", Direction.OUT),
    ]
    assert [(spec.test, spec.load) for spec in plan.calibrations()] == [(Test.CONNECT, "flat-out")]
    assert len(plan.trials()) == 6


def test_tcp_and_udp_may_be_measured_in_the_same_plan(tmp_path: Path) -> None:
    text = f'rounds = 1\n[tcp]\npayload_bytes = 1448\ndirection = "in"\n[connections]\ntest = "concurrent"\n{TUNNEL}'
    plan = plan_of(tmp_path, text)
    assert [spec.test for spec in plan.trials()] == [Test.TCP, Test.CONCURRENT] * 2
    assert plan.expected_duration_s() > 2 * (10_000 / 2000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rate = 0", 'must be 1 to 20,000 connections per second or "flat-out", not 0'),
        ("rate = 20001", "must be 1 to 20,000"),
        ("most = 28001", "must be at most 28000"),
        ('test = "storm"', "is not one of"),
    ],
)
def test_values_that_no_client_can_offer_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f"[connections]\n{line}\n{TUNNEL}")
    (found,) = check_file(str(path), option_schemas(), KINDS)
    assert found.line == 2
    assert message in found.message
