"""Lines by name: their rates on any kernel. netem_lines.py tests their delay and loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.bench import check, make_plan, make_testbed, measure
from tests.lab.test_link import is_rate, usual_mbps
from tests.quiet import Reading

from tunnelbench.model.conditions import Conditions
from tunnelbench.model.lines import LINES, LineName
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.model.testbed import ROAD_WARRIOR, ROUTER_SERVER

pytestmark = pytest.mark.lab

SHARE_OF_TCP = 0.9415
"""Payload of full frames with TCP's time stamps, as a share of the rate of Ethernet."""


@pytest.mark.alone
@pytest.mark.parametrize("topology", [ROUTER_SERVER, ROAD_WARRIOR])
def test_a_line_has_its_rate_each_way_and_the_cable_comes_back(topology: str, tmp_path: Path) -> None:
    before = Reading.now()
    with_lines = make_testbed(tmp_path, topology=topology)
    with_lines.prepare_for([Conditions(line=LineName.VDSL)])
    with with_lines as testbed:
        queues = [testbed._queues_of(cable) for cable in testbed.cables]
        tunnel = TunnelSpec("none", "line", {"line": "vdsl"})
        plan = make_plan(tunnel, direction=(Direction.IN, Direction.OUT), duration_s=3, interval_s=0.25)
        records = measure(testbed, plan)
        assert [testbed._queues_of(cable) for cable in testbed.cables] == queues
    line = LINES[LineName.VDSL]
    rates = {Direction.IN: line.rate_in_mbps, Direction.OUT: line.rate_out_mbps}
    for record in records:
        assert record.outcome is Outcome.MEASURED, record.reason
        expected = rates[record.spec.direction] * SHARE_OF_TCP
        assert is_rate(usual_mbps(record), expected, 0.03, before), usual_mbps(record)
        said = check(record, "line")
        assert "50 Mbit/s down and 10 up" in said.reason
        assert (said.verdict is Verdict.NOTE) == ("no sch_netem" in said.reason)
        assert check(record, "path-setup").verdict is Verdict.OK
        assert record.tcp is not None
        assert record.tcp.physical_limit_bps == pytest.approx(expected * 1e6, rel=0.001)


def test_without_cables_that_can_be_shaped_a_line_is_unavailable(tmp_path: Path) -> None:
    with make_testbed(tmp_path) as testbed:
        (record,) = measure(testbed, make_plan(TunnelSpec("none", "line", {"line": "adsl"})))
    assert record.outcome is Outcome.UNAVAILABLE
