"""CSV (RFC 4180) with one row an interval of each timed trial: what happened over time, TCP and UDP alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from tunnelbench.model.result import TrialRecord
from tunnelbench.report.document import Document, Style
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
)
"""Of TCP there are bytes and retransmits, of UDP packets and delays."""


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
    return output.getvalue()


def _intervals(record: TrialRecord) -> Iterator[tuple[float | None, ...]]:
    if record.tcp:
        for reading in record.tcp.intervals:
            traffic = (reading.bytes, reading.retransmits)
            yield (reading.start_s, reading.end_s, *traffic, None, None, None, None, None)
    if record.udp and record.udp.counts:
        for each in record.udp.counts.intervals:
            packets = (each.sent_packets, each.received_packets, each.lost_packets)
            yield (each.start_s, each.end_s, None, None, *packets, each.delay_p50_ns, each.delay_max_ns)
