"""Doubts: grouped by reason, with the trials named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.builders import make_plan, make_proof, make_records, make_spec, make_tcp, make_trial

from tunnelbench.analysis.summary import TrialClass, summarise
from tunnelbench.analysis.warnings import TrialWarning, merged, trial_warnings
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict


def busy(share: str) -> Check:
    return Check("tester-limited", Verdict.DOUBTFUL, f"the testers' CPU was {share} busy", 6)


def doubts_of(*records: TrialRecord) -> tuple[TrialWarning, ...]:
    return trial_warnings(records, summarise(records))


def test_a_clean_trial_gives_no_warning() -> None:
    assert doubts_of(make_trial(checks=(Check("ping", Verdict.OK, "3 of 3", 3),), proof=make_proof())) == ()


def test_reasons_that_differ_only_in_numbers_are_one_warning_with_ranges() -> None:
    (doubt,) = doubts_of(
        make_trial(make_spec(1, 1), checks=(busy("97.5%"),)),
        make_trial(make_spec(2, 2), checks=(busy("96%"),)),
        make_trial(make_spec(3, 3), checks=(busy("100%"),)),
    )
    assert doubt.reason == "the testers' CPU was 96 to 100% busy"
    assert doubt.where == "every trial"


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["took 1,200 of 3 s", "took 90 of 3 s"], "took 90 to 1,200 of 3 s"),
        (["no figures"], "no figures"),
        (["AES-128-GCM at 10:30 with 2.6.14"], "AES-128-GCM at 10:30 with 2.6.14"),
    ],
)
def test_only_numbers_that_stand_alone_are_merged(reasons: list[str], expected: str) -> None:
    assert merged(reasons) == expected


@pytest.mark.parametrize("name", ["AES-{}-GCM", "openvpn 2.6.{}", "10:{}", "x{}", "{}k"])
def test_numbers_in_names_versions_and_times_keep_reasons_apart(name: str) -> None:
    checks = [Check("cipher", Verdict.NOTE, f"found {name.format(number)}", 3) for number in (128, 256)]
    found = doubts_of(*(make_trial(make_spec(n, n), checks=(check,)) for n, check in enumerate(checks, start=1)))
    assert [doubt.reason for doubt in found] == [check.reason for check in checks]


@given(st.lists(st.text() | st.text(alphabet="#5 ,.-a"), min_size=1, max_size=5))
@example(["# 5", "5 5"])
def test_no_reason_is_lost_whatever_it_holds(reasons: list[str]) -> None:
    trials = [
        make_trial(make_spec(number, number), checks=(Check("c", Verdict.NOTE, reason, 1),))
        for number, reason in enumerate(reasons, start=1)
    ]
    found = doubts_of(*trials)
    assert sum(len(doubt.trials) for doubt in found) == len(reasons)


def test_the_trials_are_named_by_payload_direction_and_rounds() -> None:
    specs = [
        make_spec(1, 1, direction=Direction.IN),
        make_spec(2, 1, direction=Direction.OUT),
        make_spec(3, 2, direction=Direction.IN),
        make_spec(4, 2, direction=Direction.OUT),
        make_spec(5, 3, direction=Direction.IN),
        make_spec(6, 5, direction=Direction.IN),
        make_spec(7, 5, payload_bytes=76),
    ]
    doubtful = [make_trial(spec, checks=(busy("96%"),)) for spec in specs]
    (doubt,) = doubts_of(*doubtful, make_trial(make_spec(8, 8)))
    assert doubt.where == "1448 down (rounds 1-3, 5); 1448 up (rounds 1-2); 76 down (round 5)"


def test_the_calibration_is_named_so() -> None:
    first, second, *_ = make_plan().calibrations()
    (doubt,) = doubts_of(make_trial(first, checks=(busy("96%"),)), make_trial(second))
    assert doubt.where == "1448 down (calibration)"


def test_a_refusal_is_one_warning_even_if_its_proof_repeats_it() -> None:
    reason = "the data went over TCP"
    proof = make_proof("tinc BF-CBC, SHA-1", failed=reason)
    trials = [
        make_trial(
            make_spec(number, number, "tinc BF-CBC, SHA-1"),
            outcome=Outcome.REFUSED,
            reason=reason,
            proof=proof,
            checks=proof.checks,
        )
        for number in (1, 2, 3)
    ]
    (doubt,) = doubts_of(*trials)
    assert (doubt.trial_class, doubt.check, doubt.reason) == (TrialClass.REFUSED, "", reason)


def test_a_note_of_a_proof_is_a_warning_of_its_trials() -> None:
    proof = replace(make_proof(), checks=(Check("cipher", Verdict.NOTE, "the daemon does not tell", 3),))
    (doubt,) = doubts_of(make_trial(make_spec(1, 1), proof=proof), make_trial(make_spec(2, 2), proof=proof))
    assert (doubt.trial_class, doubt.where) == (TrialClass.NOTE, "every trial")


def test_a_median_above_the_limit_is_a_warning_unless_a_check_reports_it() -> None:
    tcp = make_tcp(96e6, physical_limit_bps=94.15e6)
    (doubt,) = doubts_of(make_trial(tcp=tcp))
    assert (doubt.trial_class, doubt.check, doubt.rule) == (TrialClass.DOUBTFUL, "physical-limit", 17)
    assert doubt.reason == "the median is 102% of the limit of the line"
    said = Check("physical-limit", Verdict.DOUBTFUL, "102.0% of the 94.15 Mbit/s", 17)
    (doubt,) = doubts_of(make_trial(tcp=tcp, checks=(said,)))
    assert doubt.reason == said.reason


def test_the_gravest_come_first() -> None:
    records = make_records()
    order = [doubt.trial_class for doubt in trial_warnings(records, summarise(records))]
    graveness = ["refused", "unavailable", "void", "doubtful", "note"]
    assert order == sorted(order, key=graveness.index)
    assert set(order) == set(graveness)
