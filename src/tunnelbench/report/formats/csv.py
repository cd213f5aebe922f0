"""CSV (RFC 4180) with one row a trial: every figure, for spreadsheets and other statistics."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import trial_class
from tunnelbench.analysis.udp import lower_bounds
from tunnelbench.model.result import Outcome, PathCounters, RunRecord, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.model.udp import UdpCounts, UdpMeasurement
from tunnelbench.report.document import Document, Style
from tunnelbench.report.soak_annex import memory_text
from tunnelbench.report.text import one_line

Cell = str | int | float | tuple[int, ...] | None

FORMULA_STARTS = ("=", "+", "-", "@")
"""A spreadsheet takes a text that begins so for a formula, and runs it."""

OF_RUN: Mapping[str, Callable[[RunRecord], Cell]] = {
    "run_id": lambda run: run.run_id,
    "plan": lambda run: run.plan_name,
    "testbed": lambda run: run.testbed_name,
    "tunnelbench_version": lambda run: run.tunnelbench_version,
}

OF_TRIAL: Mapping[str, Callable[[TrialRecord], Cell]] = {
    "sequence": lambda record: record.spec.sequence,
    "round": lambda record: record.spec.round,
    "tunnel": lambda record: record.spec.tunnel.name,
    "kind": lambda record: record.spec.tunnel.kind,
    "options": lambda record: json.dumps(dict(record.spec.tunnel.options)),
    "payload_bytes": lambda record: record.spec.payload_bytes,
    "direction": lambda record: record.spec.direction.value,
    "test": lambda record: record.spec.test.value,
    "load": lambda record: record.spec.load,
    "outcome": lambda record: record.outcome.value,
    "class": lambda record: trial_class(record).value,
    "counts": lambda record: "yes" if record.counts else "no",
    "reason": lambda record: record.reason,
    "checks_not_ok": lambda record: "; ".join(
        f"{check.verdict.value} {check.name} (rule {check.rule}): {check.reason}"
        for check in record.checks
        if check.verdict.severity
    ),
    "started_at": lambda record: record.started_at,
    "ended_at": lambda record: record.ended_at,
    "versions": lambda record: (
        "; ".join(f"{key} {version}" for key, version in record.proof.versions.items()) if record.proof else None
    ),
    "inner_mtu_bytes": lambda record: record.proof.inner_mtu_bytes if record.proof else None,
}

OF_MEASUREMENT = {
    "duration_s": "duration_s",
    "bytes_received": "bytes_received",
    "bytes_sent": "bytes_sent",
    "throughput_bps": "throughput_bps",
    "physical_limit_bps": "physical_limit_bps",
    "retransmits": "retransmits",
    "mss_bytes": "mss_bytes",
    **{field.name: f"counters.{field.name}" for field in fields(PathCounters)},
    "window_duration_s": "window.duration_s",
    "window_data_packets": "window.data_packets",
    "window_ack_packets": "window.ack_packets",
    "data_pps": "data_pps",
    "ack_pps": "ack_pps",
    "router_cpus": "window.router_cpu.cpus",
    "router_busy_s": "window.router_cpu.busy_s",
    "router_user_s": "window.router_cpu.user_s",
    "router_system_s": "window.router_cpu.system_s",
    "router_softirq_s": "window.router_cpu.softirq_s",
    "router_steal_s": "window.router_cpu.steal_s",
    "router_busy_share": "router_busy_share",
    "daemon_cpu_s": "window.daemon_cpu_s",
    "daemon_cpu_method": "window.daemon_cpu_method",
    "cpu_s_per_million_packets": "cpu_s_per_million_packets",
    "cpu_s_per_gigabit": "cpu_s_per_gigabit",
    "tester_cpus": "window.tester_cpu.cpus",
    "tester_busy_s": "window.tester_cpu.busy_s",
    "tester_steal_s": "window.tester_cpu.steal_s",
    "tester_busy_share": "tester_busy_share",
    "far_end_busy_share": "window.far_end_busy_share",
    "bracket_s": "bracket_s",
    "foreign_cpu_s": "foreign_cpu_s",
    "pings_sent": "ping.sent",
    "pings_answered": "ping.answered",
    "ping_worst_ms": "ping.worst_ms",
}
"""Columns, and where in a `TcpMeasurement` their figures are."""


OF_COUNTS = {
    f"udp_{name}": name
    for name in (
        "duration_s",
        "intended_pps",
        "intended_packets",
        "sent_packets",
        "sent_bytes",
        "sending_s",
        "unsent_packets",
        "received_packets",
        "received_bytes",
        "receiving_s",
        "late_packets",
        "duplicated_packets",
        "reordered_packets",
        "corrupted_packets",
        "foreign_packets",
        "tester_dropped_packets",
        "path_lost_packets",
        "loss_ratio",
        "offered_pps",
        "forwarding_rate_pps",
        "throughput_bps",
        "stalls",
        "stall_max_s",
    )
} | {
    "udp_delay_p50_ns": "delay.p50_ns",
    "udp_delay_p90_ns": "delay.p90_ns",
    "udp_delay_p99_ns": "delay.p99_ns",
    "udp_delay_p99_9_ns": "delay.p99_9_ns",
    "udp_delay_max_ns": "delay.max_ns",
    "udp_delay_variation_p99_ns": "delay_variation.p99_ns",
}
"""Columns, and where in `UdpCounts` their figures are; of a search, those of its confirming trial."""

OF_UDP: Mapping[str, Callable[[UdpMeasurement], Cell]] = {
    "udp_ndr_pps": lambda udp: _median(lower_bounds(udp.searches, NDR_LOSS_RATIO)),
    "udp_pdr_pps": lambda udp: _median(lower_bounds(udp.searches, PDR_LOSS_RATIO)),
    "udp_ndr_refuted": lambda udp: {None: None, True: "yes", False: "no"}[udp.is_refuted],
    "udp_longest_burst_packets": lambda udp: udp.longest_burst_packets,
    "udp_router_busy_share": lambda udp: udp.router_busy_share,
    "udp_daemon_busy_share": lambda udp: udp.daemon_busy_share,
    "udp_cpu_s_per_million_packets": lambda udp: udp.cpu_s_per_million_packets,
}


OF_SOAK: Mapping[str, Callable[[SoakSummary], Cell]] = {
    f"soak_{name}": attrgetter(name)
    for name in (
        "planned_s",
        "measured_s",
        "rate_pps",
        "sent_packets",
        "received_packets",
        "lost_packets",
        "loss_ratio",
        "late_packets",
        "duplicated_packets",
        "reordered_packets",
        "corrupted_packets",
        "tester_dropped_packets",
        "seconds_with_loss",
        "longest_loss_free_s",
        "worst_second_lost_packets",
        "delay_p50_ns",
        "delay_p99_worst_ns",
        "delay_max_ns",
        "router_busy_share",
        "router_busy_max_share",
        "parts",
        "gaps",
        "gaps_s",
        "restarts",
        "rekeys",
    )
} | {"soak_memory": lambda soak: "; ".join(map(memory_text, soak.memory))}
"""Columns, and where in a `SoakSummary` their figures are."""


def render(document: Document, style: Style) -> str:
    """A header line, then one line a trial in the order in which they ran; empty where there is no figure."""
    del style
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow([*OF_RUN, *OF_TRIAL, *OF_MEASUREMENT, *OF_COUNTS, *OF_UDP, *OF_SOAK])
    soaks = {report.soak.spec.sequence: report.summary for report in document.soaks}
    for record in (*document.records, *_unfinished(document)):
        cells = [cell(document.run) for cell in OF_RUN.values()]
        cells += [cell(record) for cell in OF_TRIAL.values()]
        cells += [attrgetter(where)(record.tcp) if record.tcp else None for where in OF_MEASUREMENT.values()]
        udp = record.udp
        cells += [_at(udp.counts, where) if udp and udp.counts else None for where in OF_COUNTS.values()]
        cells += [cell(udp) if udp else None for cell in OF_UDP.values()]
        soak = soaks.get(record.spec.sequence)
        cells += [cell(soak) if soak else None for cell in OF_SOAK.values()]
        writer.writerow([_written(cell) for cell in cells])
    return output.getvalue()


def _unfinished(document: Document) -> Iterator[TrialRecord]:
    """Soaks that have no record yet: what was measured of them is not in the statistics either."""
    known = {record.spec.sequence for record in document.records}
    for report in document.soaks:
        if report.soak.spec.sequence not in known:
            parts = report.soak.parts
            ended_at = parts[-1].ended_at or ""
            yield TrialRecord(report.soak.spec, Outcome.VOID, "not finished", parts[0].started_at, ended_at)


def _at(counts: UdpCounts, where: str) -> Cell:
    """A figure of the counts; None where there are no delays that it could be of."""
    first, _, rest = where.partition(".")
    value: Any = getattr(counts, first)
    found: Cell = value if value is None or not rest else attrgetter(rest)(value)
    return found


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _written(cell: Cell) -> str | int | float | None:
    if isinstance(cell, tuple):
        return " ".join(map(str, cell))
    return harmless(cell) if isinstance(cell, str) else cell


def harmless(text: str) -> str:
    """`text` on one line, and never a formula."""
    line = one_line(text)
    return f"'{line}" if line.startswith(FORMULA_STARTS) else line
