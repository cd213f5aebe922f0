"""Read the soaks of a run from the store, for a report or a chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.model.udp import UdpInterval
from tunnelbench.report.document import SoakReport
from tunnelbench.store.store import Store

CHART_COLUMNS = 60


def soak_reports(store: Store, run_id: str) -> list[SoakReport]:
    """Return every soak of a run, finished or not. The store must stay open while the series is read."""
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
    """Return the series in at most CHART_COLUMNS columns; a gap in the measurement has columns of 0 packets."""
    columns = report.columns(CHART_COLUMNS)
    found: list[UdpInterval] = []
    for column in columns:
        width_s = column.end_s - column.start_s
        while (end_s := found[-1].end_s if found else 0.0) < column.start_s - width_s / 2:
            found.append(UdpInterval(end_s, end_s + width_s, 0, 0, 0))
        counts = (column.sent_packets, column.received_packets, column.lost_packets)
        found.append(UdpInterval(column.start_s, column.end_s, *counts))
    return found
