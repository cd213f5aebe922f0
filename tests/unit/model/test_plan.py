"""The expected duration of a plan."""

from __future__ import annotations

import pytest

from tunnelbench.model.plan import Direction, Plan, TcpTraffic, Test, TrialSpec, TunnelSpec, UdpTraffic

PLAN = Plan("p", "", (), TcpTraffic(duration_s=7), udp=UdpTraffic(repeats=2, search_limit_s=50.0, confirm_s=9.0))


@pytest.mark.parametrize(
    "test", [Test.TCP, Test.RATE, Test.ECHO, Test.SEARCH, Test.LOSS_CURVE, Test.BURST, Test.LATENCY]
)
def test_no_trial_is_expected_to_take_longer_than_the_longest(test: Test) -> None:
    spec = TrialSpec(1, 1, TunnelSpec("none", "none"), 18, Direction.OUT, test)
    assert 0 < PLAN.expected_trial_s(spec) <= PLAN.longest_trial_s(spec)
    if test is Test.SEARCH:
        assert PLAN.longest_trial_s(spec) >= 2 * 50.0 + 9.0
    if test is Test.TCP:
        assert PLAN.longest_trial_s(spec) < 8
