"""One row for each tunnel, payload, direction, test and load of UDP: what its trials say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.statistics import Estimate, estimate, median
from tunnelbench.analysis.summary import TESTER_RULE, Row, TrialClass, count_classes
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, Test, TunnelSpec
from tunnelbench.model.result import TrialRecord, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, SearchRun
from tunnelbench.model.udp import UdpCounts, UdpMeasurement, frame_bytes, layer_1_bps, mean_payload_bytes

SMALL_PAYLOAD_BYTES = 100
"""A packet is called small up to here [bytes]."""


@dataclass(frozen=True)
class UdpFigures:
    """Medians over the trials that count, or over their searches; None where the test has no such figure."""

    forwarding_rate_pps: Estimate | None
    """Packets per second at which they arrived; of a search, nothing: NDR and PDR are its rates."""
    loss_ratio: Estimate | None
    """Lost on the path over sent; of a search, in its confirming trial."""
    ndr_pps: Estimate | None
    pdr_pps: Estimate | None
    """Highest offered loads without loss and with at most 0.5 %, over all searches of all trials."""
    searches: int
    complete_searches: int
    confirmed: int
    refuted: int
    """Confirming trials that lost nothing, and those that lost packets."""
    delay_p50_ns: Estimate | None
    delay_p99_ns: Estimate | None
    delay_max_ns: float | None
    """The worst of all trials."""
    delay_variation_p99_ns: Estimate | None
    longest_burst_packets: Estimate | None
    curve: tuple[tuple[float, float], ...]
    """Offered load [packets/s] and loss ratio, in order; of points that the testers failed at, none."""
    router_busy_share: Estimate | None
    daemon_share: Estimate | None
    cpu_s_per_million_packets: Estimate | None
    """Router CPU, inside the timed trial; of a search, at the NDR."""
    share_of_baseline: Estimate | None
    """The rate (of a search the PDR) over that of the baseline with the same payload, direction, test and load."""
    is_tester_limited: bool
    """At least half of the trials say that a tester, not the router, was the limit."""

    @property
    def rate_pps(self) -> Estimate | None:
        """What rows are compared by."""
        return self.pdr_pps or self.forwarding_rate_pps


@dataclass(frozen=True)
class UdpRow:
    """All trials of one tunnel that did the same."""

    tunnel: TunnelSpec
    payload_bytes: int
    """As asked for [bytes]; 0 is the mix."""
    direction: Direction
    test: Test
    load: str
    classes: Mapping[TrialClass, int]
    doubtful_checks: tuple[str, ...]
    """Names of the checks that made a trial doubtful or void; those of the testers' limit only where the row as a whole
    is not tester-limited."""
    reasons: tuple[str, ...]
    """Why trials have no figure that counts."""
    versions: Mapping[str, str]
    figures: UdpFigures | None
    """None: no trial counts."""
    over_tcp: float | None
    """Small UDP packets per second (PDR, or what came through flat out) over small TCP's, data and ACKs, of the same
    tunnel and direction; None where the two were not both measured."""

    @property
    def trials(self) -> int:
        return sum(self.classes.values())

    @property
    def is_calibration(self) -> bool:
        return self.tunnel.kind == CALIBRATION_KIND

    @property
    def frame_bytes(self) -> float:
        """Ethernet frame, FCS included [bytes]; of the mix, the mean."""
        return frame_bytes(self.payload_bytes)

    def payload_bps(self, pps: float) -> float:
        """UDP payload of a packet rate [bit/s]."""
        return pps * mean_payload_bytes(self.payload_bytes) * 8

    def layer_1_bps(self, pps: float) -> float:
        """What it takes on Ethernet [bit/s]."""
        return layer_1_bps(pps, self.payload_bytes)


Key = tuple[str, int, Direction, Test, str]


def summarise_udp(records: Sequence[TrialRecord], tcp_rows: Sequence[Row] = ()) -> tuple[UdpRow, ...]:
    """One row for each tunnel, payload, direction, test and load, in the order of the plan."""
    grouped: dict[Key, list[TrialRecord]] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        spec = record.spec
        if spec.test not in {Test.TCP, Test.SOAK}:  # a soak is told by its series
            key = (spec.tunnel.name, spec.payload_bytes, spec.direction, spec.test, spec.load)
            grouped.setdefault(key, []).append(record)
    baselines = {key[1:]: group for key, group in grouped.items() if group[0].spec.tunnel.is_baseline}
    return tuple(_row(group, baselines.get(key[1:], []), tcp_rows) for key, group in grouped.items())


def _row(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord], tcp_rows: Sequence[Row]) -> UdpRow:
    spec = records[0].spec
    proofs = [record.proof for record in records if record.proof is not None]
    figures = _figures(records, baseline)
    told = figures is not None and figures.is_tester_limited
    grave = [
        check.name
        for record in records
        for check in record.checks
        if check.verdict in {Verdict.DOUBTFUL, Verdict.VOID} and not (told and check.rule == TESTER_RULE)
    ]
    return UdpRow(
        tunnel=spec.tunnel,
        payload_bytes=spec.payload_bytes,
        direction=spec.direction,
        test=spec.test,
        load=spec.load,
        classes=count_classes(records),
        doubtful_checks=tuple(dict.fromkeys(grave)),
        reasons=tuple(dict.fromkeys(reason for record in records for reason in _why_no_figure(record))),
        versions=proofs[0].versions if proofs else {},
        figures=figures,
        over_tcp=_over_tcp(records, figures, tcp_rows),
    )


def _why_no_figure(record: TrialRecord) -> list[str]:
    if record.counts:
        return []
    return [record.reason] if record.reason else [c.reason for c in record.checks if c.verdict is Verdict.VOID]


def _figures(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> UdpFigures | None:
    counting = [record for record in records if record.counts and record.udp is not None]
    trials = [record.udp for record in counting if record.udp is not None]
    if not trials:
        return None
    is_calibration = records[0].spec.tunnel.kind == CALIBRATION_KIND
    timed = [trial.counts for trial in trials if trial.counts is not None]
    searches = [run for trial in trials for run in trial.searches]

    def over(values: Sequence[float | None]) -> Estimate | None:
        known = [value for value in values if value is not None]
        return estimate(known) if known else None

    def of_timed(figure: Callable[[UdpCounts], float | None]) -> Estimate | None:
        return over([figure(counts) for counts in timed])

    def of_router(figure: Callable[[UdpMeasurement], float | None]) -> Estimate | None:
        return None if is_calibration else over([figure(trial) for trial in trials])

    limited = [
        any(check.rule == TESTER_RULE and check.verdict is Verdict.DOUBTFUL for check in record.checks)
        for record in counting
    ]
    worst = [counts.delay.max_ns for counts in timed if counts.delay]
    rates, base = _rates(counting), _rates(baseline)
    usable = bool(base) and median(list(base)) > 0 and not is_calibration
    points = [point for trial in trials for point in trial.points if not point.is_void]
    return UdpFigures(
        forwarding_rate_pps=None if searches else of_timed(lambda counts: counts.forwarding_rate_pps),
        loss_ratio=of_timed(lambda counts: counts.loss_ratio),
        ndr_pps=over(lower_bounds(searches, NDR_LOSS_RATIO)),
        pdr_pps=over(lower_bounds(searches, PDR_LOSS_RATIO)),
        searches=len(searches),
        complete_searches=sum(run.is_complete for run in searches),
        confirmed=sum(trial.is_refuted is False for trial in trials),
        refuted=sum(trial.is_refuted is True for trial in trials),
        delay_p50_ns=of_timed(lambda counts: counts.delay.p50_ns if counts.delay else None),
        delay_p99_ns=of_timed(lambda counts: counts.delay.p99_ns if counts.delay else None),
        delay_max_ns=max(worst, default=None),
        delay_variation_p99_ns=of_timed(lambda c: c.delay_variation.p99_ns if c.delay_variation else None),
        longest_burst_packets=over([trial.longest_burst_packets for trial in trials]),
        curve=tuple(sorted((point.intended_pps, point.loss_ratio) for point in points)),
        router_busy_share=of_router(lambda trial: trial.router_busy_share),
        daemon_share=of_router(lambda trial: trial.daemon_busy_share),
        cpu_s_per_million_packets=of_router(lambda trial: trial.cpu_s_per_million_packets),
        share_of_baseline=estimate([rate / median(list(base)) for rate in rates]) if rates and usable else None,
        is_tester_limited=sum(limited) * 2 >= len(limited),
    )


def lower_bounds(searches: Sequence[SearchRun], loss_ratio: float) -> list[float]:
    """The highest load that each search found to be carried, where it found one [packets/s]."""
    return [pps for run in searches if (pps := run.bounds(loss_ratio).lower_pps) is not None]


def _rates(records: Sequence[TrialRecord]) -> list[float]:
    """What rows are compared by: the PDR of each search, else what arrived flat out [packets/s].

    A given rate that both carry says nothing of either.
    """
    rates: list[float] = []
    for record in records:
        if not record.counts or record.udp is None:
            continue
        if record.udp.searches:
            rates += lower_bounds(record.udp.searches, PDR_LOSS_RATIO)
        elif record.udp.counts is not None and record.udp.counts.intended_pps is None:
            rates.append(record.udp.counts.forwarding_rate_pps)
    return rates


def _over_tcp(records: Sequence[TrialRecord], figures: UdpFigures | None, tcp_rows: Sequence[Row]) -> float | None:
    spec, rates = records[0].spec, _rates(records)
    if figures is None or not rates or not 0 < spec.payload_bytes <= SMALL_PAYLOAD_BYTES or spec.test is Test.ECHO:
        return None
    carried = [
        row.figures.data_pps.median + row.figures.ack_pps.median
        for row in tcp_rows
        if row.tunnel.name == spec.tunnel.name
        and row.direction == spec.direction
        and row.payload_bytes <= SMALL_PAYLOAD_BYTES
        and row.figures is not None
    ]
    return median(rates) / carried[0] if carried and carried[0] else None
