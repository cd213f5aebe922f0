"""TCP that a plan paces: its trials, its command, its check and its place in the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_run, make_spec, make_tcp, make_trial, make_tunnel

from tunnelbench.analysis.limits import Limit
from tunnelbench.measure.checks import _sender
from tunnelbench.model.plan import FLAT_OUT, Direction, Plan, TcpTraffic
from tunnelbench.model.result import Sender, TrialRecord, TunnelProof, Verdict
from tunnelbench.report.document import compose
from tunnelbench.traffic import iperf3

BOTH = TcpTraffic((1448,), (Direction.IN,), rate_mbps=(FLAT_OUT, "100"))
IDLE = Sender(busy_s=0.1, receiver_window_s=0.0, send_buffer_s=0.0, rtt_ms=1.0)


def trial(load: str, mbps: float, cost: float) -> TrialRecord:
    spec = replace(make_spec(1 if load else 2, 1, "wireguard-go"), load=load)
    tcp = make_tcp(mbps * 1e6, cpu_s_per_million_packets=cost)
    return make_trial(spec, tcp, proof=TunnelProof((), is_encrypted=True))


def test_each_rate_of_a_plan_is_a_trial_and_the_calibration_is_not_paced() -> None:
    plan = Plan("p", "", (make_tunnel("none"),), BOTH, rounds=1)
    assert [spec.what for spec in plan.trials()] == ["1448 down", "1448 down at 100 Mbit/s"]
    assert [spec.load for spec in plan.calibrations()] == [""]


@pytest.mark.parametrize(("load", "streams", "bitrate"), [("", 1, None), ("100", 1, "100000000"), ("0.5", 4, "125000")])
def test_iperf3_gets_the_share_of_each_stream(load: str, streams: int, bitrate: str | None) -> None:
    argv = iperf3.client_command("10.0.0.1", replace(BOTH, streams=streams), 1448, Direction.IN, load)
    assert (argv[argv.index("--bitrate") + 1] if "--bitrate" in argv else None) == bitrate


@pytest.mark.parametrize(
    ("load", "mbps", "verdict", "words"),
    [
        ("100", 99.0, Verdict.OK, "the plan paces the sender at 100 Mbit/s, and 99.0% of that arrived"),
        ("100", 60.0, Verdict.NOTE, "60.0% of that arrived"),
        ("", 60.0, Verdict.DOUBTFUL, "application-limited"),
    ],
)
def test_a_paced_sender_is_no_slow_sender(load: str, mbps: float, verdict: Verdict, words: str) -> None:
    check = _sender(replace(make_tcp(mbps * 1e6), sender=IDLE), replace(make_spec(), load=load))
    assert check.verdict is verdict
    assert words in check.reason


def test_the_cpu_at_100_mbps_is_measured_where_the_plan_paces_tcp() -> None:
    document = compose(make_run(), [trial("", 400, 6.0), trial("100", 100, 8.0)])
    found = document.answer.tunnels[0].down
    assert found.is_cpu_measured
    assert found.cpu_share is not None
    assert found.cpu_share.median == pytest.approx(8633 * 1.5 * 8.0e-6, rel=1e-3)
    assert found.throughput_bps is not None
    assert found.throughput_bps.median == pytest.approx(400e6, rel=1e-3)
    assert not found.is_lower_bound
    limits = {row.load: [each.limit for each in own] for row, own in zip(document.rows, document.limits, strict=True)}
    assert limits["100"] == [Limit.APPLICATION]


@pytest.mark.parametrize(("mbps", "arrived"), [(60, False), (99, True)])
def test_only_a_rate_that_arrived_is_a_lower_bound_with_a_measured_cpu(mbps: float, arrived: bool) -> None:
    found = compose(make_run(), [trial("100", mbps, 8.0)]).answer.tunnels[0].down
    assert found.is_cpu_measured is arrived
    assert found.is_lower_bound is arrived, "the tunnel may carry more only if it carried all that was offered"
