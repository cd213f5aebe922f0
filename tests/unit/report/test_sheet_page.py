"""The page of a comparison: verdict, chart of the quotients, and a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.report.test_html import Page

from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.compare import sheet
from tunnelbench.report.formats import html
from tunnelbench.report.formats.html import sheet_page
from tunnelbench.report.sheet import Sheet


def slower(record: TrialRecord) -> TrialRecord:
    """A trial of vxlan that received a tenth less."""
    if record.tcp is None or record.spec.tunnel.name != "vxlan":
        return record
    return replace(record, measurement=replace(record.tcp, bytes_received=int(record.tcp.bytes_received * 0.9)))


@pytest.fixture(scope="module")
def compared() -> Sheet:
    records = make_records(5)
    sides = [side_of_run(make_run(run_id="a"), records), side_of_run(make_run(run_id="b"), tuple(map(slower, records)))]
    return sheet(compare(*sides), {})


def test_the_chart_has_the_figures_that_differ_first(compared: Sheet) -> None:
    (chart,) = compared.charts
    verdicts = [row[-1] for row in chart.rows]
    assert verdicts[0] == "slower"
    assert chart.rows[0][0].startswith("vxlan 1448 down: ")
    assert float(chart.rows[0][1]) == pytest.approx(0.9, rel=0.02)
    assert verdicts == sorted(verdicts, key=lambda verdict: verdict not in {"slower", "dearer"})
    assert "The upright line at 1 is A." in chart.sentence


def test_a_comparison_without_a_common_row_has_no_chart() -> None:
    records = make_records(5)
    sides = [
        side_of_run(make_run(run_id=name), [record for record in records if record.spec.tunnel.name == name])
        for name in ("vxlan", "none")
    ]
    assert sheet(compare(*sides), {}).charts == ()


def test_the_page_begins_with_the_verdict_and_loads_nothing(compared: Sheet) -> None:
    text = sheet_page(compared)
    found = Page(text)
    body = text[text.index("<body>") :]
    assert body.index('class="answer"') < body.index("<figure") < body.index('<table class="results"')
    assert not [attributes for _, attributes in found.elements if attributes.keys() & {"src", "href"}]
    policy = next(attributes["content"] for _, attributes in found.elements if "http-equiv" in attributes)
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")


def test_a_page_of_many_rows_says_how_many_it_leaves_out(compared: Sheet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MOST_REPORTED_ROWS", 10)
    assert f"This page leaves out {len(compared.rows) - 10} rows" in sheet_page(compared)
