"""Whether figures that others wrote can be: what is impossible, and what the rules of the audit do not believe."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from tunnelbench.analysis.audit.rules import ABOVE_LIMIT, AGREEMENT
from tunnelbench.analysis.audit.verdict import audit
from tunnelbench.analysis.summary import Row
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.result import CpuUsage, TcpMeasurement, TrialRecord, Window
from tunnelbench.model.search import SearchPoint

CLOCKS_APART = 0.02
"""Idle time and wall time come from two clocks: together they may be off by this much."""
SIGNED = frozenset({"idle_s", "start_s", "end_s"})
"""Idle time is looked at by itself; times of a series count from the start of the test, and some lie before it."""
FEW_PACKETS = 50
"""Packets of a connection that carry no payload."""


def impossible_figure(records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed]) -> str:
    """The first figure that nothing can have counted, in a sentence; empty: there is none."""
    measured: list[tuple[str, Any]] = [(f"trial {each.spec.sequence}", each.tcp or each.udp) for each in records]
    measured += [(f"the speed of {each.algorithm}", each) for each in speeds]
    for what, value in measured:
        if found := next(_impossible(value), ""):
            return f"{what}: {found}"
    for each in records:
        if each.spec.payload_bytes < 0 or each.spec.round < 0:
            return f"trial {each.spec.sequence}: a payload or round below zero"
    return ""


def _impossible(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, (int, float)) and value < 0 and name not in SIGNED:
        yield f"{name} is {value}, and is counted from 0"
    elif isinstance(value, (tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _impossible(item, name)
    elif is_dataclass(value):
        yield from _impossible_times(value)
        for field in fields(value):
            yield from _impossible(getattr(value, field.name), field.name)


def _impossible_times(value: Any) -> Iterator[str]:
    if isinstance(value, Window | SearchPoint) and value.duration_s <= 0:
        yield "it counted for no time at all"
    if isinstance(value, CpuUsage):
        whole_s = value.wall_s * len(value.cpus)
        if whole_s <= 0:
            yield "a CPU was watched for no time at all"
        elif not -CLOCKS_APART <= value.idle_s / whole_s <= 1 + CLOCKS_APART:
            yield f"CPUs were idle for {value.idle_s:g} s of {whole_s:g} s"


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
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(["tunnel", "payload_bytes", "direction", "throughput_mbps", "cpu_total_pct"])
    for row, figures in kept:
        busy = f"{figures.router_busy_share.median * 100:.2f}"
        name = "none" if row.tunnel.is_baseline else "tunnel"  # the audit reads words, not kinds
        rate = f"{figures.throughput_bps.median / 1e6:.4f}"
        writer.writerow([name, row.payload_bytes, row.direction.value, rate, busy])
    said = []
    for each in audit(output.getvalue(), "csv").found:
        finding = each.finding
        row, _ = kept[finding.row.number - 1]
        said.append(
            f"{row.tunnel.name}, {row.payload_bytes} {row.direction}: {finding.rule}: {finding.figure} "
            f"{finding.stated.value:.4g} against {finding.expected:.4g}, {finding.reason}"
        )
    return said
