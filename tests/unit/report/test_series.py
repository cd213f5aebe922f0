"""The format `series`: the readings of a trial over time, as CSV."""

from __future__ import annotations

import csv
import io

from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import hostile_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.report.render import render


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_interval_of_each_timed_trial_has_a_row() -> None:
    records = (*make_records(1), *make_udp_records())
    rows = rows_of(render(make_run(), records, "series"))
    of_tcp = sum(len(record.tcp.intervals) for record in records if record.tcp)
    of_udp = sum(len(record.udp.counts.intervals) for record in records if record.udp and record.udp.counts)
    assert len(rows) == of_tcp + of_udp > of_udp > 0
    assert sum(row["test"] == "tcp" for row in rows) == of_tcp


def test_the_packets_of_a_trial_are_the_sum_of_its_rows() -> None:
    records = make_udp_records()
    rows = rows_of(render(make_run(), records, "series"))
    for record in records:
        if record.udp and record.udp.counts:
            own = [row for row in rows if row["sequence"] == str(record.spec.sequence)]
            assert sum(int(row["sent_packets"]) for row in own) == record.udp.counts.sent_packets
            assert sum(int(row["lost_packets"]) for row in own) == record.udp.counts.lost_packets


def test_names_are_harmless() -> None:
    text = render(*hostile_run(), "series")
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
    assert not any(ord(character) < 32 for cell in cells for character in cell)
