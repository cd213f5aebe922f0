"""Writes the rows of a run in the Bencher Metric Format, for services that watch figures for regressions.

The format (https://bencher.dev/docs/reference/bencher-metric-format) is a JSON object of benchmarks, each an object of
measures with `value`, `lower_value` and `upper_value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.report.document import compose
from tunnelbench.report.exchange.anonymise import stripper_for

_LONGEST_NAME = 1024
"""Longest name of a benchmark."""
_DIGITS = 9
"""Significant digits of a figure."""


def bencher_metrics(run: RunRecord, records: Sequence[TrialRecord]) -> str:
    """Return the JSON object of a run, without names of machines and people; it ends with a newline.

    A benchmark is a row of the report: tunnel, payload, direction and, for UDP, test and load. The value is the median,
    the lower and upper value are the low and high of the report. Rows without a figure and the calibration are left
    out.
    """
    document, stripper = compose(run, records), stripper_for(run, records)
    found: dict[str, Mapping[str, Mapping[str, float]]] = {}
    rows: list[Row | UdpRow] = [*document.rows, *document.udp_rows]
    for row in rows:
        if row.is_calibration or not (measures := _measures(row)):
            continue
        test = f", udp {row.test} {row.load}".rstrip() if isinstance(row, UdpRow) else f" {row.load}".rstrip()
        name = f"{row.tunnel.name}, {row.payload_bytes} bytes, {row.direction.label}{test}"
        found[stripper.text(name)[:_LONGEST_NAME]] = measures
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _measures(row: Row | UdpRow) -> Mapping[str, Mapping[str, float]]:
    """Return the figures of a row by the name of their measure, which states the unit."""
    figures = row.figures
    known: dict[str, tuple[Estimate | None, float]] = {}
    if isinstance(figures, Figures):
        known = {
            "Throughput (Mbit/s)": (figures.throughput_bps, 1e-6),
            "CPU time per million packets (s)": (figures.cpu_s_per_million_packets, 1),
            "Router CPU busy (%)": (figures.router_busy_share, 100),
        }
    elif isinstance(figures, UdpFigures):
        known = {
            "Rate without loss (packets/s)": (figures.ndr_pps, 1),
            "Rate with 0.5 % loss (packets/s)": (figures.pdr_pps, 1),
            "Forwarding rate (packets/s)": (figures.forwarding_rate_pps, 1),
        }
    return {name: _metric(value, scale) for name, (value, scale) in known.items() if value is not None}


def _metric(value: Estimate, scale: float) -> Mapping[str, float]:
    parts = {"value": value.median, "lower_value": value.low, "upper_value": value.high}
    return {name: float(f"{part * scale:.{_DIGITS}g}") for name, part in parts.items()}
