"""CSV (RFC 4180) with one row for each interval of each timed trial: traffic and load over time, of TCP and UDP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.document import Document, SoakReport, Style
from tunnelbench.report.formats import ReportFormat
from tunnelbench.report.formats.csv import csv_text

SERIES_COLUMNS = (
    "run_id",
    "sequence",
    "round",
    "tunnel",
    "payload_bytes",
    "direction",
    "test",
    "load",
    "start_s",
    "end_s",
    "received_bytes",
    "retransmits",
    "sent_packets",
    "received_packets",
    "lost_packets",
    "delay_p50_ns",
    "delay_max_ns",
    "part",
    "missing_packets",
    "late_packets",
    "duplicated_packets",
    "reordered_packets",
    "corrupted_packets",
    "tester_dropped_packets",
    "delay_p99_ns",
    "router_busy_share",
    "memory_bytes",
    "event",
)
"""TCP has bytes and retransmits, UDP has packets and delays; the columns from `part` on are of soaks only.

The times of a soak count from its first packet. A gap, an event and a reading of the programs' memory have lines of
their own.
"""


class Format(ReportFormat):
    """A header line, then the intervals of each trial in the order in which they ran, then those of each soak."""

    def render(self, document: Document, style: Style) -> str:
        del style
        run_id = document.run.run_id
        rows: list[Sequence[object]] = []
        for record in document.records:
            rows += [(*_place(run_id, record.spec), *cells) for cells in _intervals(record)]
        for report in document.soaks:
            place = _place(run_id, report.soak.spec)
            rows += [
                (*place, *(line.get(name) for name in SERIES_COLUMNS[len(place) :])) for line in _soak_lines(report)
            ]
        return csv_text(SERIES_COLUMNS, rows)


def _place(run_id: str, spec: TrialSpec) -> tuple[object, ...]:
    return (run_id, spec.sequence, spec.round, spec.tunnel.name, spec.payload_bytes, spec.direction.value,
            spec.test.value, spec.load)  # fmt: skip


def _soak_lines(report: SoakReport) -> Iterator[dict[str, object]]:
    """Yield a line for each second, each gap, each event and each reading of the memory."""
    parts = {part.number: part for part in report.soak.parts}
    reached_s, last = 0.0, 1
    for number, chunk in report.chunks():
        offset_s = parts[number].started_s - parts[1].started_s
        if number != last:
            last = number
            yield {"start_s": _ms(reached_s), "end_s": _ms(offset_s), "event": "gap: nothing was measured"}
        for reading in chunk.readings:
            reached_s = offset_s + reading.end_s
            figures = {name: getattr(reading, name) for name in SERIES_COLUMNS if hasattr(reading, name)}
            yield {**figures, "part": number, "start_s": _ms(offset_s + reading.start_s), "end_s": _ms(reached_s)}
        for event in chunk.events:
            at_s = _ms(offset_s + event.at_s)
            yield {"part": number, "start_s": at_s, "end_s": at_s, "event": f"{event.kind}: {event.text}"}
        if chunk.memory_bytes:
            sizes = " ".join(f"{name}={size}" for name, size in chunk.memory_bytes.items())
            yield {"part": number, "start_s": _ms(reached_s), "end_s": _ms(reached_s), "memory_bytes": sizes}


def _ms(seconds: float) -> float:
    return round(seconds, 3)


def _intervals(record: TrialRecord) -> Iterator[tuple[float | None, ...]]:
    if record.tcp:
        for reading in record.tcp.intervals:
            traffic = (reading.bytes, reading.retransmits)
            yield (reading.start_s, reading.end_s, *traffic, None, None, None, None, None)
    if record.udp and record.udp.counts:
        for each in record.udp.counts.intervals:
            packets = (each.sent_packets, each.received_packets, each.lost_packets)
            yield (each.start_s, each.end_s, None, None, *packets, each.delay_p50_ns, each.delay_max_ns)
