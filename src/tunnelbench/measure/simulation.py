"""The model of a simulated testbed: draws the record of each trial from seeded random numbers, and sends no packet.

The speed of the router depends on the seed, the cost of a tunnel on its kind, and the rest on run and trial. Each
record has the check `simulated`, which makes it doubtful, so that no report shows its figures without a mark.
"""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

from tunnelbench.measure.clock_check import now
from tunnelbench.measure.request import Observer, RunRequest, RunSink
from tunnelbench.model.counters import CpuUsage, PathCounters, Ping, Window
from tunnelbench.model.plan import CALIBRATION_KIND, TrialSpec
from tunnelbench.model.result import SIMULATED, Check, Interval, Outcome, TcpMeasurement, TrialRecord, Verdict
from tunnelbench.model.testbed import SimulationModel

FULL_SEGMENT_BYTES = 1448
HEADER_BYTES = 66
"""Bytes of a frame around its TCP payload: Ethernet 14, IPv4 20, TCP with time stamps 32."""
REPORT_INTERVAL_S = 1.0
"""Time between two reports of the figures of a trial that is running [s]."""
SPREAD = 0.02
"""Standard deviation of the trials of one row, as a share of their mean."""


def simulate(request: RunRequest, sink: RunSink) -> None:
    """Draw and store a record for each trial of a request that has none, in the order of the plan."""
    plan, testbed = request.plan, request.testbed
    model = testbed.spec.simulation
    for spec in request.missing([*plan.calibrations(), *plan.trials()]):
        sink.observer.trial_starts(spec)
        duration_s = plan.tcp.duration_s if plan.tcp else 1
        record = simulated_record(spec, model, testbed.run_id, duration_s, now())
        let_pass(model.trial_s, record, sink.observer)
        sink.keep(replace(record, ended_at=now()))


def let_pass(trial_s: float, record: TrialRecord, observer: Observer) -> None:
    """Sleep for the time of a trial, and report its figures each second, as those of a measured trial are reported."""
    end_s = time.monotonic() + trial_s
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(left_s, REPORT_INTERVAL_S))
        if tcp := record.tcp:
            observer.second_passed(tcp.counters.data_bytes * 8 / tcp.duration_s, tcp.router_busy_share)


def simulated_record(
    spec: TrialSpec, model: SimulationModel, run_id: str, duration_s: float, started_at: str
) -> TrialRecord:
    """Return the record of a trial; the same arguments give the same figures."""
    reason = f"a model with seed {model.seed} drew the figures: no packet was sent, and nothing was measured"
    return TrialRecord(
        spec,
        Outcome.MEASURED,
        "",
        started_at,
        now(),
        checks=(Check(SIMULATED, Verdict.DOUBTFUL, reason, rule=21),),
        measurement=simulated_tcp(spec, model, run_id, duration_s),
        raw={SIMULATED: reason},
        waited_for_quiet_s=0.0,
    )


def simulated_tcp(spec: TrialSpec, model: SimulationModel, run_id: str, duration_s: float) -> TcpMeasurement:
    """Return figures of TCP that agree with each other."""
    is_calibration = spec.tunnel.kind == CALIBRATION_KIND
    device = Random(f"device {model.seed}").uniform(0.7, 1.3)  # noqa: S311 # nothing secret
    cost = 1.0 if spec.tunnel.is_baseline else Random(f"tunnel {spec.tunnel.name}").uniform(1.5, 6)  # noqa: S311
    chance = Random(f"{run_id} {spec.sequence}")  # noqa: S311
    full_pps = model.baseline_mbps * 1e6 / 8 / FULL_SEGMENT_BYTES
    rate_pps = full_pps * (10 if is_calibration else device / cost) * max(0.5, chance.gauss(1, SPREAD))
    if spec.load:
        rate_pps = min(rate_pps, float(spec.load) * 1e6 / 8 / spec.payload_bytes)
    packets = max(1, round(rate_pps * duration_s))
    acks = packets // 2
    busy_share = min(1.0, rate_pps * cost / (full_pps * device)) * 0.97 if not is_calibration else 0.0
    window_s = 0.8 * duration_s
    data, answers = max(1, round(0.8 * packets)), round(0.8 * acks)
    payload = packets * spec.payload_bytes
    idle_s = window_s * (1 - busy_share)
    router = CpuUsage((0,), window_s, idle_s, 0.2 * busy_share, 0.3 * busy_share, 0.4 * busy_share, 0.0)
    testers = CpuUsage((1,), window_s, 0.5 * window_s, 0.1, 0.2, 0.2, 0.0)
    return TcpMeasurement(
        duration_s=float(duration_s),
        bytes_received=payload,
        bytes_sent=payload,
        retransmits=0,
        mss_bytes=spec.payload_bytes,
        counters=PathCounters(
            data_packets=packets,
            data_bytes=payload + packets * HEADER_BYTES,
            ack_packets=acks,
            forwarded_packets=packets + acks,
            outer_expected_packets=packets + acks,
            outer_expected_bytes=payload + (packets + acks) * HEADER_BYTES,
            outer_other_packets=0,
            outer_other_bytes=0,
            wan_packets=packets + acks,
            fragments_created=0,
            reassembled=0,
            dropped_packets=0,
        ),
        window=Window(window_s, data, answers, router, testers, 0.5, None, ""),
        bracket_s=duration_s + 0.2,
        foreign_cpu_s=0.0,
        ping=Ping(0, 0, None),
        physical_limit_bps=None,
        intervals=(Interval(0.0, float(duration_s), payload, 0),),
    )
