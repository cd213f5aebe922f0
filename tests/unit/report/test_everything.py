"""One run that shows every kind of row and every section, in each format for people and as CSV."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.own_parts_run import SPEEDS
from tests.unit.own_parts_run import run as parts_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.summary import TrialClass, count_classes
from tunnelbench.report.document import compose
from tunnelbench.report.render import render

PARTS = [record for record in parts_run(noise=0.02) if not record.spec.tunnel.is_baseline]
RECORDS = [
    replace(record, spec=replace(record.spec, sequence=number))
    for number, record in enumerate((*make_records(), *PARTS, *make_udp_records()), start=1)
]
RUN = make_run(plan_title="Everything", trials_planned=len(RECORDS) + 1, status="interrupted")
ALL_SPEEDS = (*make_speeds(), *SPEEDS)


def test_it_shows_everything() -> None:
    document = compose(RUN, RECORDS, 100, ALL_SPEEDS)
    assert all(count_classes(RECORDS)[each] for each in TrialClass if each is not TrialClass.GIVEN_UP)
    assert document.rows
    assert document.udp_rows
    titles = {section.title for section in document.sections}
    assert {"Advice", "What limits", "What a packet costs the router", "Ciphers and digests by themselves"} <= titles
    assert any(title.startswith("Where a packet's time goes") for title in titles)


@pytest.mark.parametrize("name", ["terminal", "markdown", "textile", "dokuwiki", "csv"])
def test_everything(name: str, file_regression: FileRegressionFixture) -> None:
    text = render(RUN, RECORDS, name, 120, target_mbps=100, speeds=ALL_SPEEDS)
    file_regression.check(text, extension=f".{name}", newline="")
