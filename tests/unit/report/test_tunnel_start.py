"""The time to start a tunnel, from the stored steps of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_run, make_spec, make_trial

from tunnelbench.analysis.tunnel_start import START_STEPS, STEP_AFTER_START, tunnel_starts
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.step import Step
from tunnelbench.report.render import render


def begun(place: int, steps_s: object, tunnel: str = "wireguard-go") -> TrialRecord:
    return replace(make_trial(make_spec(place, tunnel=tunnel)), raw={"steps_s": steps_s})


RECORDS = [
    begun(1, {"bring-up": 0.5, "reach": 0.25, "proof": 2.0}),
    begun(2, {"measure": 10.0}),
    begun(3, {"bring-up": 0.75, "reach": 0.5, "proof": 2.0}),
    begun(4, {"bring-up": 9.0, "reach": 60.0}),
    begun(5, {"bring-up": "soon", "reach": 1.0, "proof": 1.0}),
    begun(6, None),
    begun(7, {"bring-up": 0.1, "reach": 0.1, "proof": 0.1}, "none"),
]


def test_the_start_of_a_tunnel_is_the_median_over_the_blocks_in_which_it_answered() -> None:
    (found,) = tunnel_starts(RECORDS)
    assert (found.tunnel.name, found.start_s.count) == ("wireguard-go", 2)
    assert found.start_s.median == pytest.approx(1.0)
    assert (*START_STEPS, STEP_AFTER_START) == (Step.BRING_UP, Step.REACH, Step.PROOF)


def test_the_full_report_and_the_json_have_it_if_the_steps_are_stored() -> None:
    (found,) = json.loads(render(make_run(), RECORDS, "json"))["tunnel_starts"]
    assert found["start_s"]["median"] == pytest.approx(1.0)
    for name in ("terminal", "markdown", "html"):
        assert "1.00 (0.750-1.25)" in render(make_run(), RECORDS, name, 120)
        assert "Start of a tunnel" not in render(make_run(), [replace(each, raw={}) for each in RECORDS], name, 120)
