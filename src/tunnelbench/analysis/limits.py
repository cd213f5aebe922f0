"""Limits of the throughput of a row, with the evidence from its stored trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.result import (
    APPLICATION_LIMITED_SHARE,
    BUFFER_LIMITED_SHARE,
    FULL_CPU_SHARE,
    TcpMeasurement,
    TrialRecord,
    Verdict,
)

MATHIS_CONSTANT = math.sqrt(3 / 2)
"""Constant in the formula for TCP's rate at a loss ratio, with an acknowledgement for each packet.

Source: Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, 1997.
"""

LOSS_EXPLAINS_FROM = 0.5
"""Smallest quotient of throughput and the formula's rate at which packet loss explains the throughput.

The formula is accurate to about a factor of two. A sender that exceeds it by more was not limited by the loss, or it
retransmitted segments that were not lost.
"""


class Limit(StrEnum):
    """A limit of the throughput of a row."""

    LINE = "line"
    ROUTER_CPU = "router CPU"
    ONE_CORE = "one core of several"
    TESTER = "tester"
    WINDOW = "window"
    APPLICATION = "sending program"
    QUEUE = "queue of the router"
    LOSS = "loss"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class LimitFinding:
    """One limit of a row."""

    limit: Limit
    evidence: str
    """Text with the figures that show the limit, which are medians over the trials that count."""


def find_limits(row: Row, records: Sequence[TrialRecord]) -> tuple[LimitFinding, ...]:
    """Return the limits of a row, whose trials are `records`; none if it has no figures or no router.

    A row can have several limits: a line and a CPU can both be full. UNKNOWN is returned only if no limit is found.
    """
    trials = [record.tcp for record in records if record.counts and record.tcp is not None]
    if row.figures is None or row.is_calibration or not trials:
        return ()
    if row.is_at_load:
        return (LimitFinding(Limit.APPLICATION, f"the plan paces the sender at {row.load} Mbit/s"),)
    found = [
        *_line(row.figures),
        *_tester(row.figures, trials),
        *_router(trials),
        *_named_by(records, "router-queues", Limit.QUEUE),
        *(_named_by(records, "router-losses", Limit.LOSS) or _named_by(records, "retransmits", Limit.LOSS)),
        *(_application(trials) or _window(trials)),
    ]
    return tuple(found or _loss(trials) or [_unknown(trials)])


def _named_by(records: Sequence[TrialRecord], name: str, limit: Limit) -> list[LimitFinding]:
    """Report `limit` if the check `name` is not ok in at least half of the trials that count, with the check's
    reason."""
    counting = [record for record in records if record.counts]
    checks = [check for record in counting for check in record.checks if check.name == name]
    found = [check.reason for check in checks if check.verdict is not Verdict.OK]
    return [LimitFinding(limit, found[0])] if found and len(found) * 2 >= len(counting) else []


def _line(figures: Figures) -> list[LimitFinding]:
    if figures.share_of_limit is None or not (figures.is_line_speed or figures.is_above_limit):
        return []
    share = percent(figures.share_of_limit.median)
    return [LimitFinding(Limit.LINE, f"{share} of the link's limit for this payload")]


def _tester(figures: Figures, trials: Sequence[TcpMeasurement]) -> list[LimitFinding]:
    if not figures.is_tester_limited:
        return []
    busiest = percent(_median(trials, lambda trial: trial.window.busiest_tester_share))
    router = percent(_median(trials, lambda trial: trial.router_busy_share))
    shares = [share for trial in trials if (share := trial.window.far_end_busy_share) is not None]
    far_end = f"the tunnel's far end {percent(median(shares))}, " if shares else ""
    return [LimitFinding(Limit.TESTER, f"a tester's CPU was {busiest} busy, {far_end}the router's {router}")]


def _router(trials: Sequence[TcpMeasurement]) -> list[LimitFinding]:
    """Report full CPUs: the router's only one, one of several, or all of them."""
    by_cpu = _busy_by_cpu(trials)
    full = {cpus: share for cpus, share in by_cpu.items() if share >= FULL_CPU_SHARE}
    if not full:
        return []
    who = _who(trials)
    if len(full) == len(by_cpu):
        names = "all CPUs" if any(len(cpus) > 1 for cpus in full) else "CPU " + ", ".join(str(cpu) for (cpu,) in full)
        return [LimitFinding(Limit.ROUTER_CPU, f"{names} {percent(min(full.values()))} busy; {who}")]
    (first, *_), share = max(full.items(), key=lambda item: item[1])
    rest = [other for cpus, other in by_cpu.items() if cpus not in full]
    evidence = f"CPU {first} {percent(share)} busy, the other {len(rest)} at most {percent(max(rest))}; {who}"
    return [LimitFinding(Limit.ONE_CORE, evidence)]


def _busy_by_cpu(trials: Sequence[TcpMeasurement]) -> dict[tuple[int, ...], float]:
    """Return the median busy share of each CPU of the router, or of all CPUs together if a record has no share of each
    CPU."""
    has_each = all(trial.window.router_by_cpu for trial in trials)
    shares: dict[tuple[int, ...], list[float]] = {}
    for trial in trials:
        for usage in trial.window.router_by_cpu if has_each else (trial.window.router_cpu,):
            shares.setdefault(usage.cpus, []).append(usage.busy_share)
    return {cpus: median(values) for cpus, values in shares.items()}


def _who(trials: Sequence[TcpMeasurement]) -> str:
    """State who used the CPU: the tunnel's programs by their own CPU time, softirq and system by clock ticks."""
    parts = []
    windows = [trial.window for trial in trials]
    names = dict.fromkeys(name for window in windows for name in window.program_cpu_s)
    for name in names:
        share = median([window.program_cpu_s.get(name, 0.0) / window.duration_s for window in windows])
        parts.append(f"{name} {percent(share)} of a CPU")
    if not names and any(trial.daemon_busy_share for trial in trials):
        parts.append(f"the tunnel's programs {percent(_median(trials, lambda t: t.daemon_busy_share or 0.0))} of a CPU")
    softirq = median([window.router_cpu.softirq_s / window.duration_s for window in windows])
    system = median([window.router_cpu.system_s / window.duration_s for window in windows])
    parts.append(f"by clock ticks softirq {percent(softirq)}, system {percent(system)}")
    return "; ".join(parts)


def _application(trials: Sequence[TcpMeasurement]) -> list[LimitFinding]:
    """Report the sending program as the limit if TCP mostly had nothing to send (application-limited)."""
    shares = [share for trial in trials if (share := trial.sender_busy_share) is not None]
    if not shares or median(shares) >= APPLICATION_LIMITED_SHARE:
        return []
    evidence = f"application-limited: data was in flight for {percent(median(shares))} of the time only"
    return [LimitFinding(Limit.APPLICATION, evidence)]


def _window(trials: Sequence[TcpMeasurement]) -> list[LimitFinding]:
    senders = [trial.sender for trial in trials if trial.sender is not None and trial.sender.busy_s > 0]
    if not senders:
        return []
    rtt = f"round trip {significant(median([sender.rtt_ms for sender in senders]), 3)} ms"
    shares = {name: median([sender.buffer_shares[name] for sender in senders]) for name in senders[0].buffer_shares}
    return [
        LimitFinding(Limit.WINDOW, f"the {name} limited the sender {percent(share)} of the time; {rtt}")
        for name, share in shares.items()
        if share >= BUFFER_LIMITED_SHARE
    ]


def _loss(trials: Sequence[TcpMeasurement]) -> list[LimitFinding]:
    """Report loss as the limit if TCP cannot be much faster at the measured loss ratio and round trip."""
    explained = []
    for trial in trials:
        sent = trial.counters.data_packets
        if not (trial.sender and trial.sender.rtt_ms and trial.retransmits and trial.mss_bytes and sent):
            return []
        loss = trial.retransmits / sent
        most_bps = trial.mss_bytes * 8 / (trial.sender.rtt_ms / 1000) * MATHIS_CONSTANT / math.sqrt(loss)
        explained.append((trial.throughput_bps / most_bps, loss, trial.sender.rtt_ms))
    share, loss, rtt_ms = (median([each[index] for each in explained]) for index in range(3))
    if not LOSS_EXPLAINS_FROM <= share <= 1 / LOSS_EXPLAINS_FROM:
        return []
    evidence = (
        f"{percent(loss)} of the segments were retransmitted; with a round trip of {significant(rtt_ms, 3)} ms the "
        f"throughput is {percent(share)} of TCP's rate at this loss"
    )
    return [LimitFinding(Limit.LOSS, evidence)]


def _unknown(trials: Sequence[TcpMeasurement]) -> LimitFinding:
    router = percent(max(_busy_by_cpu(trials).values()))
    tester = percent(_median(trials, lambda trial: trial.window.busiest_tester_share))
    return LimitFinding(Limit.UNKNOWN, f"the router's busiest CPU was {router} busy, the testers' {tester}")


def _median(trials: Sequence[TcpMeasurement], figure: Callable[[TcpMeasurement], float]) -> float:
    return median([figure(trial) for trial in trials])
