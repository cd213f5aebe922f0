"""UDP rows of two runs: the same verdicts by the same rules, on rates that want to be high and delays that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import make_records, make_run, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts, make_delays, make_search, make_udp_records

from tunnelbench.analysis.compare.comparison import Comparison, ComparisonRow, ComparisonVerdict, compare
from tunnelbench.analysis.compare.differences import bench_ratios, differences
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.model.plan import CALIBRATION_KIND, FLAT_OUT, Direction, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import Check, TrialRecord
from tunnelbench.model.result import Verdict as CheckVerdict
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.compare import sheet

TESTERS = TunnelSpec(CALIBRATION_KIND, "testers back to back")


def trial(test: Test, load: str, number: int, **measured: Any) -> TrialRecord:
    spec = TrialSpec(number, number, make_tunnel("vxlan"), 18, Direction.OUT, test, load)
    counts = measured.pop("counts", None)
    return replace(make_trial(spec), measurement=UdpMeasurement(counts, bracket_s=2.0, **measured))


def searching(ndr_pps: float, rounds: int = 5) -> list[TrialRecord]:
    """Each round finds a little more than the one before; the third search of each is off."""
    return [
        trial(
            Test.SEARCH,
            "",
            number,
            searches=tuple(make_search(each, each * 1.05) for each in (pps, pps * 1.001, pps * 3)),
            counts=make_counts(pps),
        )
        for number in range(1, rounds + 1)
        for pps in [ndr_pps * (1 + number / 1000)]
    ]


def delayed(median_ns: float, load: str = "50%") -> list[TrialRecord]:
    return [
        trial(Test.LATENCY, load, number, counts=make_counts(delay=make_delays(median_ns * (1 + number / 1000))))
        for number in range(1, 6)
    ]


def carried(pps: float, load: str = FLAT_OUT, test: Test = Test.RATE) -> list[TrialRecord]:
    return [trial(test, load, number, counts=make_counts(pps * (1 + number / 1000))) for number in range(1, 6)]


def side(records: list[TrialRecord], name: str = "a") -> Side:
    return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)


def lines(a: list[TrialRecord], b: list[TrialRecord]) -> dict[ComparedFigure, ComparisonRow]:
    return {line.figure: line for line in compare(side(a), side(b, "b")).rows}


def test_rates_without_loss_and_with_little_are_compared() -> None:
    found = lines(searching(100e3), searching(90e3))
    assert {figure: line.verdict for figure, line in found.items()} == {
        ComparedFigure.NDR: ComparisonVerdict.SLOWER,
        ComparedFigure.PDR: ComparisonVerdict.SLOWER,
    }
    ratio = found[ComparedFigure.NDR].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(0.9)
    assert lines(searching(100e3), searching(110e3))[ComparedFigure.PDR].verdict is ComparisonVerdict.FASTER


def test_the_searches_of_a_trial_are_one_repeat_and_their_median_counts() -> None:
    found = lines(searching(100e3, rounds=3), searching(90e3, rounds=3))[ComparedFigure.NDR]
    assert found.a is not None
    assert (found.a.count, found.p, found.verdict) == (3, None, ComparisonVerdict.LOWER)
    assert found.a.median == pytest.approx(100e3 * 1.002 * 1.001, rel=1e-4)


def test_a_longer_delay_is_slower_and_a_regression() -> None:
    a, b = delayed(40_000), delayed(50_000)
    found = lines(a, b)
    assert {figure: line.verdict for figure, line in found.items()} == {
        ComparedFigure.DELAY_P50: ComparisonVerdict.SLOWER,
        ComparedFigure.DELAY_P99: ComparisonVerdict.SLOWER,
    }
    assert found[ComparedFigure.DELAY_P50].worse_by() == pytest.approx(0.25)
    assert len(compare(side(a), side(b, "b")).regressions(0.2)) == 2
    assert lines(b, a)[ComparedFigure.DELAY_P50].verdict is ComparisonVerdict.FASTER


@pytest.mark.parametrize("test", [Test.RATE, Test.ECHO])
def test_what_came_through_is_compared_load_by_load(test: Test) -> None:
    found = lines(carried(100e3, test=test), carried(120e3, test=test))
    assert [(figure, line.verdict) for figure, line in found.items()] == [
        (ComparedFigure.CARRIED, ComparisonVerdict.FASTER)
    ]
    apart = compare(side(carried(100e3, test=test)), side(carried(5000, "5000", test), "b"))
    assert apart.rows == ()
    assert (len(apart.only_in_a), len(apart.only_in_b)) == (1, 1)


def test_a_small_difference_and_an_overlap_are_ties() -> None:
    assert lines(searching(100e3), searching(101.5e3))[ComparedFigure.NDR].verdict is ComparisonVerdict.TIE
    assert lines(delayed(40_000), delayed(40_050))[ComparedFigure.DELAY_P50].verdict is ComparisonVerdict.TIE


def test_a_tester_limited_rate_is_never_a_regression_of_the_router() -> None:
    check = Check("tester-limited", CheckVerdict.DOUBTFUL, "testers 97 % busy", 6)
    a, b = ([replace(each, checks=(check,)) for each in carried(pps)] for pps in (100e3, 80e3))
    found = compare(side(a), side(b, "b"))
    assert found.rows[0].verdict is ComparisonVerdict.UNDECIDED
    assert found.rows[0].is_tester_limited
    assert found.regressions(0.05) == ()


def calibrated(speed: float) -> list[TrialRecord]:
    """Testers and path at a speed of the bench."""
    (own, *_) = carried(500e3 * speed)
    return [replace(own, spec=replace(own.spec, sequence=0, round=0, tunnel=TESTERS)), *carried(100e3 * speed)]


def test_a_difference_that_the_bench_made_is_a_tie() -> None:
    found = compare(side(calibrated(1.0)), side(calibrated(0.7), "b"))
    assert found.bench_moved_udp == pytest.approx(1 / 0.7)
    assert (found.bench_moved, found.traffic_without_calibration) == (None, ())
    assert found.rows[0].verdict is ComparisonVerdict.TIE
    assert found.rows[0].remarks == ("different, but not by more than the testers without a router (43%)",)


def test_a_given_rate_that_the_testers_kept_says_nothing_of_the_bench() -> None:
    (own, *_) = carried(5000, "5000")
    own = replace(own, spec=replace(own.spec, sequence=0, round=0, tunnel=TESTERS))
    both = [side([own, *carried(100e3)], name) for name in "ab"]
    found = compare(*both)
    assert found.bench_moved_udp is None
    assert found.traffic_without_calibration == ("udp",)
    assert sheet(found, {}).cautions[0].startswith("A or B has no valid calibration of UDP")


def of_everything() -> Comparison:
    records = [*make_records(1), *make_udp_records()]
    run = make_run(trials_planned=len(records))
    return compare(side_of_run(run, records), side_of_run(run, records))


def test_a_run_with_udp_differs_from_itself_in_nothing() -> None:
    itself = of_everything()
    assert {line.verdict for line in itself.rows} == {ComparisonVerdict.TIE, ComparisonVerdict.MISSING}
    assert (itself.only_in_a, itself.only_in_b, differences(itself.a, itself.b)) == ((), (), ())
    udp = [line for line in itself.rows if line.pair.a.traffic == "udp"]
    assert {line.figure for line in udp} == {
        ComparedFigure.NDR,
        ComparedFigure.PDR,
        ComparedFigure.CARRIED,
        ComparedFigure.COST,
        ComparedFigure.DELAY_P50,
        ComparedFigure.DELAY_P99,
    }
    costs = {line.pair.a.test for line in udp if line.figure is ComparedFigure.COST}
    assert costs == {"rate 5000", "rate flat-out", "echo 5000", "echo flat-out"}
    assert all(line.pair.a.test == line.pair.b.test for line in udp)
    assert bench_ratios(itself.a, itself.b, "udp")["18 out rate flat-out"] == 1.0


def test_the_sheet_names_test_and_load_and_what_is_not_compared() -> None:
    found = sheet(of_everything(), {})
    cells = [row[:4] for row in found.rows]
    assert ("vxlan", "18", "up", "NDR packets/s (search)") in cells
    assert ("vxlan", "imix", "up", "delay p99 us (latency 50%)") in cells
    assert ("none", "18", "up", "carried packets/s (rate flat-out)") in cells
    assert "A: these tests are not compared: loss-curve, burst." in found.cautions


def test_a_udp_row_without_a_figure_says_why() -> None:
    missing = [
        line
        for line in of_everything().rows
        if line.verdict is ComparisonVerdict.MISSING and line.pair.a.traffic == "udp"
    ]
    refused = [line for line in missing if line.pair.a.name == "tinc BF-CBC, SHA-1" and line.pair.a.test == "search"]
    assert {line.figure for line in refused} == {ComparedFigure.PDR}
    assert all("went over TCP" in line.remarks[0] for line in refused)


def test_a_rate_of_the_plan_counts_within_a_limit_only_if_it_is_not_carried() -> None:
    both = [*carried(5000, "5000"), *searching(9000)]
    same = compare(side(both), side(both, "b"))
    assert {line.figure for line in same.judged(0.03)} == {ComparedFigure.NDR, ComparedFigure.PDR}
    less = compare(side(both), side([*carried(4000, "5000"), *searching(9000)], "b"))
    assert {line.figure for line in less.apart(0.03)} == {ComparedFigure.CARRIED}
    assert len(less.judged(0.03)) == 3
    full = compare(side(carried(5000)), side(carried(5000), "b"))
    assert {line.figure for line in full.judged(0.03)} == {ComparedFigure.CARRIED}
    assert len(compare(side(carried(5000, "50%")), side(carried(5000, "50%"), "b")).judged(0.03)) == 1
