"""Synthetic records of UDP: searches, delays, rates, curves and bursts of four tunnels, calibrated before."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.unit.builders import NATURES, make_proof, make_tcp, make_trial, make_tunnel

from tunnelbench.model.counters import Ping
from tunnelbench.model.plan import FLAT_OUT, IDLE, Direction, Plan, Test, TrialSpec, UdpTraffic
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.model.search import SearchPoint, SearchRun
from tunnelbench.model.udp import Burst, Delays, UdpCounts, UdpInterval, UdpMeasurement

CAPACITY_PPS = {
    "testers back to back": 600_000.0,
    "none": 310_000.0,
    "vxlan": 154_000.0,
    "openvpn AES-128-GCM": 38_200.0,
}
TUNNELS = ("none", "vxlan", "openvpn AES-128-GCM", "tinc BF-CBC, SHA-1")
TRAFFIC = UdpTraffic(
    payload_bytes=(18, 0),
    direction=(Direction.OUT,),
    tests=(Test.SEARCH, Test.LATENCY, Test.LOSS_CURVE, Test.BURST, Test.RATE, Test.ECHO),
    rate=("5000", FLAT_OUT),
)


def make_udp_plan(rounds: int = 1) -> Plan:
    return Plan("udp", "Packets", tuple(make_tunnel(name) for name in TUNNELS), None, rounds, udp=TRAFFIC)


def make_delays(median_ns: float = 40_000.0) -> Delays:
    shares = (0.5, 1.1, 1, 1.4, 2, 4, 9)
    return Delays(2000, *(median_ns * share for share in shares))


def make_counts(
    pps: float = 5000.0,
    *,
    lost: int = 0,
    intended_pps: float | None = None,
    delay: Delays | None = None,
    **changes: Any,
) -> UdpCounts:
    """Two seconds in which all figures fit each other."""
    sent = round(pps * 2)
    half = UdpInterval(0.0, 1.0, sent // 2, sent // 2)
    rest = UdpInterval(1.0, 2.0, sent - sent // 2, sent - sent // 2 - lost, lost)
    fields: dict[str, Any] = {
        "duration_s": 2.0,
        "intended_pps": intended_pps,
        "intended_packets": None if intended_pps is None else round(intended_pps * 2),
        "sent_packets": sent,
        "sent_bytes": sent * 18,
        "sending_s": (sent - 1) / pps,
        "received_packets": sent - lost,
        "received_bytes": (sent - lost) * 18,
        "receiving_s": (sent - 1) / pps,
        "late_packets": 0,
        "duplicated_packets": 0,
        "reordered_packets": 0,
        "corrupted_packets": 0,
        "foreign_packets": 0,
        "tester_dropped_packets": 0,
        "unsent_packets": 0,
        "stalls": 0,
        "stall_max_s": 0.0,
        "sender_path": "gso",
        "receiver_path": "mmsg",
        "delay": delay,
        "delay_variation": delay,
        "intervals": (half, rest),
    }
    return UdpCounts(**{**fields, **changes})


def make_point(pps: float, lost: int = 0, **changes: Any) -> SearchPoint:
    fields = {"duration_s": 1.0, "intended_pps": pps, "intended_packets": round(pps), "offered_packets": round(pps)}
    return SearchPoint(**{**fields, "forwarded_packets": round(pps) - lost, **changes})


def make_search(ndr_pps: float, pdr_pps: float, ended: str = "") -> SearchRun:
    """Two good trials at each lower bound, two bad ones just above."""
    above, over = ndr_pps * 1.004, pdr_pps * 1.004
    points = [make_point(ndr_pps)] * 2 + [make_point(above, 9)] * 2
    points += [make_point(pdr_pps, 9)] * 2 + [make_point(over, round(over * 0.006) + 1)] * 2
    return SearchRun(tuple(points), ended)


def make_udp(spec: TrialSpec, noise: Random) -> UdpMeasurement:
    """Results that tests of a tunnel can find."""
    name, capacity_pps = spec.tunnel.name, CAPACITY_PPS[spec.tunnel.name]
    window = make_tcp(1e8).window
    common: dict[str, Any] = {"window": window, "bracket_s": 9.0, "foreign_cpu_s": 0.01}
    match spec.test:
        case Test.SEARCH:
            ndrs = [capacity_pps * noise.uniform(0.90, 0.95) for _ in range(3)]
            searches = tuple(make_search(ndr, ndr * 1.05) for ndr in ndrs)
            if name == "vxlan":
                searches = (*searches[:2], make_search(ndrs[2], ndrs[2] * 1.05, "no bounds in 120 s"))
            counts = make_counts(ndrs[0], intended_pps=ndrs[0], lost=37 if name.startswith("openvpn") else 0)
            return UdpMeasurement(counts, searches=searches, ping=Ping(50, 50, 1.5), **common)
        case Test.LATENCY:
            share = 0.0 if spec.load == IDLE else float(spec.load[:-1]) / 100
            pps = capacity_pps * share or 200.0
            return UdpMeasurement(make_counts(pps, intended_pps=pps, delay=make_delays(40_000 * (1 + share))), **common)
        case Test.LOSS_CURVE:
            shares = [0.5, 0.9, 1.1, 1.5]
            points = [make_point(capacity_pps * s, round(max(0.0, s - 1) * capacity_pps)) for s in shares]
            return UdpMeasurement(None, points=tuple(points), **{**common, "window": None})
        case Test.BURST:
            bursts = (Burst(500, 500), Burst(1000, 700), Burst(750, 750))
            return UdpMeasurement(None, bursts=bursts, **{**common, "window": None})
        case _:
            flat = spec.load == FLAT_OUT
            pps = capacity_pps if flat else float(spec.load)
            counts = make_counts(pps, intended_pps=None if flat else pps, lost=120 if flat else 0)
            return UdpMeasurement(counts, **common)


def make_udp_records(rounds: int = 1) -> tuple[TrialRecord, ...]:
    """A whole run of UDP: refused, refuted, out of time, tester-limited and void ones among it."""
    noise = Random(9004)
    plan = make_udp_plan(rounds)
    return tuple(_record(spec, noise) for spec in (*plan.calibrations(), *plan.trials()))


def _record(spec: TrialSpec, noise: Random) -> TrialRecord:
    name = spec.tunnel.name
    if name not in CAPACITY_PPS:
        reason = NATURES[name].reason
        return make_trial(spec, outcome=Outcome.REFUSED, reason=reason, proof=make_proof(name, failed=reason))
    if name == "vxlan" and spec.test is Test.ECHO:
        return make_trial(spec, outcome=Outcome.VOID, reason="the engine's far end does not listen: no output")
    checks = [Check("offered", Verdict.OK, "all of it", 7)]
    if name == "none" and spec.test is Test.RATE:
        reason = "a tester's CPU was 97% busy: the testers were the limit"
        checks.append(Check("tester-limited", Verdict.DOUBTFUL, reason, 6))
    proof = make_proof(name) if name in NATURES else None
    record = make_trial(spec, make_tcp(), checks=tuple(checks), proof=proof)
    return TrialRecord(
        record.spec,
        record.outcome,
        record.reason,
        record.started_at,
        record.ended_at,
        record.checks,
        make_udp(spec, noise),
        proof=record.proof,
        raw={"exchanges": []},
    )
