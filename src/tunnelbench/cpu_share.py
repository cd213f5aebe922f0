"""The search for the CPU share of a virtual router at which only the router is the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tunnelbench.measure.request import Observer, ResultsInMemory, RunRequest, RunSink
from tunnelbench.model.plan import CALIBRATION_KIND, Plan, TcpTraffic
from tunnelbench.model.result import TrialRecord
from tunnelbench.run import run_plan
from tunnelbench.testbed.base import Testbed

FIRST_PERCENT = 50.0
"""First share that is tried [%]; above half of a CPU another emulated machine is saturated first
(docs/virtual-router.md)."""

LEAST_PERCENT = 10.0
"""Least share that a testbed file may set [%]."""

HEADROOM_SHARE = 0.85
"""Busy share that the other machines may reach; from 0.95 on a trial is doubtful (rule 6), and two trials of one tunnel
differ by some per cent."""

AIM_SHARE = 0.8
"""Busy share of the others that a lower share of the router aims at, slightly below HEADROOM_SHARE."""

MOST_ATTEMPTS = 3
TRIAL_S = 4


@dataclass(frozen=True)
class Share:
    """The result of the search."""

    percent: float
    """Share of one CPU of this machine [%]."""
    reason: str
    """Reason in words, with the figures that decided."""


def find_share(plan: Plan, open_at: Callable[[float], Testbed], observer: Observer) -> Share:
    """Return the largest share, from FIRST_PERCENT down, at which the router is the limit of every tunnel of a plan.

    `open_at` returns the testbed with a share [%]. Each tunnel carries its largest packets each way for some seconds.
    The others' busy time grows with the packets, so it shows which share brings them to AIM_SHARE; that one is tried
    next.
    """
    percent, reason = FIRST_PERCENT, f"at {FIRST_PERCENT:g} % of a CPU the router is the limit of every tunnel"
    for _ in range(MOST_ATTEMPTS):
        results = ResultsInMemory()
        run_plan(RunRequest(brief(plan), open_at(percent)), RunSink(results, observer))
        found = lowered(percent, results.trials)
        if found.percent >= percent:
            break
        percent, reason = found.percent, found.reason
        if percent == LEAST_PERCENT:
            break
    return Share(percent, reason)


def brief(plan: Plan) -> Plan:
    """Return a plan with the same tunnels and only the largest packets, each way, for a short time."""
    tcp = plan.tcp or TcpTraffic()
    tcp = replace(tcp, payload_bytes=(max(tcp.payload_bytes),), duration_s=TRIAL_S)
    return replace(plan, rounds=1, tcp=tcp, udp=None, soak=None, cipher_speed_s=None)


def lowered(percent: float, records: Iterable[TrialRecord]) -> Share:
    """Return the share that leaves the others their headroom, from trials at another share; that share if it did."""
    best = Share(percent, "")
    for record in records:
        if record.tcp is None or record.spec.tunnel.kind == CALIBRATION_KIND:
            continue
        window, router = record.tcp.window, record.tcp.router_busy_share
        busiest = window.busiest_tester_share
        if busiest <= HEADROOM_SHARE or router <= 0:
            continue
        least = max(LEAST_PERCENT, round(percent * AIM_SHARE * min(1.0, router) / busiest))
        if least < best.percent:
            who = "the tunnel's far end" if window.far_end_busy_share == busiest else "a tester's CPU"
            work = f"{record.spec.tunnel.name}, {record.spec.what}"
            reason = f"at {percent:g} % the router was {router:.0%} busy with {work}, {who} {busiest:.0%}"
            best = Share(least, reason)
    return best
