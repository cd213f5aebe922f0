"""The CPU share of a virtual router."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from tests.unit.builders import make_plan, make_spec, make_tcp, make_trial

from tunnelbench import cpu_share
from tunnelbench.cpu_share import LEAST_PERCENT, brief, find_share, lowered
from tunnelbench.measure.request import Observer, RunRequest, RunSink
from tunnelbench.model.counters import CpuUsage
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TrialRecord


def seen(router: float, far: float, tester: float = 0.1, tunnel: str = "none") -> TrialRecord:
    """A trial with these parts busy."""
    tcp = make_tcp()
    used = CpuUsage((0,), 1.0, 1.0 - router, router, 0.0, 0.0, 0.0)
    window = replace(tcp.window, router_cpu=used, busiest_tester_share=max(far, tester), far_end_busy_share=far)
    return make_trial(make_spec(tunnel=tunnel, direction=Direction.OUT), replace(tcp, window=window))


def test_where_the_router_is_the_limit_it_keeps_its_share() -> None:
    assert lowered(50, [seen(0.99, 0.8), seen(1.0, 0.6)]).percent == 50


def test_the_share_is_what_leaves_the_busiest_other_its_headroom() -> None:
    found = lowered(50, [seen(0.6, 0.97, tunnel="vxlan"), seen(0.9, 0.95), seen(1.0, 0.5)])
    assert found.percent == round(50 * 0.8 * 0.6 / 0.97)
    assert found.reason == "at 50 % the router was 60% busy with vxlan, 1448 up, the tunnel's far end 97%"


def test_a_testers_cpu_is_called_that() -> None:
    assert lowered(50, [seen(0.9, 0.5, tester=0.99)]).reason.endswith("a tester's CPU 99%")


def test_it_is_never_less_than_a_testbed_file_may_say() -> None:
    assert lowered(50, [seen(0.05, 1.0)]).percent == LEAST_PERCENT


def test_what_has_no_figure_says_nothing() -> None:
    assert lowered(50, [replace(seen(0.1, 1.0), measurement=None), seen(0.0, 1.0)]).percent == 50


def test_a_tunnel_is_tried_with_its_largest_packets_both_ways_for_a_short_time() -> None:
    found = brief(make_plan(3))
    assert found.rounds == 1
    assert found.tcp is not None
    assert (found.tcp.payload_bytes, found.tcp.duration_s) == ((1448,), cpu_share.TRIAL_S)
    assert found.tunnels == make_plan(3).tunnels


class Machine:
    """A testbed whose far end does what a router with 30 % of a CPU does in all of its time."""

    def __init__(self, percent: float, tried: list[float]) -> None:
        tried.append(percent)
        self.percent = percent

    def trial(self) -> TrialRecord:
        carried = min(1.0, 30 / self.percent)
        return seen(carried, carried * self.percent / 30)


def test_it_is_lowered_until_the_router_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []

    def run_plan(request: RunRequest, sink: RunSink) -> None:
        sink.keep(cast("Machine", request.testbed).trial())

    monkeypatch.setattr(cpu_share, "run_plan", run_plan)
    found = find_share(make_plan(), lambda percent: cast("Any", Machine(percent, tried)), Observer())
    assert tried[0] == 50
    assert found.percent == tried[-1] == pytest.approx(30 * 0.8, abs=1)
    assert "the tunnel's far end 100%" in found.reason
