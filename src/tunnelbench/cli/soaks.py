"""The soaks of a run, read from the store for a report or a chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.model.soak import Soak
from tunnelbench.model.udp import UdpInterval
from tunnelbench.report.document import SoakReport
from tunnelbench.store import Store

CHART_COLUMNS = 60


def soak_reports(store: Store, run_id: str) -> list[SoakReport]:
    """Every soak of a run, finished or not; the store must stay open while its series is read."""
    tables = store.soaks(run_id)
    return [
        SoakReport(
            soak,
            summarise_soak(soak, tables.chunks(soak.spec.sequence)),
            partial(tables.chunks, soak.spec.sequence),
        )
        for soak in tables.all()
    ]


def down_sampled(report: SoakReport) -> Sequence[UdpInterval]:
    """The series in at most so many columns, gaps as columns in which nothing was sent."""
    soak = report.soak
    end_s = _end_s(report)
    width_s = max(1.0, end_s / CHART_COLUMNS)
    columns: dict[int, list[int]] = {}
    for number, chunk in report.chunks():
        offset_s = _offset_s(soak, number)
        for reading in chunk.readings:
            column = min(int((offset_s + reading.start_s) / width_s + 1e-6), CHART_COLUMNS - 1)
            sums = columns.setdefault(column, [0, 0, 0])
            lost = reading.missing_packets - reading.tester_dropped_packets
            for place, count in enumerate((reading.sent_packets, reading.received_packets, lost)):
                sums[place] += count
    return [
        UdpInterval(number * width_s, (number + 1) * width_s, *columns.get(number, (0, 0, 0)))
        for number in range(max(columns, default=-1) + 1)
    ]


def _offset_s(soak: Soak, number: int) -> float:
    return next(part.started_s for part in soak.parts if part.number == number) - soak.parts[0].started_s


def _end_s(report: SoakReport) -> float:
    """From the first packet of all to the end of the series [s]."""
    ends = (
        _offset_s(report.soak, number) + chunk.readings[-1].end_s for number, chunk in report.chunks() if chunk.readings
    )
    return max(ends, default=0.0)
