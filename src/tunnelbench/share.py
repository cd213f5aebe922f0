"""What share of a CPU a virtual router gets: as much as leaves it, and nobody else on the path, the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tunnelbench.model.plan import CALIBRATION_KIND, Plan, TcpTraffic
from tunnelbench.model.result import TrialRecord
from tunnelbench.run import Observer, run_plan
from tunnelbench.testbed.base import Testbed

FIRST_PERCENT = 50.0
"""At more than half of a CPU another emulated machine of this one's is saturated first (docs/virtual-router.md)."""

LEAST_PERCENT = 10.0
"""As testbed files have it."""

HEADROOM_SHARE = 0.85
"""How busy the others may be where the router is: from 0.95 on a trial is doubtful (rule 6), and two trials of one
tunnel differ by some per cent."""

AIM_SHARE = 0.8
"""What a lower share is to bring them to: a little less than they may, or the next try would end just above it."""

MOST_ATTEMPTS = 3
TRIAL_S = 4


@dataclass(frozen=True)
class Share:
    """What was found."""

    percent: float
    """Of one CPU of this machine."""
    reason: str
    """In words, with the figures that decided."""


def find_share(plan: Plan, open_at: Callable[[float], Testbed], observer: Observer) -> Share:
    """The largest share, from FIRST_PERCENT down, at which the router is the limit of every tunnel of a plan.

    `open_at` gives the testbed with a share [%]. Each tunnel carries its largest packets each way for some seconds. Who
    was busy for how long tells which share would bring the others to AIM_SHARE, for that goes with the packets; at that
    one it is tried again.
    """
    percent, reason = FIRST_PERCENT, f"at {FIRST_PERCENT:g} % of a CPU the router is the limit of every tunnel"
    for _ in range(MOST_ATTEMPTS):
        records: list[TrialRecord] = []
        run_plan(brief(plan), open_at(percent), records.append, observer)
        found = lowered(percent, records)
        if found.percent >= percent:
            break
        percent, reason = found.percent, found.reason
        if percent == LEAST_PERCENT:
            break
    return Share(percent, reason)


def brief(plan: Plan) -> Plan:
    """A plan's tunnels with the largest packets only, each way, for a short time."""
    tcp = plan.tcp or TcpTraffic()
    tcp = replace(tcp, payload_bytes=(max(tcp.payload_bytes),), duration_s=TRIAL_S)
    return replace(plan, rounds=1, tcp=tcp, udp=None, soak=None, cipher_speed_s=None)


def lowered(percent: float, records: Iterable[TrialRecord]) -> Share:
    """The share that leaves the others their headroom, by what was seen at another one; that one where it did."""
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
