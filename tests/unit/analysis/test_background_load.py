"""The effect of background load on a run is reported."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_trial

from tunnelbench.analysis.background_load import BackgroundLoadEffect, background_load_effect
from tunnelbench.model.result import Check, TrialRecord, Verdict

DISTURBED = (Check("foreign-load", Verdict.VOID, "other processes took 40 % of a CPU", rule=12),)


def waited(seconds: float | None, *, disturbed: bool = False) -> TrialRecord:
    return replace(make_trial(), waited_for_quiet_s=seconds, checks=DISTURBED if disturbed else ())


def test_waits_and_trials_left_out_are_added_up() -> None:
    found = background_load_effect([waited(None), waited(0.5), waited(30.0, disturbed=True), waited(12.0)])
    assert found == BackgroundLoadEffect(waited_s=42.5, trials_held_up=2, trials_left_out=1)
    assert found.in_words() == (
        "The run waited 42 s for background load to end. 1 trial is left out because of background load."
    )


def test_a_quiet_run_says_nothing() -> None:
    assert background_load_effect([waited(0.0), waited(0.2), waited(None)]).in_words() == ""


def test_trials_left_out_are_reported_even_without_a_wait() -> None:
    found = background_load_effect([waited(0.0, disturbed=True), waited(0.0, disturbed=True)])
    assert found.in_words() == "2 trials are left out because of background load."
