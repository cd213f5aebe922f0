"""One row for each tunnel, payload and direction: what its trials say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tunnelbench.analysis.statistics import Estimate, estimate, median
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TunnelSpec
from tunnelbench.model.result import Outcome, TcpMeasurement, TrialRecord, Verdict

LINE_SPEED_FROM = 0.99
"""Share of the physical limit from which a row is at line speed (rule 17)."""
ABOVE_LIMIT_FROM = 1.005
"""Share of the physical limit from which a figure is doubted (rule 17)."""
TESTER_RULE = 6
"""The rule whose doubtful checks say that the testers were the limit."""

HIGHEST_IS_BEST = ("throughput_bps", "data_pps")
LOWEST_IS_BEST = ("cpu_s_per_million_packets", "cpu_s_per_gigabit")


class TrialClass(StrEnum):
    """What a trial is worth: its verdict where it was timed, else why it was not."""

    OK = "ok"
    NOTE = "note"
    DOUBTFUL = "doubtful"
    VOID = "void"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    GIVEN_UP = "given-up"


def trial_class(record: TrialRecord) -> TrialClass:
    """The class under which a trial is counted."""
    if record.outcome not in {Outcome.MEASURED, Outcome.VOID}:
        return TrialClass(record.outcome.value)
    return TrialClass(record.verdict.value)


def count_classes(records: Iterable[TrialRecord]) -> Mapping[TrialClass, int]:
    """How many trials there are of each class, all classes named."""
    counted = Counter(trial_class(record) for record in records)
    return {each: counted[each] for each in TrialClass}


@dataclass(frozen=True)
class Figures:
    """Medians over the trials that count; None where no trial has the figure."""

    throughput_bps: Estimate
    """TCP payload at the receiver [bit/s]."""
    share_of_baseline: Estimate | None
    """Throughput over that of the baseline with the same payload and direction, in the same round where it counts
    there, else over the baseline's median."""
    data_pps: Estimate
    ack_pps: Estimate
    """Packets per second, from interface counters."""
    router_busy_share: Estimate
    """Of the router's CPUs, inside the traffic."""
    router_user_share: Estimate
    router_system_share: Estimate
    router_softirq_share: Estimate
    router_steal_share: Estimate
    """By clock ticks, indicative only (rule 11)."""
    daemon_share: Estimate | None
    """The tunnel's processes on the router, of one CPU; None: there are none."""
    tester_busy_share: Estimate
    foreign_share: Estimate
    """Processes that are not ours on the CPUs of the testbed, of one CPU."""
    cpu_s_per_million_packets: Estimate | None
    """Router CPU [s], ACKs counted as packets."""
    cpu_s_per_gigabit: Estimate | None
    """Router CPU [s] per 10^9 bits of TCP payload."""
    payload_bytes: Estimate | None
    """Effective TCP payload of a full segment [bytes]."""
    retransmits: Estimate | None
    ping_worst_ms: float | None
    """Worst of all trials; None: no answer came in any."""
    pings_sent: int
    pings_lost: int
    """Summed over the trials."""
    share_of_limit: Estimate | None
    """Throughput over what the link can carry of this payload; None: the link has no rate."""
    is_tester_limited: bool
    """At least half of the trials say that a tester, not the router, was the limit."""

    @property
    def is_line_speed(self) -> bool:
        return self.share_of_limit is not None and LINE_SPEED_FROM <= self.share_of_limit.median < ABOVE_LIMIT_FROM

    @property
    def is_above_limit(self) -> bool:
        return self.share_of_limit is not None and self.share_of_limit.median >= ABOVE_LIMIT_FROM

    @property
    def extrapolated_pps(self) -> float | None:
        """Packets per second, data and ACKs, that one router CPU would carry if it were busy all the time.

        Where the testers could not offer that much (rule 6), else None. The cost of a packet changes with the load, so
        this is an extrapolation.
        """
        cost = self.cpu_s_per_million_packets
        return 1e6 / cost.median if self.is_tester_limited and cost and cost.median else None

    @property
    def extrapolated_bps(self) -> float | None:
        """As `extrapolated_pps`, in TCP payload [bit/s]."""
        cost = self.cpu_s_per_gigabit
        return 1e9 / cost.median if self.is_tester_limited and cost and cost.median else None


@dataclass(frozen=True)
class Row:
    """All trials of one tunnel with one payload in one direction."""

    tunnel: TunnelSpec
    payload_bytes: int
    """As asked for [bytes]."""
    direction: Direction
    classes: Mapping[TrialClass, int]
    doubtful_checks: tuple[str, ...]
    """Names of the checks that made a trial doubtful or void; those of the testers' limit only where the row as a whole
    is not tester-limited."""
    reasons: tuple[str, ...]
    """Why trials have no figure that counts."""
    versions: Mapping[str, str]
    """As `TunnelProof.versions`."""
    figures: Figures | None
    """None: no trial counts."""
    best: frozenset[str] = frozenset()
    """Names of the figures that no other row of its group beats.

    A group is all tunnels with the same payload and direction; the baseline and the calibration are none. Rows that
    tie with the best one are as good as it. Figures that grow with the load are ranked only in a group whose rows are
    all limited by the router: the cost of a packet is what tells the others apart.
    """

    @property
    def trials(self) -> int:
        return sum(self.classes.values())

    @property
    def is_calibration(self) -> bool:
        """Whether the testers were alone: there was no router whose CPU could have been used."""
        return self.tunnel.kind == CALIBRATION_KIND


def summarise(records: Sequence[TrialRecord]) -> tuple[Row, ...]:
    """One row for each tunnel, payload and direction, in the order of the plan."""
    grouped: dict[tuple[str, int, Direction], list[TrialRecord]] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        spec = record.spec
        grouped.setdefault((spec.tunnel.name, spec.payload_bytes, spec.direction), []).append(record)
    baselines: dict[tuple[int, Direction], list[TrialRecord]] = {}
    for (_, payload, direction), group in grouped.items():
        if group[0].spec.tunnel.is_baseline:
            baselines.setdefault((payload, direction), group)
    rows = [_row(group, baselines.get((payload, direction), [])) for (_, payload, direction), group in grouped.items()]
    return _marked(rows)


def _row(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> Row:
    spec = records[0].spec
    proofs = [record.proof for record in records if record.proof is not None]
    figures = _figures(records, baseline)
    if figures is not None and spec.tunnel.kind == CALIBRATION_KIND:
        figures = replace(figures, cpu_s_per_million_packets=None, cpu_s_per_gigabit=None)  # no router carried anything
    told = figures is not None and figures.is_tester_limited
    grave = [
        check.name
        for record in records
        for check in record.checks
        if check.verdict in {Verdict.DOUBTFUL, Verdict.VOID} and not (told and check.rule == TESTER_RULE)
    ]
    return Row(
        tunnel=spec.tunnel,
        payload_bytes=spec.payload_bytes,
        direction=spec.direction,
        classes=count_classes(records),
        doubtful_checks=tuple(dict.fromkeys(grave)),
        reasons=tuple(dict.fromkeys(reason for record in records for reason in _why_no_figure(record))),
        versions=proofs[0].versions if proofs else {},
        figures=figures,
    )


def _why_no_figure(record: TrialRecord) -> list[str]:
    if record.counts:
        return []
    return [record.reason] if record.reason else [c.reason for c in record.checks if c.verdict is Verdict.VOID]


def _figures(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> Figures | None:
    counting = [(record, record.tcp) for record in records if record.counts and record.tcp is not None]
    trials = [trial for _, trial in counting]
    if not trials:
        return None

    def of(figure: Callable[[TcpMeasurement], float]) -> Estimate:
        return estimate([figure(trial) for trial in trials])

    def where_known(figure: Callable[[TcpMeasurement], float | None]) -> Estimate | None:
        known = [value for trial in trials if (value := figure(trial)) is not None]
        return estimate(known) if known else None

    is_calibration = records[0].spec.tunnel.kind == CALIBRATION_KIND
    shares = [] if is_calibration else _shares_of_baseline(counting, baseline)  # the cables are not in its way
    limited = [
        any(check.rule == TESTER_RULE and check.verdict is Verdict.DOUBTFUL for check in record.checks)
        for record, _ in counting
    ]
    return Figures(
        throughput_bps=of(lambda trial: trial.throughput_bps),
        share_of_baseline=estimate(shares) if shares else None,
        data_pps=of(lambda trial: trial.data_pps),
        ack_pps=of(lambda trial: trial.ack_pps),
        router_busy_share=of(lambda trial: trial.router_busy_share),
        router_user_share=of(lambda trial: _of_router(trial, trial.window.router_cpu.user_s)),
        router_system_share=of(lambda trial: _of_router(trial, trial.window.router_cpu.system_s)),
        router_softirq_share=of(lambda trial: _of_router(trial, trial.window.router_cpu.softirq_s)),
        router_steal_share=of(lambda trial: _of_router(trial, trial.window.router_cpu.steal_s)),
        daemon_share=where_known(lambda trial: trial.daemon_busy_share),
        tester_busy_share=of(lambda trial: trial.tester_busy_share),
        foreign_share=of(lambda trial: trial.foreign_cpu_s / trial.bracket_s if trial.bracket_s else 0.0),
        cpu_s_per_million_packets=where_known(lambda trial: trial.cpu_s_per_million_packets),
        cpu_s_per_gigabit=where_known(lambda trial: trial.cpu_s_per_gigabit),
        payload_bytes=where_known(lambda trial: trial.mss_bytes),
        retransmits=where_known(lambda trial: trial.retransmits),
        ping_worst_ms=max((t.ping.worst_ms for t in trials if t.ping.worst_ms is not None), default=None),
        pings_sent=sum(trial.ping.sent for trial in trials),
        pings_lost=sum(trial.ping.sent - trial.ping.answered for trial in trials),
        share_of_limit=where_known(
            lambda trial: trial.throughput_bps / trial.physical_limit_bps if trial.physical_limit_bps else None
        ),
        is_tester_limited=sum(limited) * 2 >= len(limited),
    )


def _of_router(trial: TcpMeasurement, cpu_s: float) -> float:
    """CPU time in the window as a share of the router's CPUs."""
    usage = trial.window.router_cpu
    return cpu_s / (usage.wall_s * len(usage.cpus))


def _shares_of_baseline(
    counting: Sequence[tuple[TrialRecord, TcpMeasurement]], baseline: Sequence[TrialRecord]
) -> list[float]:
    """One ratio a trial. Pairs of one round share its drift; a round without a baseline takes the median of the others,
    which makes the median of the ratios the ratio of the medians where no round has one."""
    by_round = {
        record.spec.round: record.tcp.throughput_bps
        for record in baseline
        if record.counts and record.tcp is not None and record.tcp.throughput_bps > 0
    }
    if not by_round:
        return []
    otherwise = median(list(by_round.values()))
    return [trial.throughput_bps / by_round.get(record.spec.round, otherwise) for record, trial in counting]


def _marked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with the best of each group marked."""
    rivals: dict[tuple[int, Direction], list[Row]] = {}
    for row in rows:
        if row.figures is not None and not (row.tunnel.is_baseline or row.is_calibration):
            rivals.setdefault((row.payload_bytes, row.direction), []).append(row)
    return tuple(replace(row, best=_best(row, rivals.get((row.payload_bytes, row.direction), []))) for row in rows)


def _best(row: Row, rivals: Sequence[Row]) -> frozenset[str]:
    """The figures of `row` that no rival beats; none where it has no rival or is none itself."""
    if len(rivals) < 2 or row not in rivals:
        return frozenset()
    router_limited = not any(rival.figures and rival.figures.is_tester_limited for rival in rivals)
    ranked = [(name, max) for name in HIGHEST_IS_BEST if router_limited] + [(name, min) for name in LOWEST_IS_BEST]
    won = set()
    for name, first in ranked:
        values = [value for rival in rivals if (value := getattr(rival.figures, name)) is not None]
        own: Estimate | None = getattr(row.figures, name)
        if own is not None and own.ties_with(first(values, key=lambda value: value.median)):
            won.add(name)
    return frozenset(won)
