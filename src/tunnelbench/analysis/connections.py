"""Rows of the table of TCP connections: one for each tunnel, test and load, with medians over its trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.statistics import Estimate, estimate, estimate_known, median
from tunnelbench.analysis.summary import (
    PingFigures,
    RowKey,
    TunnelRow,
    group_trials,
    is_tester_limited,
    ping_figures,
    row_facts,
)
from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.plan import CALIBRATION_KIND, Test
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement


@dataclass(frozen=True)
class ConnectionFigures(PingFigures):
    """Medians over the trials that count; None: the test has no such figure."""

    established_per_s: Estimate | None
    """New connections per second; None for the test `concurrent`, whose rate is the plan's."""
    open_max: Estimate
    """Most connections that were open at the same time."""
    not_established: Estimate
    """Connections that were begun and not established."""
    shows_limit: bool
    """True if each trial that lost connections lost those that were begun last, so that their number is a limit."""
    tracked: Estimate | None
    """Connections that the router tracked, at most, those of earlier trials included; None: it tracks none."""
    establishment_p50_ns: Estimate | None
    establishment_p99_ns: Estimate | None
    """Time to establish a connection [ns]."""
    router_busy_share: Estimate | None
    daemon_share: Estimate | None
    share_of_baseline: Estimate | None
    """New connections per second, flat out, over those without a tunnel."""
    is_tester_limited: bool


@dataclass(frozen=True)
class ConnectionRow(TunnelRow):
    """Trials of TCP connections of one tunnel with one test and load."""

    test: Test
    load: str
    figures: ConnectionFigures | None
    """None: no trial counts."""

    @property
    def key(self) -> RowKey:
        return self.tunnel.name, self.payload_bytes, self.direction, self.test, self.load

    @property
    def is_incomplete(self) -> bool:
        """True if fewer connections were open than the plan tried to open."""
        figures = self.figures
        return self.test is Test.CONCURRENT and figures is not None and figures.not_established.median > 0


def summarise_connections(records: Sequence[TrialRecord]) -> tuple[ConnectionRow, ...]:
    """Return a row for each tunnel, test and load, in the order of the plan."""
    groups = group_trials(record for record in records if record.spec.test.is_of_connections)
    return tuple(_row(group, baseline) for group, baseline in groups)


def _row(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> ConnectionRow:
    figures = _figures(records, baseline)
    return ConnectionRow(
        **row_facts(records, is_tester_limited=figures is not None and figures.is_tester_limited),
        test=records[0].spec.test,
        load=records[0].spec.load,
        figures=figures,
    )


def _figures(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> ConnectionFigures | None:
    counting = [(record, record.udp, record.udp.connections) for record in records if record.counts and record.udp]
    trials = [(record, udp, counts) for record, udp, counts in counting if counts is not None]
    if not trials:
        return None
    is_calibration = records[0].spec.tunnel.kind == CALIBRATION_KIND
    rates, base = _rates(records), _rates(baseline)
    is_flat_out = all(counts.intended_per_s is None for _, _, counts in trials)
    has_share = is_flat_out and rates and base and median(base) > 0 and not is_calibration

    def of(figure: Callable[[ConnectionCounts], float]) -> Estimate:
        return estimate([figure(counts) for _, _, counts in trials])

    def where_known(figure: Callable[[ConnectionCounts], float | None]) -> Estimate | None:
        return estimate_known(figure(counts) for _, _, counts in trials)

    def of_router(figure: Callable[[UdpMeasurement], float | None]) -> Estimate | None:
        return None if is_calibration else estimate_known(figure(udp) for _, udp, _ in trials)

    return ConnectionFigures(
        established_per_s=estimate(rates) if rates else None,
        open_max=of(lambda counts: counts.open_max),
        not_established=of(lambda counts: counts.not_established),
        shows_limit=all(counts.shows_limit for _, _, counts in trials if counts.not_established),
        tracked=where_known(lambda counts: counts.tracked)
        if records[0].spec.tunnel.packet_filter.firewall.tracks
        else None,
        establishment_p50_ns=where_known(lambda counts: counts.establishment_p50_ns),
        establishment_p99_ns=where_known(lambda counts: counts.establishment_p99_ns),
        router_busy_share=of_router(lambda udp: udp.router_busy_share),
        daemon_share=of_router(lambda udp: udp.daemon_busy_share),
        share_of_baseline=estimate([rate / median(base) for rate in rates]) if has_share else None,
        **ping_figures([udp.ping for _, udp, _ in trials]),
        is_tester_limited=is_tester_limited([record for record, _, _ in trials]),
    )


def _rates(records: Sequence[TrialRecord]) -> list[float]:
    """Return the new connections per second of the trials that count; none of the test `concurrent`."""
    return [
        record.udp.connections.established_per_s
        for record in records
        if record.counts and record.udp and record.udp.connections and record.spec.test is Test.CONNECT
    ]
