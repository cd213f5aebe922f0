"""The section of a packet's parts in every format."""

from __future__ import annotations

import json

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_run
from tests.unit.own_parts_run import BASELINE, FOUR, SPEEDS, run, variant

from tunnelbench.report.render import render

RUN = make_run(plan_name="parts", plan_title="Where time goes", trials_planned=len(run()))


@pytest.mark.parametrize(
    ("name", "width", "extension"),
    [
        ("terminal", 80, ".txt"),
        ("markdown", None, ".md"),
        ("textile", None, ".textile"),
        ("dokuwiki", None, ".dokuwiki"),
    ],
)
def test_parts_stand_beside_what_their_speed_predicts(
    name: str, width: int | None, extension: str, file_regression: FileRegressionFixture
) -> None:
    text = render(RUN, run(noise=0.02), name, width, speeds=SPEEDS)
    file_regression.check(text, extension=extension, newline="")


def test_json_has_every_part_at_every_size() -> None:
    records = run(payloads=(76, 300, 1448))
    (parts,) = json.loads(render(RUN, records, "json", speeds=SPEEDS))["cost_parts"]
    assert parts["variants"] == [tunnel.name for tunnel in FOUR]
    assert len(parts["costs"]) == 3 * 4
    digest = parts["costs"][-1]
    assert (digest["part"], digest["payload_bytes"], digest["direction"]) == (["digest SHA1"], 1448, "out")
    assert digest["by_difference_s"]["value"] == pytest.approx(3.6e-6, rel=0.01)
    assert digest["by_calculation_s"] == pytest.approx(2.8e-6)


def test_a_report_names_costs_that_are_not_distinguishable() -> None:
    together = render(RUN, run((BASELINE, FOUR[0], FOUR[3])), "markdown")
    assert "because no variant has one without the other: cipher AES-128-CBC and digest SHA1." in together
    assert "The error is unknown" in together
    aead = render(RUN, run((BASELINE, FOUR[0], variant("AES-128-GCM", "SHA1"))), "markdown")
    assert "No digest with AES-128-GCM: the cipher's part contains its authentication." in aead
    one_size = render(RUN, run(payloads=(1448,)), "textile")
    assert "Unknown: a line needs two sizes, and one was measured." in one_size
    (parts,) = json.loads(render(RUN, run(payloads=(1448,)), "json"))["cost_parts"]
    assert parts["reason"] == "a line needs two sizes, and one was measured"
