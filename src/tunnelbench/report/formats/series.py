"""CSV (RFC 4180) with one row an interval of each timed trial: what happened over time, TCP and UDP alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from tunnelbench.model.result import TrialRecord
from tunnelbench.report.document import Document, SoakReport, Style
from tunnelbench.report.formats.csv import harmless

COLUMNS = (
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
"""Of TCP there are bytes and retransmits, of UDP packets and delays; what stands behind them is of soaks alone.

The times of a soak count from its first packet of all; a gap, an event and a look at the programs' memory have lines of
their own.
"""


def render(document: Document, style: Style) -> str:
    """A header line, then the intervals of each trial in the order in which they ran."""
    del style
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for record in document.records:
        spec = record.spec
        # fmt: off
        place = (harmless(document.run.run_id), spec.sequence, spec.round, harmless(spec.tunnel.name),
                 spec.payload_bytes, spec.direction.value, spec.test.value, harmless(spec.load))
        # fmt: on
        for cells in _intervals(record):
            writer.writerow((*place, *cells))
    for report in document.soaks:
        spec = report.soak.spec
        # fmt: off
        place = (harmless(document.run.run_id), spec.sequence, spec.round, harmless(spec.tunnel.name),
                 spec.payload_bytes, spec.direction.value, spec.test.value, harmless(spec.load))
        # fmt: on
        for line in _soak_lines(report):
            writer.writerow((*place, *(line.get(name) for name in COLUMNS[len(place) :])))
    return output.getvalue()


def _soak_lines(report: SoakReport) -> Iterator[dict[str, object]]:
    """A line for each second, and for what happened."""
    parts = {part.number: part for part in report.soak.parts}
    reached_s, last = 0.0, 1
    for number, chunk in report.chunks():
        offset_s = parts[number].started_s - parts[1].started_s
        if number != last:
            last = number
            yield {"start_s": _ms(reached_s), "end_s": _ms(offset_s), "event": "gap: nobody measured"}
        for reading in chunk.readings:
            reached_s = offset_s + reading.end_s
            figures = {name: getattr(reading, name) for name in COLUMNS if hasattr(reading, name)}
            yield {**figures, "part": number, "start_s": _ms(offset_s + reading.start_s), "end_s": _ms(reached_s)}
        for event in chunk.events:
            at_s = _ms(offset_s + event.at_s)
            yield {"part": number, "start_s": at_s, "end_s": at_s, "event": harmless(f"{event.kind}: {event.text}")}
        if chunk.memory_bytes:
            sizes = " ".join(f"{name}={size}" for name, size in chunk.memory_bytes.items())
            yield {"part": number, "start_s": _ms(reached_s), "end_s": _ms(reached_s), "memory_bytes": harmless(sizes)}


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
