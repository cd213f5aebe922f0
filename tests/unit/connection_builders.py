"""Trials of TCP connections for tests."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_proof, make_tcp, make_trial

from tunnelbench.model.connections import ConnectionCounts, TrackerReading
from tunnelbench.model.plan import ConnectionTraffic, Plan, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement

OPENVPN = "openvpn AES-128-GCM"
MOST = 2000
LIMIT = 1500


def make_connections(established: int = 3000, *, opening_s: float = 3.0, lost: int = 0) -> ConnectionCounts:
    """Return counts of connections that were opened as fast as possible, and closed at once."""
    return ConnectionCounts(
        duration_s=opening_s,
        intended_per_s=None,
        begun=established + lost,
        established=established,
        refused=0,
        timed_out=lost,
        failed=0,
        closed=established,
        broken=0,
        unsent=0,
        open_max=40,
        accepted=established,
        opening_s=opening_s,
        establishment_p50_ns=200_000.0,
        establishment_p99_ns=900_000.0,
        establishment_max_ns=2_000_000.0,
        tracked_before=TrackerReading(0, 262_144),
        tracked_most=TrackerReading(established, 262_144),
    )


def make_kept(open_max: int = MOST) -> ConnectionCounts:
    """Return counts of a trial that keeps its connections, through a list that has room for `open_max` of them."""
    counts = make_connections(open_max, opening_s=open_max / 1000, lost=MOST - open_max)
    return replace(counts, intended_per_s=1000.0, open_max=open_max, closed=0)


def make_measurement(counts: ConnectionCounts) -> UdpMeasurement:
    tcp = make_tcp(1e7)
    return UdpMeasurement(None, connections=counts, counters=tcp.counters, window=tcp.window, bracket_s=10.4)


def connection_records() -> list[TrialRecord]:
    """Return a run whose tunnel opens half as many connections as the baseline, and carries LIMIT at once."""
    tunnels = (TunnelSpec("none", "no tunnel"), TunnelSpec("openvpn", OPENVPN, {"firewall": "stateful"}))
    plan = Plan("connections", "", tunnels, None, 3, connections=ConnectionTraffic(most=MOST))
    return [_record(spec) for spec in plan.trials()]


def _record(spec: TrialSpec) -> TrialRecord:
    has_tunnel = spec.tunnel.has_tunnel
    if spec.test is Test.CONNECT:
        counts = make_connections(1500 if has_tunnel else 3000)
    else:
        counts = make_kept(LIMIT if has_tunnel else MOST)
    trial = make_trial(spec, proof=make_proof(OPENVPN if has_tunnel else "none"))
    return replace(trial, measurement=make_measurement(counts))
