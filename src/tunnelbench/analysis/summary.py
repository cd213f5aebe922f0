"""Rows of the TCP table: one for each tunnel, payload and direction, with medians over its trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tunnelbench.analysis.encryption import is_encrypted
from tunnelbench.analysis.statistics import Estimate, estimate, estimate_known, median
from tunnelbench.model.counters import Ping
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import (
    LINE_SPEED_TOLERANCE,
    OVER_LIMIT_TOLERANCE,
    PACED_SHARE,
    Outcome,
    TcpMeasurement,
    TrialRecord,
    Verdict,
)

IDLE_DAEMON_BELOW = 0.01
"""Share of one CPU; if a tunnel's programs take less than it, the kernel carries the packets, not the programs."""
TESTER_RULE = 6
"""Number of the rule whose checks, if doubtful, show that the testers were the limit."""

HIGHEST_IS_BEST = ("throughput_bps", "data_pps")
LOWEST_IS_BEST = ("cpu_s_per_million_packets", "cpu_s_per_gigabit")

RowKey = tuple[str, int, Direction, Test, str]
"""Tunnel name, payload [bytes], direction, test and load: trials with one key are repeats of each other."""


class TrialClass(StrEnum):
    """Class of a trial: its verdict if it was timed, else the reason why it was not."""

    OK = "ok"
    NOTE = "note"
    DOUBTFUL = "doubtful"
    VOID = "void"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    GIVEN_UP = "given-up"


UNCOUNTED = (TrialClass.VOID, TrialClass.REFUSED, TrialClass.UNAVAILABLE, TrialClass.GIVEN_UP)
"""Classes of trials that have no figure, or whose figures are not used."""


_CLASSES = {each.value: each for each in TrialClass}


def trial_class(record: TrialRecord) -> TrialClass:
    return _CLASSES[record.verdict if record.outcome in {Outcome.MEASURED, Outcome.VOID} else record.outcome]


def count_classes(records: Iterable[TrialRecord]) -> Mapping[TrialClass, int]:
    """Return the number of trials of each class; classes without a trial have 0."""
    counted = Counter(trial_class(record) for record in records)
    return {each: counted[each] for each in TrialClass}


@dataclass(frozen=True)
class PingFigures:
    """Pings of the client to the router under load, over the trials that count."""

    ping_worst_ms: float | None
    """Slowest answer in all trials [ms]; None: no answer came in any trial."""
    pings_sent: int
    pings_lost: int
    """Sums over the trials."""


def ping_figures(pings: Sequence[Ping]) -> dict[str, Any]:
    """Return the fields of PingFigures."""
    return {
        "ping_worst_ms": max((ping.worst_ms for ping in pings if ping.worst_ms is not None), default=None),
        "pings_sent": sum(ping.sent for ping in pings),
        "pings_lost": sum(ping.sent - ping.answered for ping in pings),
    }


@dataclass(frozen=True)
class Figures(PingFigures):
    """Medians over the trials that count; None: no trial has the figure."""

    throughput_bps: Estimate
    """TCP payload at the receiver [bit/s]."""
    share_of_baseline: Estimate | None
    """Throughput over the baseline's throughput with the same payload and direction.

    The baseline is that of the same round, or the median of all rounds if the baseline trial of that round does not
    count.
    """
    data_pps: Estimate
    ack_pps: Estimate
    """Data packets and acknowledgements per second, from interface counters."""
    router_busy_share: Estimate
    """Busy share of the router's CPUs during the traffic."""
    router_user_share: Estimate
    router_system_share: Estimate
    router_softirq_share: Estimate
    router_steal_share: Estimate
    """Shares of CPU time, counted in clock ticks, which are inaccurate (rule 11)."""
    daemon_share: Estimate | None
    """CPU time of the tunnel's processes on the router, as a share of one CPU; None: the tunnel has no process."""
    tester_busy_share: Estimate
    foreign_share: Estimate
    """CPU time of background load on the testbed's CPUs, as a share of one CPU."""
    cpu_s_per_million_packets: Estimate | None
    """Router CPU time per million packets, acknowledgements included [s]."""
    cpu_s_per_gigabit: Estimate | None
    """Router CPU time per 10^9 bits of TCP payload [s]."""
    payload_bytes: Estimate | None
    """Effective TCP payload of a full segment [bytes]."""
    retransmits: Estimate | None
    share_of_limit: Estimate | None
    """Throughput over the limit of the link for this payload; None: the link has no rate."""
    is_tester_limited: bool
    """True if in at least half of the trials a tester, not the router, was the limit."""

    @property
    def is_in_kernel(self) -> bool:
        """True if programs of the tunnel took no CPU time, or as little as an idle daemon."""
        return self.daemon_share is None or self.daemon_share.median < IDLE_DAEMON_BELOW

    @property
    def is_line_speed(self) -> bool:
        is_near = self.share_of_limit is not None and self.share_of_limit.median >= 1 - LINE_SPEED_TOLERANCE
        return is_near and not self.is_above_limit

    @property
    def is_above_limit(self) -> bool:
        return self.share_of_limit is not None and self.share_of_limit.median > 1 + OVER_LIMIT_TOLERANCE

    @property
    def extrapolated_pps(self) -> float | None:
        """Packets per second, acknowledgements included, that one fully busy router CPU would carry.

        None if the testers were not the limit (rule 6). The cost of a packet changes with the load, so this is an
        extrapolation.
        """
        cost = self.cpu_s_per_million_packets
        return 1e6 / cost.median if self.is_tester_limited and cost and cost.median else None

    @property
    def extrapolated_bps(self) -> float | None:
        """TCP payload that one fully busy router CPU would carry [bit/s]; an extrapolation such as
        `extrapolated_pps`."""
        cost = self.cpu_s_per_gigabit
        return 1e9 / cost.median if self.is_tester_limited and cost and cost.median else None


@dataclass(frozen=True)
class TunnelRow:
    """Trials of one tunnel with one payload in one direction, without their figures."""

    tunnel: TunnelSpec
    payload_bytes: int
    """Payload as asked for [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: Direction
    classes: Mapping[TrialClass, int]
    doubtful_checks: tuple[str, ...]
    """Names of the checks that made a trial doubtful or void.

    Checks of the testers' limit are left out if the row is tester-limited.
    """
    doubts: tuple[str, ...]
    """The same names, but only from the trials that count."""
    reasons: tuple[str, ...]
    """Reasons for which trials do not count."""
    versions: Mapping[str, str]
    """Versions of the tunnel's programs in the row's trials, as `joined_versions` returns them."""
    is_encrypted: bool | None
    """True if the tunnel encrypts its packets; None: unknown."""

    @property
    def trials(self) -> int:
        return sum(self.classes.values())

    @property
    def uncounted_trials(self) -> int:
        """Number of trials that have no figures, or whose figures are not used."""
        return sum(self.classes[each] for each in UNCOUNTED)

    @property
    def uncounted_classes(self) -> list[str]:
        """Classes of these trials."""
        return [each.value for each in UNCOUNTED if self.classes[each]]

    @property
    def is_calibration(self) -> bool:
        """True if the testers were connected directly, without a router."""
        return self.tunnel.kind == CALIBRATION_KIND


@dataclass(frozen=True)
class Row(TunnelRow):
    """TCP trials of one tunnel with one payload in one direction."""

    figures: Figures | None
    """None: no trial counts."""
    load: str = ""
    """Rate at which the plan paces the sender [Mbit/s]; empty: not paced."""
    best: frozenset[str] = frozenset()
    """Names of the figures that no other row of the group beats.

    A group is all tunnels with the same payload and direction, without the baseline and the calibration. Rows that tie
    with the best row are marked too. Figures that grow with the load are ranked only if all rows of the group are
    limited by the router; otherwise only the cost of a packet is comparable.
    """

    @property
    def key(self) -> RowKey:
        return self.tunnel.name, self.payload_bytes, self.direction, Test.TCP, self.load

    @property
    def is_at_load(self) -> bool:
        """True if the plan paced the sender, and the tunnel carried that rate."""
        if not self.load or self.figures is None:
            return False
        return self.figures.throughput_bps.median >= PACED_SHARE * float(self.load) * 1e6


def row_key(spec: TrialSpec) -> RowKey:
    """Return the key of the row that a trial belongs to."""
    return spec.tunnel.name, spec.payload_bytes, spec.direction, spec.test, spec.load


def trials_by_row(records: Iterable[TrialRecord]) -> dict[RowKey, list[TrialRecord]]:
    """Return the trials of each row."""
    found: dict[RowKey, list[TrialRecord]] = {}
    for record in records:
        found.setdefault(row_key(record.spec), []).append(record)
    return found


def group_trials(records: Iterable[TrialRecord]) -> list[tuple[list[TrialRecord], list[TrialRecord]]]:
    """Return the trials of each row in the order of the plan, each with the baseline trials that it compares with."""
    groups = trials_by_row(sorted(records, key=lambda record: record.spec.sequence))
    baselines: dict[tuple[object, ...], list[TrialRecord]] = {}
    for key, group in groups.items():
        if group[0].spec.tunnel.is_baseline:
            baselines.setdefault(key[1:], group)
    return [(group, baselines.get(key[1:], [])) for key, group in groups.items()]


def row_facts(records: Sequence[TrialRecord], *, is_tester_limited: bool) -> dict[str, Any]:
    """Return the fields of a `TunnelRow` for the trials of one row."""
    spec = records[0].spec
    failed = [
        (check.name, record.counts)
        for record in records
        for check in record.checks
        if check.verdict in {Verdict.DOUBTFUL, Verdict.VOID} and not (is_tester_limited and check.rule == TESTER_RULE)
    ]
    return {
        "tunnel": spec.tunnel,
        "payload_bytes": spec.payload_bytes,
        "direction": spec.direction,
        "classes": count_classes(records),
        "doubtful_checks": tuple(dict.fromkeys(name for name, _ in failed)),
        "doubts": tuple(dict.fromkeys(name for name, counts in failed if counts)),
        "reasons": tuple(dict.fromkeys(reason for record in records for reason in record.void_reasons)),
        "versions": joined_versions(records),
        "is_encrypted": is_encrypted(spec.tunnel, records),
    }


def joined_versions(records: Iterable[TrialRecord]) -> Mapping[str, str]:
    """Return the versions of the programs in some trials, as in `TunnelProof.versions`.

    A program whose version changed has all of its versions, such as `2.6.14, 2.7.0`.
    """
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for program, version in (record.proof.versions if record.proof else {}).items():
            found.setdefault(program, {})[version] = None
    return {program: ", ".join(versions) for program, versions in found.items()}


def is_tester_limited(records: Sequence[TrialRecord]) -> bool:
    """Return True if a check of the testers' limit is doubtful in at least half of the trials."""
    limited = sum(
        any(check.rule == TESTER_RULE and check.verdict is Verdict.DOUBTFUL for check in record.checks)
        for record in records
    )
    return limited * 2 >= len(records)


def summarise(records: Sequence[TrialRecord]) -> tuple[Row, ...]:
    """Return a row for each tunnel, payload and direction of TCP, in the order of the plan."""
    groups = group_trials(record for record in records if record.spec.test is Test.TCP)
    return _marked([_row(group, baseline) for group, baseline in groups])


def _row(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> Row:
    figures = _figures(records, baseline)
    facts = row_facts(records, is_tester_limited=figures is not None and figures.is_tester_limited)
    return Row(**facts, figures=figures, load=records[0].spec.load)


def _figures(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> Figures | None:
    counting = [(record, record.tcp) for record in records if record.counts and record.tcp is not None]
    trials = [trial for _, trial in counting]
    if not trials:
        return None

    def of(figure: Callable[[TcpMeasurement], float]) -> Estimate:
        return estimate([figure(trial) for trial in trials])

    def where_known(figure: Callable[[TcpMeasurement], float | None]) -> Estimate | None:
        return estimate_known(figure(trial) for trial in trials)

    def per_packet(figure: Callable[[TcpMeasurement], float | None]) -> Estimate | None:
        return None if is_calibration else where_known(figure)

    is_calibration = records[0].spec.tunnel.kind == CALIBRATION_KIND  # it has no cables, and no router that forwards
    return Figures(
        throughput_bps=of(lambda trial: trial.throughput_bps),
        share_of_baseline=None if is_calibration else estimate_known(_shares_of_baseline(counting, baseline)),
        data_pps=of(lambda trial: trial.data_pps),
        ack_pps=of(lambda trial: trial.ack_pps),
        router_busy_share=of(lambda trial: trial.router_busy_share),
        router_user_share=of(lambda trial: trial.window.router_cpu.share(trial.window.router_cpu.user_s)),
        router_system_share=of(lambda trial: trial.window.router_cpu.share(trial.window.router_cpu.system_s)),
        router_softirq_share=of(lambda trial: trial.window.router_cpu.share(trial.window.router_cpu.softirq_s)),
        router_steal_share=of(lambda trial: trial.window.router_cpu.share(trial.window.router_cpu.steal_s)),
        daemon_share=where_known(lambda trial: trial.daemon_busy_share),
        tester_busy_share=of(lambda trial: trial.tester_busy_share),
        foreign_share=of(lambda trial: trial.foreign_cpu_s / trial.bracket_s if trial.bracket_s else 0.0),
        cpu_s_per_million_packets=per_packet(lambda trial: trial.cpu_s_per_million_packets),
        cpu_s_per_gigabit=per_packet(lambda trial: trial.cpu_s_per_gigabit),
        payload_bytes=where_known(lambda trial: trial.mss_bytes),
        retransmits=where_known(lambda trial: trial.retransmits),
        **ping_figures([trial.ping for trial in trials]),
        share_of_limit=where_known(
            lambda trial: trial.throughput_bps / trial.physical_limit_bps if trial.physical_limit_bps else None
        ),
        is_tester_limited=is_tester_limited([record for record, _ in counting]),
    )


def _shares_of_baseline(
    counting: Sequence[tuple[TrialRecord, TcpMeasurement]], baseline: Sequence[TrialRecord]
) -> list[float]:
    """Return a ratio for each trial; none if no baseline trial counts.

    The machine's speed drifts, but is about equal for both trials of one round. A round without a baseline is compared
    with the median baseline, so that the median of the ratios is the ratio of the medians if no round has a baseline of
    its own.
    """
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
    """Return the rows with the best figures of each group marked."""
    rivals: dict[RowKey, list[Row]] = {}
    for row in rows:
        if _is_ranked(row):
            rivals.setdefault(_group(row), []).append(row)
    leading = {group: _leading(own) for group, own in rivals.items()}
    return tuple(replace(row, best=_best(row, leading[_group(row)])) if _is_ranked(row) else row for row in rows)


def _group(row: Row) -> RowKey:
    """Return a key that is equal for the rows that are compared with each other: all tunnels with the same traffic."""
    return ("", *row.key[1:])


def _is_ranked(row: Row) -> bool:
    """Return True if a row's figures are compared with those of the other rows of its group."""
    return row.figures is not None and row.tunnel.has_tunnel and not row.is_calibration


def _leading(rivals: Sequence[Row]) -> Mapping[str, Estimate]:
    """Return, for each ranked figure, the best value among the rivals (rows of one group); empty if there is one row
    only."""
    if len(rivals) < 2:
        return {}
    is_loaded = any(rival.load for rival in rivals)
    router_limited = not is_loaded and not any(rival.figures and rival.figures.is_tester_limited for rival in rivals)
    ranked = [(name, max) for name in HIGHEST_IS_BEST if router_limited] + [(name, min) for name in LOWEST_IS_BEST]
    found = {}
    for name, first in ranked:
        if values := [value for rival in rivals if (value := getattr(rival.figures, name)) is not None]:
            found[name] = first(values, key=lambda value: value.median)
    return found


def _best(row: Row, leading: Mapping[str, Estimate]) -> frozenset[str]:
    """Return the figures of a row that no other row of its group beats."""
    own = {name: getattr(row.figures, name) for name in leading}
    return frozenset(name for name, leader in leading.items() if own[name] is not None and own[name].ties_with(leader))
