"""Writes the TCP trials of a run as data files of Flent, one for each trial.

Flent plots and compares such files: `flent --input FILE --format summary`. The fields are those of Flent's
`resultset.py`, file format 4. A trial to the client is the test `tcp_download` of Flent, a trial to the server is
`tcp_upload`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tunnelbench import __version__
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.report.exchange.anonymise import Stripper, stripper_for

_FORMAT_NUMBER = 4
_TESTS = {Direction.IN: ("tcp_download", "TCP download"), Direction.OUT: ("tcp_upload", "TCP upload")}
"""Name of the test and of its series by direction."""
_UNITS = "Mbits/s"
_LONGEST_TITLE = 120


def is_exported(record: TrialRecord) -> bool:
    """Return True if a trial went through the router, counts, and has a series of TCP throughput."""
    series = record.tcp.intervals if record.tcp is not None else ()
    return record.spec.round > 0 and record.counts and any(each.end_s > each.start_s for each in series)


def flent_files(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a file for each trial that `is_exported`, without names of machines and people."""
    stripper = stripper_for(run, records)
    for record in sorted(filter(is_exported, records), key=lambda each: each.spec.sequence):
        if record.tcp is not None:
            name, whole = _data_file(run, record, record.tcp, stripper)
            text = json.dumps(whole, indent=1, sort_keys=True, allow_nan=False)
            yield name, gzip.compress(text.encode(errors="replace"), mtime=0)


def _data_file(
    run: RunRecord, record: TrialRecord, tcp: TcpMeasurement, stripper: Stripper
) -> tuple[str, dict[str, Any]]:
    """Return the name of the file of a trial, and its content."""
    spec = record.spec
    test, series = _TESTS[spec.direction]
    title = stripper.text(f"{spec.tunnel.name} {spec.payload_bytes} bytes, round {spec.round}")[:_LONGEST_TITLE]
    started = datetime.fromisoformat(record.started_at)
    time = started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    stem = f"{test}-{started:%Y-%m-%dT%H%M%S.%f}.{spec.sequence}_{re.sub(r'[^A-Za-z0-9]+', '_', title).strip('_')}"
    intervals = [each for each in tcp.intervals if each.end_s > each.start_s]
    rates_mbps = [each.bytes * 8 / (each.end_s - each.start_s) / 1e6 for each in intervals]
    lengths_s = [each.end_s - each.start_s for each in intervals]
    metadata = {
        "NAME": test,
        "TITLE": title,
        "TIME": time,
        "T0": time,
        "HOST": "server",
        "HOSTS": ["server"],
        "LOCAL_HOST": "client",
        "LENGTH": round(tcp.duration_s),
        "TOTAL_LENGTH": intervals[-1].end_s,
        "STEP_SIZE": round(sum(lengths_s) / len(lengths_s), 3),
        "FLENT_VERSION": f"TunnelBench {__version__}",
        "IP_VERSION": 4,
        "TEST_PARAMETERS": {},
        "DATA_FILENAME": f"{stem}.flent.gz",
        "NOTE": stripper.text(f"trial {spec.sequence} of run {run.run_id}, {run.plan_name}; iperf3 through the router"),
        "SERIES_META": {series: {"IDX": 0, "MEAN_VALUE": tcp.throughput_bps / 1e6, "_UNITS": _UNITS}},
    }
    points = zip(intervals, rates_mbps, lengths_s, strict=True)
    raw = [{"t": started.timestamp() + each.end_s, "val": rate, "dur": length_s} for each, rate, length_s in points]
    whole = {
        "version": _FORMAT_NUMBER,
        "metadata": metadata,
        "x_values": [each.end_s for each in intervals],
        "results": {series: rates_mbps},
        "raw_values": {series: raw},
    }
    return f"{stem}.flent.gz", whole
