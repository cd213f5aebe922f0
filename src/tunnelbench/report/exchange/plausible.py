"""Whether figures that others wrote can be: what is impossible, and what the rules of the audit do not believe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunnelbench.analysis.audit.headings import Role
from tunnelbench.analysis.audit.quantities import Quantity
from tunnelbench.analysis.audit.rows import Entry, Size
from tunnelbench.analysis.audit.rules import ABOVE_LIMIT, AGREEMENT, held
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.result import TcpMeasurement, TrialRecord
from tunnelbench.model.search import SearchPoint
from tunnelbench.model.udp import UdpMeasurement

CLOCKS_APART = 0.02
"""Idle time and wall time come from two clocks: together they may be off by this much."""
SIGNED = frozenset({"idle_s", "start_s", "end_s"})
"""Idle time is looked at by itself; times of a series count from the start of the test, and some lie before it."""
FEW_PACKETS = 50
"""Packets of a connection that carry no payload."""


def impossible_figure(records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed]) -> str:
    """The first figure that nothing can have counted, in a sentence; empty: there is none."""
    for record in records:
        what = f"trial {record.spec.sequence}"
        if record.spec.payload_bytes < 0 or record.spec.round < 0:
            return f"{what}: a payload or round below zero"
        for value in (record.tcp, record.udp):
            if value is not None and (found := below_zero(vars(value)) or _impossible_times(value)):
                return f"{what}: {found}"
    for speed in speeds:
        if found := below_zero(vars(speed)):
            return f"the speed of {speed.algorithm}: {found}"
    return ""


def below_zero(fields: Mapping[str, Any]) -> str:
    """The first of an object's figures, however deep, that is less than nothing; in words."""
    level: list[tuple[str, Any]] = list(fields.items())
    while level:
        below: list[tuple[str, Any]] = []
        for name, value in level:
            kind = type(value)
            if kind is int or kind is float:
                if value < 0 and name not in SIGNED:
                    return f"{name} is {value}, and is counted from 0"
            elif kind is tuple:
                below += [(name, item) for item in value]
            elif kind is dict:
                below += [(name, item) for item in value.values()]
            elif hasattr(value, "__dict__"):
                below += vars(value).items()
        level = below
    return ""


def _impossible_times(measured: TcpMeasurement | UdpMeasurement) -> str:
    points: list[SearchPoint] = []
    if isinstance(measured, UdpMeasurement):
        points = [*measured.points, *(point for search in measured.searches for point in search.points)]
    window = measured.window
    if any(point.duration_s <= 0 for point in points) or (window is not None and window.duration_s <= 0):
        return "it counted for no time at all"
    for usage in (window.router_cpu, window.tester_cpu, *window.router_by_cpu) if window else ():
        whole_s = usage.wall_s * len(usage.cpus)
        if whole_s <= 0:
            return "a CPU was watched for no time at all"
        if not -CLOCKS_APART <= usage.idle_s / whole_s <= 1 + CLOCKS_APART:
            return f"CPUs were idle for {usage.idle_s:g} s of {whole_s:g} s"
    return ""


def doubtful_figures(records: Sequence[TrialRecord], rows: Sequence[Row]) -> tuple[str, ...]:
    """What rules 16 and 17 do not believe of single trials, and the audit of the rows' medians, in sentences."""
    counted = [(record, record.tcp) for record in records if record.counts and record.tcp is not None]
    found = [f"trial {record.spec.sequence}: {each}" for record, tcp in counted for each in _of_trial(tcp)]
    return (*found, *_of_table(rows))


def _of_trial(tcp: TcpMeasurement) -> Iterator[str]:
    if tcp.mss_bytes and tcp.bytes_received:
        # What was still under way when the receiver's clock stopped was counted, too (rule 16).
        least = tcp.bytes_received / tcp.mss_bytes
        most = max(tcp.bytes_sent, tcp.bytes_received) / tcp.mss_bytes + (tcp.retransmits or 0)
        packets = tcp.counters.data_packets
        if not least * (1 - AGREEMENT) <= packets <= most * (1 + AGREEMENT) + FEW_PACKETS:
            yield f"packet-rate: {packets} packets counted, {least:.0f} take the payload"
    limit_bps = tcp.physical_limit_bps
    if limit_bps is not None and tcp.throughput_bps > limit_bps * (1 + ABOVE_LIMIT):
        yield f"line-limit: {tcp.throughput_bps / 1e6:.4g} Mbit/s on a link that carries {limit_bps / 1e6:.4g}"
    if (window := tcp.window).busiest_tester_share > 1 + CLOCKS_APART:
        yield f"cpu-sum: a tester's CPU was {window.busiest_tester_share:.0%} busy"


def _of_table(rows: Sequence[Row]) -> list[str]:
    """Rows in which the testers were the limit are left out: there a tunnel may seem faster than none."""
    routed = [row for row in rows if not row.is_calibration]
    kept = [(row, row.figures) for row in routed if row.figures and not row.figures.is_tester_limited]
    if not kept:
        return []
    rows_as_published = [_entry(number, row, figures) for number, (row, figures) in enumerate(kept, start=1)]
    return [
        f"{row.tunnel.name}, {row.payload_bytes} {row.direction}: {finding.rule}: {finding.figure} "
        f"{finding.stated.value:.4g} against {finding.expected:.4g}, {finding.reason}"
        for (row, _), rules in zip(kept, held(rows_as_published, {}), strict=True)
        for finding in (each.finding for each in rules)
        if finding is not None
    ]


def _entry(number: int, row: Row, figures: Figures) -> Entry:
    """A row as the audit takes it from a table."""
    return Entry(
        number=number,
        line=number,
        text={Role.TUNNEL: "none" if row.tunnel.is_baseline else "tunnel"},  # it reads words, not kinds
        direction=row.direction.value,
        size=Size(row.payload_bytes, Role.PAYLOAD),
        throughput=Quantity(figures.throughput_bps.median, 0.0),
        throughput_again=None,
        packets=None,
        cpu_parts={},
        cpu_total=Quantity(figures.router_busy_share.median * 100, 0.0),
        share=None,
        link_bps=None,
    )
