"""What limits the throughput of a row, from what was stored of its trials, each with its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.result import CpuUsage, TcpMeasurement, TrialRecord

FULL_FROM = 0.95
"""Busy share from which a CPU has nothing left: the threshold of rule 6 for the testers' CPUs."""

HELD_BACK_FROM = 0.5
"""Share of its busy time for which a sender must have been held back for that to be what limits it."""

MATHIS_CONSTANT = math.sqrt(3 / 2)
"""Of the rate that TCP reaches at a loss ratio (Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior of the TCP
Congestion Avoidance Algorithm, 1997), each packet acknowledged."""

LOSS_EXPLAINS_FROM = 0.5
"""Share of that rate from which the loss explains the throughput: the formula is good to about a factor of two. One who
is faster than it allows by more than that was not held back by the loss, or sent segments again that were not lost."""


class Limit(StrEnum):
    """What a row can be limited by."""

    LINE = "line"
    ROUTER_CPU = "router CPU"
    ONE_CORE = "one core of several"
    TESTER = "tester"
    WINDOW = "window"
    LOSS = "loss"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Finding:
    """One thing that limits a row."""

    limit: Limit
    evidence: str
    """In words, with the figures that decided: medians of the trials that count."""


def what_limits(row: Row, records: Sequence[TrialRecord]) -> tuple[Finding, ...]:
    """What limits a row, of which `records` are the trials; none where it has no figures or no router.

    All that is found, for a line and a CPU may be full at once. UNKNOWN alone where nothing is.
    """
    trials = [record.tcp for record in records if record.counts and record.tcp is not None]
    if row.figures is None or row.is_calibration or not trials:
        return ()
    found = [
        *_line(row.figures),
        *_tester(row.figures, trials),
        *_router(trials),
        *_window(trials),
    ]
    return tuple(found or _loss(trials) or [_unknown(trials)])


def _line(figures: Figures) -> list[Finding]:
    if figures.share_of_limit is None or not (figures.is_line_speed or figures.is_above_limit):
        return []
    share = percent(figures.share_of_limit.median)
    return [Finding(Limit.LINE, f"{share} of what the link can carry of this payload")]


def _tester(figures: Figures, trials: Sequence[TcpMeasurement]) -> list[Finding]:
    if not figures.is_tester_limited:
        return []
    busiest = percent(_median(trials, lambda trial: trial.window.busiest_tester_share))
    router = percent(_median(trials, lambda trial: trial.router_busy_share))
    return [Finding(Limit.TESTER, f"a tester's CPU was {busiest} busy, {_far_end(trials)}the router's {router}")]


def _far_end(trials: Sequence[TcpMeasurement]) -> str:
    """How busy the tunnel's far end was, where it is a machine of its own, as part of a sentence."""
    shares = [share for trial in trials if (share := trial.window.far_end_busy_share) is not None]
    return f"the tunnel's far end {percent(median(shares))}, " if shares else ""


def _router(trials: Sequence[TcpMeasurement]) -> list[Finding]:
    """One CPU that is full: the router's only one, one of several, or all of them."""
    by_cpu = _busy_by_cpu(trials)
    full = {cpu: share for cpu, share in by_cpu.items() if share >= FULL_FROM}
    if not full:
        return []
    who = _who(trials)
    if len(full) == len(by_cpu):
        cpus = "CPU " + ", ".join(map(str, full)) if all(cpu >= 0 for cpu in full) else "all CPUs"
        return [Finding(Limit.ROUTER_CPU, f"{cpus} {percent(min(full.values()))} busy; {who}")]
    first, share = max(full.items(), key=lambda item: item[1])
    rest = [other for cpu, other in by_cpu.items() if cpu not in full]
    evidence = f"CPU {first} {percent(share)} busy, the other {len(rest)} at most {percent(max(rest))}; {who}"
    return [Finding(Limit.ONE_CORE, evidence)]


def _busy_by_cpu(trials: Sequence[TcpMeasurement]) -> dict[int, float]:
    """Median busy share of each of the router's CPUs; of older records, of all together under the number -1."""
    kept: list[Sequence[CpuUsage]] = [trial.window.router_by_cpu for trial in trials]
    if not all(kept):
        usages = [trial.window.router_cpu for trial in trials]
        number = usages[0].cpus[0] if len(usages[0].cpus) == 1 else -1
        return {number: median([usage.busy_share for usage in usages])}
    shares: dict[int, list[float]] = {}
    for usages_of_trial in kept:
        for usage in usages_of_trial:
            shares.setdefault(usage.cpus[0], []).append(usage.busy_share)
    return {cpu: median(values) for cpu, values in shares.items()}


def _who(trials: Sequence[TcpMeasurement]) -> str:
    """Whose work it was: the tunnel's programs by their own accounts, the kernel's split by clock ticks."""
    parts = []
    names = dict.fromkeys(name for trial in trials for name in trial.window.program_cpu_s)
    for name in names:
        share = _median(
            trials,
            lambda trial, name=name: (  # type: ignore[misc]
                trial.window.program_cpu_s.get(name, 0.0) / trial.window.duration_s
            ),
        )
        parts.append(f"{name} {percent(share)} of a CPU")
    if not names and any(trial.daemon_busy_share for trial in trials):
        parts.append(f"the tunnel's programs {percent(_median(trials, lambda t: t.daemon_busy_share or 0.0))} of a CPU")
    softirq = _median(trials, lambda trial: trial.window.router_cpu.softirq_s / trial.window.duration_s)
    system = _median(trials, lambda trial: trial.window.router_cpu.system_s / trial.window.duration_s)
    parts.append(f"by clock ticks softirq {percent(softirq)}, system {percent(system)}")
    return "; ".join(parts)


def _window(trials: Sequence[TcpMeasurement]) -> list[Finding]:
    senders = [trial.sender for trial in trials if trial.sender is not None and trial.sender.busy_s > 0]
    if not senders:
        return []
    rtt = f"round trip {significant(median([sender.rtt_ms for sender in senders]), 3)} ms"
    found = []
    receiver = median([sender.receiver_window_s / sender.busy_s for sender in senders])
    if receiver >= HELD_BACK_FROM:
        found.append(
            Finding(Limit.WINDOW, f"the receiver's window held the sender back {percent(receiver)} of its time; {rtt}")
        )
    buffer = median([sender.send_buffer_s / sender.busy_s for sender in senders])
    if buffer >= HELD_BACK_FROM:
        found.append(
            Finding(Limit.WINDOW, f"the send buffer held the sender back {percent(buffer)} of its time; {rtt}")
        )
    return found


def _loss(trials: Sequence[TcpMeasurement]) -> list[Finding]:
    """Where nothing is full: whether TCP could have been any faster with the losses that it saw."""
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
        f"{percent(loss)} of the segments were sent again; with a round trip of {significant(rtt_ms, 3)} ms TCP gets "
        f"{percent(share)} of what such a loss allows"
    )
    return [Finding(Limit.LOSS, evidence)]


def _unknown(trials: Sequence[TcpMeasurement]) -> Finding:
    router = percent(max(_busy_by_cpu(trials).values()))
    tester = percent(_median(trials, lambda trial: trial.window.busiest_tester_share))
    return Finding(Limit.UNKNOWN, f"the router's busiest CPU was {router} busy, the testers' {tester}")


def _median(trials: Sequence[TcpMeasurement], figure: Callable[[TcpMeasurement], float]) -> float:
    return median([figure(trial) for trial in trials])
