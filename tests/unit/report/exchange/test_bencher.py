"""JSON for Bencher has the medians of a run, in the shape that Bencher publishes."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.summary import summarise
from tunnelbench.report.exchange.bencher import bencher_metrics

METRIC = {
    "type": "object",
    "required": ["value"],
    "additionalProperties": False,
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
}
SCHEMA = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": METRIC}}
"""The schema of https://bencher.dev/docs/reference/bencher-metric-format, without keys that Bencher ignores."""
LONGEST_MEASURE = 64


def test_each_row_is_a_benchmark_with_its_median_and_spread() -> None:
    records = make_records()
    found = json.loads(bencher_metrics(make_run(), records))
    jsonschema.validate(found, SCHEMA)
    rows = {f"{row.tunnel.name}, {row.payload_bytes} bytes, {row.direction.label}": row for row in summarise(records)}
    assert len(found) > 10
    for name, measures in found.items():
        figures = rows[name].figures
        assert figures is not None
        rate = figures.throughput_bps
        expected = {"value": rate.median, "lower_value": rate.low, "upper_value": rate.high}
        assert measures["Throughput (Mbit/s)"] == {key: pytest.approx(each / 1e6) for key, each in expected.items()}
        assert measures["Router CPU busy (%)"]["value"] == pytest.approx(figures.router_busy_share.median * 100)
        assert all(len(measure) <= LONGEST_MEASURE for measure in measures)


def test_udp_has_benchmarks_of_its_own_with_rates_of_packets() -> None:
    found = json.loads(bencher_metrics(make_run(), make_udp_records()))
    jsonschema.validate(found, SCHEMA)
    searches = {name: each for name, each in found.items() if ", udp search" in name}
    assert searches
    assert all(measures["Rate without loss (packets/s)"]["value"] > 0 for measures in searches.values())


def test_a_benchmark_names_no_machine() -> None:
    records = make_records(1)
    run = make_run(testbed_text='kind = "ssh"\nhost = "tinc"\n')
    assert "[host name]" in bencher_metrics(run, records)
    assert '"tinc' not in bencher_metrics(run, records)
