"""Three failures in a row end a tunnel, not the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_spec, make_trial

from tunnelbench.measure.circuit_breaker import CircuitBreaker
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict


def failed(number: int, outcome: Outcome = Outcome.VOID, at: str = "", tunnel: str = "vxlan") -> TrialRecord:
    spec = make_spec(number, tunnel=tunnel)
    return TrialRecord(spec, outcome, f"failure {number}", at or f"start {number}", "end")


def void(number: int, *checks: str) -> TrialRecord:
    found = tuple(Check(name, Verdict.VOID, f"{name} failed", rule=1) for name in checks)
    return replace(make_trial(make_spec(number, tunnel="vxlan")), checks=found, started_at=f"start {number}")


def good(number: int) -> TrialRecord:
    return make_trial(make_spec(number, tunnel="vxlan"))


def breaker(*records: TrialRecord) -> CircuitBreaker:
    made = CircuitBreaker()
    for record in records:
        made.note(record)
    return made


@pytest.mark.parametrize("outcome", [Outcome.VOID, Outcome.REFUSED, Outcome.UNAVAILABLE])
def test_three_failures_in_a_row_are_enough(outcome: Outcome) -> None:
    assert breaker(failed(1, outcome), failed(2, outcome)).why_over("vxlan") == ""
    three = breaker(failed(1, outcome), failed(2, outcome), failed(3, outcome))
    assert three.why_over("vxlan") == "not tried again after 3 failures in a row; the last: failure 3"


def test_a_trial_that_counts_starts_the_count_anew() -> None:
    assert breaker(failed(1), failed(2), good(3), failed(4), failed(5)).why_over("vxlan") == ""


def test_each_tunnel_has_its_own_count() -> None:
    mixed = breaker(failed(1), failed(2, tunnel="none"), failed(3), failed(4, tunnel="none"), failed(5))
    assert mixed.why_over("vxlan")
    assert mixed.why_over("none") == ""
    assert mixed.why_over("tinc") == ""


def test_trials_that_one_failure_to_come_up_has_cost_are_one_attempt() -> None:
    block = [failed(number, Outcome.REFUSED, at="round 1") for number in range(1, 5)]
    assert breaker(*block, failed(5)).why_over("vxlan") == ""


def test_a_trial_that_its_checks_made_void_is_a_failure_with_their_reasons() -> None:
    three = breaker(void(1, "merged-frames"), void(2, "foreign-load", "merged-frames"), void(3, "merged-frames"))
    assert three.why_over("vxlan").endswith("the last: merged-frames failed")


@pytest.mark.parametrize("check", ["foreign-load", "clock", "offered"])
def test_what_strangers_do_is_not_held_against_a_tunnel(check: str) -> None:
    assert breaker(*(void(number, check) for number in range(1, 9))).why_over("vxlan") == ""
    assert breaker(failed(1), failed(2), void(3, check), failed(4)).why_over("vxlan")


def test_a_run_that_goes_on_remembers() -> None:
    before = [failed(1), failed(2), failed(3), failed(4, Outcome.GIVEN_UP)]
    assert breaker(*before).why_over("vxlan").endswith("the last: failure 3")
