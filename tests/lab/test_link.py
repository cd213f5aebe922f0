"""A link with a rate is Ethernet of that rate, and trials on it agree with iperf3 run by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import quantiles

import pytest
from tests.lab.bench import NO_TUNNEL, check, iperf3, make_plan, make_testbed, measure
from tests.quiet import Reading
from tests.watcher import Watcher

from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.tcp_trial import TcpMeter
from tunnelbench.model.frames import tcp_limit_bps, wire_bytes
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TcpMeasurement, TrialRecord, Verdict
from tunnelbench.model.testbed import Link
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = [pytest.mark.lab, pytest.mark.alone]

BOTH = (Direction.IN, Direction.OUT)


def usual_mbps(record: TrialRecord) -> float:
    """Return the rate of the link while the machine runs without pauses: the upper quartile of the readings [Mbit/s].

    A pause of the virtual machine lowers a reading, and a shaper does not make up for it.
    """
    assert record.tcp is not None, record.reason
    lengths_s = [reading.end_s - reading.start_s for reading in record.tcp.intervals]
    whole = [reading for reading, length_s in zip(record.tcp.intervals, lengths_s, strict=True) if length_s > 0.2]
    return quantiles([reading.bytes * 8 / (reading.end_s - reading.start_s) for reading in whole], n=4)[2] / 1e6


def is_rate(found_mbps: float, expected_mbps: float, tolerance: float, before: Reading) -> bool:
    """Return True for the expected rate. The hypervisor may lower it by the share of CPU time that it has taken."""
    now = Reading.now()
    stolen = (now.stolen_s - before.stolen_s) / (now.all_s - before.all_s)
    return 1 - tolerance - stolen <= found_mbps / expected_mbps <= 1 + tolerance


def test_a_link_of_100_mbit_carries_what_fast_ethernet_does_both_ways(fast_ethernet: NetnsTestbed) -> None:
    before = Reading.now()
    records = measure(fast_ethernet, make_plan(NO_TUNNEL, direction=BOTH, duration_s=3, interval_s=0.25))
    for record in records:
        assert is_rate(usual_mbps(record), 94.15, 0.01, before), check(record, "foreign-load").reason
        assert record.tcp is not None
        assert record.tcp.throughput_bps < 94.15e6 * 1.005
        assert is_rate(record.tcp.throughput_bps / 1e6, 94.15, 0.2, before)
        assert record.tcp.retransmits is not None
        assert record.tcp.retransmits <= record.tcp.counters.data_packets * 0.002  # slow start overshoots once
        assert record.tcp.mss_bytes == 1448
        assert record.tcp.physical_limit_bps == pytest.approx(94.15e6, rel=0.0002)
        assert check(record, "physical-limit").verdict is Verdict.OK
        assert check(record, "packet-rate").verdict is Verdict.OK
        assert check(record, "drops").verdict is Verdict.OK


def test_a_link_may_be_faster_one_way_than_the_other(lab: None, tmp_path: Path) -> None:
    before = Reading.now()
    with make_testbed(tmp_path / "run", Link(rate_in_mbps=20, rate_out_mbps=50)) as testbed:
        records = measure(testbed, make_plan(NO_TUNNEL, direction=BOTH, duration_s=3, interval_s=0.25))
    found = {record.spec.direction: usual_mbps(record) for record in records}
    assert is_rate(found[Direction.IN], 20 * 0.9415, 0.02, before)
    assert is_rate(found[Direction.OUT], 50 * 0.9415, 0.02, before)


def test_small_segments_take_the_wire_that_their_headers_and_gaps_do(lab: None, tmp_path: Path) -> None:
    before = Reading.now()
    with make_testbed(tmp_path / "run", Link(rate_in_mbps=10, rate_out_mbps=10)) as testbed:
        (record,) = measure(testbed, make_plan(NO_TUNNEL, payload_bytes=(76,), duration_s=3, interval_s=0.25))
    limit_bps = tcp_limit_bps(10, 76, wire_bytes, 1500)
    assert is_rate(usual_mbps(record), limit_bps / 1e6, 0.03, before)
    assert record.tcp is not None
    assert record.tcp.mss_bytes == 76
    assert record.tcp.throughput_bps <= limit_bps * 1.005


def by_hand(testbed: NetnsTestbed) -> float:
    """Return the throughput of iperf3 run by hand in the namespaces [bit/s]."""
    target = testbed.addresses.target
    inside = ["ip", "netns", "exec"]
    server = subprocess.Popen(
        [*inside, testbed.server.namespace, "iperf3", "--server", "--one-off", "--bind", target, "--forceflush"],
        stdout=subprocess.PIPE,
    )
    with server:
        assert server.stdout is not None
        server.stdout.readline()
        server.stdout.readline()  # "Server listening"
        found = iperf3([*inside, testbed.client.namespace, "iperf3", "--client", target, "--time", "2"])
    throughput: float = found["end"]["sum_received"]["bits_per_second"]
    return throughput


def test_trials_agree_with_iperf3_by_hand_in_the_same_namespaces(fast_ethernet: NetnsTestbed) -> None:
    plan = make_plan(NO_TUNNEL, duration_s=2)
    (spec,) = plan.trials()
    assert plan.tcp is not None
    meter = TcpMeter(fast_ethernet, plan.tcp, Watcher().second_passed)
    ours, theirs = [], []
    with on_cpus(fast_ethernet.local.cpus), LiveTunnel(fast_ethernet, NO_TUNNEL) as live:
        install_outer_counters(fast_ethernet, live.tunnel.outer)
        meter.warm_up(live.tunnel)
        for _ in range(3):
            found = meter.measure(spec, live).measurement
            assert isinstance(found, TcpMeasurement)
            ours.append(found.throughput_bps)
            theirs.append(by_hand(fast_ethernet))
    assert max(ours) == pytest.approx(max(theirs), rel=0.05)  # what disturbs only slows down
