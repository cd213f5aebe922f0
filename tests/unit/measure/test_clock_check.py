"""A clock that was set in mid-trial is seen."""

from __future__ import annotations

import time

import pytest

from tunnelbench.measure.clock_check import ClockWatch, check_clock, wall_offset_s
from tunnelbench.model.result import Verdict


@pytest.mark.parametrize("step_s", [0.0, 0.005, -0.127])
def test_a_clock_that_is_slewed_is_no_matter(step_s: float) -> None:
    assert check_clock(step_s).verdict is Verdict.OK


@pytest.mark.parametrize(("step_s", "words"), [(3600.0, "+3600.0 s"), (-0.2, "-0.2 s")])
def test_a_clock_that_was_set_makes_a_trial_void(step_s: float, words: str) -> None:
    check = check_clock(step_s)
    assert check.verdict is Verdict.VOID
    assert words in check.reason


def test_the_offset_follows_the_wall_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = wall_offset_s()
    time.sleep(0.05)
    assert wall_offset_s() - before == pytest.approx(0, abs=0.02)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 90)
    assert wall_offset_s() - before == pytest.approx(90, abs=0.1)


@pytest.mark.parametrize(("looks", "verdict"), [(True, Verdict.VOID), (False, Verdict.OK)])
def test_a_clock_that_is_set_and_set_back_is_seen_in_between(
    monkeypatch: pytest.MonkeyPatch, looks: bool, verdict: Verdict
) -> None:
    real, step_s = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    watch = ClockWatch()
    step_s = -1.0
    if looks:
        watch.look()
    step_s = 0.0
    found = watch.check()
    assert found.verdict is verdict
    assert ("-1.0 s" in found.reason) is looks
    watch.start()
    assert watch.check().verdict is Verdict.OK
