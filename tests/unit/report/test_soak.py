"""Soaks in the reports: golden files that a person has read."""

from __future__ import annotations

import csv
import io
import json

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_run
from tests.unit.soak_builders import sample_soak

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.report.document import SoakReport
from tunnelbench.report.render import render

RUN = make_run(plan_name="soak", plan_title="A week", trials_planned=1)


def report(name: str, width: int | None = None) -> str:
    soak, chunks = sample_soak()
    return render(RUN, (), name, width, soaks=[SoakReport(soak, summarise_soak(soak, chunks), lambda: chunks)])


@pytest.mark.parametrize(
    ("name", "width", "extension"),
    [("terminal", 120, ".txt"), ("markdown", None, ".md"), ("textile", None, ".textile"), ("series", None, ".csv")],
)
def test_a_run_that_soaked(
    name: str, width: int | None, extension: str, file_regression: FileRegressionFixture
) -> None:
    file_regression.check(report(name, width), extension=extension, newline="")


def test_the_csv_has_a_row_of_a_soak_that_is_not_finished() -> None:
    (row,) = csv.DictReader(io.StringIO(report("csv"), newline=""))
    assert (row["test"], row["outcome"], row["counts"], row["reason"]) == ("soak", "void", "no", "not finished")
    assert (row["soak_lost_packets"], row["soak_gaps"], row["soak_gaps_s"]) == ("30", "1", "20.0")
    assert row["soak_memory"].startswith("memory of router/openvpn 8789 KiB")


def test_the_json_has_the_summary_and_the_parts() -> None:
    (soak,) = json.loads(report("json"))["soaks"]
    assert (soak["lost_packets"], soak["loss_ratio"], soak["is_complete"]) == (30, 0.0015, False)
    assert [part["number"] for part in soak["part_list"]] == [1, 2]
    assert {trend["program"]: trend["growth"] for trend in soak["memory"]} == {
        "router/openvpn": "too short to tell",
        "controller": "too short to tell",
    }
