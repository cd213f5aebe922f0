"""Rows of the UDP table: one for each tunnel, payload, direction, test and load, with medians over its trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.statistics import Estimate, estimate, estimate_known, median
from tunnelbench.analysis.summary import (
    PingFigures,
    Row,
    RowKey,
    TunnelRow,
    group_trials,
    is_tester_limited,
    ping_figures,
    row_facts,
)
from tunnelbench.model.plan import CALIBRATION_KIND, Test
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, lower_bounds
from tunnelbench.model.udp import (
    HandshakeCounts,
    UdpCounts,
    UdpMeasurement,
    frame_bytes,
    layer_1_bps,
    mean_payload_bytes,
)

SMALL_PAYLOAD_BYTES = 100
"""Largest payload of a small packet [bytes]."""


@dataclass(frozen=True)
class UdpFigures(PingFigures):
    """Medians over the trials that count, or over their searches; None: the test has no such figure."""

    forwarding_rate_pps: Estimate | None
    """Packets per second that arrived; None for a search, whose rates are NDR and PDR."""
    loss_ratio: Estimate | None
    """Packets lost on the path over packets sent; for a search, in its confirming trial."""
    ndr_pps: Estimate | None
    pdr_pps: Estimate | None
    """Highest offered load without loss, and with at most 0.5 % loss, over all searches [packets/s]."""
    searches: int
    complete_searches: int
    confirmed: int
    refuted: int
    """Number of confirming trials without loss, and number of confirming trials with loss."""
    delay_p50_ns: Estimate | None
    delay_p99_ns: Estimate | None
    delay_max_ns: float | None
    """Longest delay in all trials [ns]."""
    delay_variation_p99_ns: Estimate | None
    path_lost_packets: Estimate | None
    """Packets lost on the path in a trial of the tests `rekey` and `handshake`."""
    longest_gap_s: Estimate | None
    """Longest time between two arrivals in such a trial [s]."""
    rekeys: Estimate | None
    """Changes of keys in a trial of the test `rekey`."""
    handshakes_per_s: Estimate | None
    """Tunnels that other clients set up per second in a trial of the test `handshake`."""
    handshake_p50_s: Estimate | None
    handshake_max_s: Estimate | None
    """Time from the start of such a tunnel to the answer to its first packet: median and longest [s]."""
    server_memory_bytes: Estimate | None
    """Memory that the server's programs take before the tunnels of its further clients are open [bytes]."""
    tunnel_memory_bytes: Estimate | None
    """Memory that one open tunnel takes of the server's programs [bytes]."""
    longest_burst_packets: Estimate | None
    curve: tuple[tuple[float, float], ...]
    """Offered load [packets/s] and loss ratio, in ascending order; points that the testers could not offer are left
    out."""
    router_busy_share: Estimate | None
    daemon_share: Estimate | None
    cpu_s_per_million_packets: Estimate | None
    """Router CPU time during the timed trial; for a search, at the NDR [s]."""
    share_of_baseline: Estimate | None
    """Rate (PDR for a search) over the baseline's rate with the same payload, direction, test and load."""
    is_tester_limited: bool
    """True if in at least half of the trials a tester, not the router, was the limit."""

    @property
    def rate_pps(self) -> Estimate | None:
        """Rate by which rows are compared."""
        return self.pdr_pps or self.forwarding_rate_pps


@dataclass(frozen=True)
class UdpRow(TunnelRow):
    """UDP trials of one tunnel with one payload, direction, test and load."""

    test: Test
    load: str
    figures: UdpFigures | None
    """None: no trial counts."""
    over_tcp: float | None
    """Small UDP packets per second over small TCP packets per second, of the same tunnel and direction.

    The UDP rate is the PDR, or the forwarding rate at full speed. TCP counts data and acknowledgements. None: one of
    the two was not measured.
    """

    @property
    def key(self) -> RowKey:
        return self.tunnel.name, self.payload_bytes, self.direction, self.test, self.load

    @property
    def frame_bytes(self) -> float:
        """Ethernet frame, FCS included; the mean for the mix [bytes]."""
        return frame_bytes(self.payload_bytes)

    def payload_bps(self, pps: float) -> float:
        """Return the UDP payload of a packet rate [bit/s]."""
        return pps * mean_payload_bytes(self.payload_bytes) * 8

    def layer_1_bps(self, pps: float) -> float:
        """Return the bit rate on the Ethernet cable of a packet rate [bit/s]."""
        return layer_1_bps(pps, self.payload_bytes)


def summarise_udp(records: Sequence[TrialRecord], tcp_rows: Sequence[Row] = ()) -> tuple[UdpRow, ...]:
    """Return a row for each tunnel, payload, direction, test and load, in the order of the plan.

    Soaks are left out, because they are summarised from their series. `tcp_rows` are those of the same run.
    """
    groups = group_trials(record for record in records if _is_udp(record.spec.test))
    return tuple(_row(group, baseline, tcp_rows) for group, baseline in groups)


def _is_udp(test: Test) -> bool:
    return test not in {Test.TCP, Test.SOAK} and not test.is_of_connections


def rows_of(test: Test, rows: Sequence[UdpRow]) -> list[UdpRow]:
    """Return the rows of a test that have figures, without the calibration."""
    return [row for row in rows if row.test is test and not row.is_calibration and row.figures]


def _row(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord], tcp_rows: Sequence[Row]) -> UdpRow:
    figures = _figures(records, baseline)
    return UdpRow(
        **row_facts(records, is_tester_limited=figures is not None and figures.is_tester_limited),
        test=records[0].spec.test,
        load=records[0].spec.load,
        figures=figures,
        over_tcp=_over_tcp(records, figures, tcp_rows),
    )


def _figures(records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]) -> UdpFigures | None:
    counting = [(record, record.udp) for record in records if record.counts and record.udp is not None]
    trials = [trial for _, trial in counting]
    if not trials:
        return None
    is_calibration = records[0].spec.tunnel.kind == CALIBRATION_KIND
    has_gap = records[0].spec.test.is_of_gaps
    timed = [trial.counts for trial in trials if trial.counts is not None]
    searches = [run for trial in trials for run in trial.searches]

    def of_timed(figure: Callable[[UdpCounts], float | None]) -> Estimate | None:
        return estimate_known(figure(counts) for counts in timed)

    def of_router(figure: Callable[[UdpMeasurement], float | None]) -> Estimate | None:
        return None if is_calibration else estimate_known(figure(trial) for trial in trials)

    def of_handshakes(figure: Callable[[HandshakeCounts], float | None]) -> Estimate | None:
        return estimate_known(figure(trial.handshakes) for trial in trials if trial.handshakes)

    longest_delays = [counts.delay.max_ns for counts in timed if counts.delay]
    rates, base = _rates(records), _rates(baseline)
    has_baseline = bool(base) and median(base) > 0 and not is_calibration
    points = [point for trial in trials for point in trial.points if not point.is_void]
    return UdpFigures(
        forwarding_rate_pps=None if searches else of_timed(lambda counts: counts.forwarding_rate_pps),
        loss_ratio=of_timed(lambda counts: counts.loss_ratio),
        ndr_pps=estimate_known(lower_bounds(searches, NDR_LOSS_RATIO)),
        pdr_pps=estimate_known(lower_bounds(searches, PDR_LOSS_RATIO)),
        searches=len(searches),
        complete_searches=sum(run.is_complete for run in searches),
        confirmed=sum(trial.is_refuted is False for trial in trials),
        refuted=sum(trial.is_refuted is True for trial in trials),
        delay_p50_ns=of_timed(lambda counts: counts.delay.p50_ns if counts.delay else None),
        delay_p99_ns=of_timed(lambda counts: counts.delay.p99_ns if counts.delay else None),
        delay_max_ns=max(longest_delays, default=None),
        delay_variation_p99_ns=of_timed(lambda c: c.delay_variation.p99_ns if c.delay_variation else None),
        path_lost_packets=of_timed(lambda counts: counts.path_lost_packets) if has_gap else None,
        longest_gap_s=of_timed(lambda counts: counts.longest_gap_s) if has_gap else None,
        rekeys=of_router(lambda trial: trial.rekeys),
        handshakes_per_s=of_handshakes(lambda counts: counts.per_s),
        handshake_p50_s=of_handshakes(lambda counts: counts.setup_p50_s),
        handshake_max_s=of_handshakes(lambda counts: counts.setup_max_s),
        server_memory_bytes=of_handshakes(lambda counts: counts.memory.before_bytes if counts.memory else None),
        tunnel_memory_bytes=of_handshakes(lambda counts: counts.memory.per_tunnel_bytes if counts.memory else None),
        longest_burst_packets=estimate_known(trial.longest_burst_packets for trial in trials),
        curve=tuple(sorted((point.intended_pps, point.loss_ratio) for point in points)),
        router_busy_share=of_router(lambda trial: trial.router_busy_share),
        daemon_share=of_router(lambda trial: trial.daemon_busy_share),
        cpu_s_per_million_packets=of_router(lambda trial: trial.cpu_s_per_million_packets),
        share_of_baseline=estimate([rate / median(base) for rate in rates]) if rates and has_baseline else None,
        **ping_figures([trial.ping for trial in trials]),
        is_tester_limited=is_tester_limited([record for record, _ in counting]),
    )


def _rates(records: Sequence[TrialRecord]) -> list[float]:
    """Return the rates by which rows are compared: PDR of each search, else forwarding rate at full speed [packets/s].

    A trial at a given rate has no such rate, because it does not show which of two tunnels can forward more.
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
    if figures is None or not rates or not 0 < spec.payload_bytes <= SMALL_PAYLOAD_BYTES or spec.test.is_echo:
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
