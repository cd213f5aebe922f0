"""UDP in the reports: golden files that a person has read."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.report.render import render

RUN = make_run(plan_name="udp", plan_title="Packets", trials_planned=len(make_udp_records()))


@pytest.mark.parametrize(
    ("name", "width", "extension"),
    [("terminal", 120, ".txt"), ("terminal", 80, ".txt"), ("markdown", None, ".md"), ("textile", None, ".textile"),
     ("dokuwiki", None, ".dokuwiki"),      ("csv", None, ".csv")],
)  # fmt: skip
def test_a_run_of_udp(name: str, width: int | None, extension: str, file_regression: FileRegressionFixture) -> None:
    text = render(RUN, make_udp_records(), name, width)
    file_regression.check(text, extension=extension, newline="")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, render(RUN, make_udp_records(2), "terminal", width).splitlines())) <= width


def test_a_run_of_udp_alone_has_no_table_of_tcp() -> None:
    for name in ("terminal", "markdown", "textile"):
        text = render(RUN, make_udp_records(), name)
        assert "ACK" not in text.replace("ACKs counted", "")
        assert "NDR" in text


def test_a_run_of_both_has_both_tables() -> None:
    records = (*make_records(1), *make_udp_records())
    for name in ("terminal", "markdown", "textile"):
        text = render(make_run(), records, name)
        assert "ACK" in text
        assert "NDR" in text


def test_json_has_bounds_series_and_derived_figures() -> None:
    whole = json.loads(render(RUN, make_udp_records(), "json"))
    assert whole["rows"] == []
    search = next(trial for trial in whole["trials"] if trial["spec"]["test"] == "search")
    found = search["figures"]["searches"][0]["ndr"]
    assert found["lower_pps"] < found["upper_pps"] < found["lower_pps"] * 1.01
    assert search["figures"]["is_refuted"] is False
    assert len(search["udp"]["counts"]["intervals"]) == 2
    row = next(row for row in whole["udp_rows"] if row["test"] == "search")
    assert row["figures"]["ndr_pps"]["count"] == 3


def test_csv_has_one_row_a_trial_with_the_same_columns_for_both_kinds() -> None:
    records = (*make_records(1), *make_udp_records())
    rows = list(csv.DictReader(io.StringIO(render(make_run(), records, "csv"))))
    assert len(rows) == len(records)
    assert {row["test"] for row in rows} >= {"tcp", "search", "latency"}
    searches = [row for row in rows if row["test"] == "search" and row["udp_ndr_pps"]]
    assert {row["udp_is_refuted"] for row in searches} == {"yes", "no"}
    assert all(not row["udp_sent_packets"] for row in rows if row["test"] == "tcp")
