"""Remarks on a row."""

from __future__ import annotations

from tests.unit.builders import make_records, make_spec, make_tcp, make_trial

from tunnelbench.analysis.comments import comments
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict

LIMITED = Check("tester-limited", Verdict.DOUBTFUL, "the testers' CPU was 97% busy", 6)
STALL = Check("stalls", Verdict.DOUBTFUL, "nothing arrived for 1 s in all", 8)


def comments_on(*records: TrialRecord) -> tuple[str, ...]:
    return comments(summarise(records)[-1])


def test_a_clean_row_needs_no_remark() -> None:
    assert comments_on(make_trial()) == ()


def test_a_refused_row_says_why() -> None:
    refused = make_trial(make_spec(1, 1, "vxlan"), outcome=Outcome.REFUSED, reason="went over TCP")
    assert comments_on(refused) == ("refused: went over TCP",)


def test_a_row_that_ended_in_several_ways_says_each() -> None:
    first = make_trial(make_spec(1, 1, "vxlan"), outcome=Outcome.VOID, reason="iperf3 died")
    second = make_trial(make_spec(2, 2, "vxlan"), outcome=Outcome.REFUSED, reason="went over TCP")
    assert comments_on(first, second) == ("void and refused: iperf3 died; went over TCP",)


def test_line_speed_and_a_rate_above_it_have_different_comments() -> None:
    assert comments_on(make_trial(tcp=make_tcp(94e6, physical_limit_bps=94.15e6))) == ("line speed",)
    (remark,) = comments_on(make_trial(tcp=make_tcp(95.562e6, physical_limit_bps=94.15e6)))
    assert remark == "doubtful: 1.50% above the limit of the line"


def test_a_tester_limited_row_gives_an_extrapolated_capacity_and_calls_it_so() -> None:
    trial = make_trial(tcp=make_tcp(1448 * 8 * 20_000, cpu_s_per_million_packets=25), checks=(LIMITED,))
    assert comments_on(trial) == ("tester-limited; extrapolated: 40000 packets/s, 309 Mbit/s",)


def test_the_payload_in_effect_is_named_where_it_is_another() -> None:
    assert comments_on(make_trial(tcp=make_tcp(mss_bytes=1368))) == ("payload in effect 1368",)


def test_the_calibration_is_called_so() -> None:
    remarks = {comments(row) for row in summarise(make_records()) if row.is_calibration}
    assert remarks == {("calibration: maximum of the testers",)}


def test_a_missing_baseline_is_named() -> None:
    assert comments_on(make_trial(make_spec(1, 1, "vxlan"))) == ("no baseline trial counts",)


def test_trials_left_out_and_doubtful_ones_are_counted_and_their_checks_named() -> None:
    trials = (
        make_trial(make_spec(1, 1)),
        make_trial(make_spec(2, 2), checks=(STALL,)),
        make_trial(make_spec(3, 3), outcome=Outcome.VOID, reason="iperf3 died"),
    )
    assert comments_on(*trials) == ("1 of 3 trials left out", "warnings: stalls")


def test_every_row_without_figures_has_a_remark() -> None:
    empty = [row for row in summarise(make_records()) if row.figures is None]
    assert len(empty) == 8
    assert all("".join(comments(row)) for row in empty)
