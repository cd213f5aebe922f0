"""The rows of a campaign: one value for each run, compared with the first testbed by runs, not by trials."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_run

from tunnelbench.analysis.campaign import CampaignRow, campaign_rows
from tunnelbench.analysis.compare.comparison import ComparisonVerdict
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.analysis.statistics import median
from tunnelbench.measure.simulation import simulated_record
from tunnelbench.model.plan import Plan, TcpTraffic, TunnelSpec
from tunnelbench.model.testbed import SimulationModel
from tunnelbench.report.campaign import Campaign, campaign_sheet

PLAN = Plan("p", "", (TunnelSpec("none", "no tunnel"), TunnelSpec("gre", "GRE")), TcpTraffic((1448,)), rounds=3)


def _speed(seed: int) -> float:
    tcp = simulated_record(PLAN.trials()[0], SimulationModel(seed=seed), "a", 1, "").tcp
    return tcp.throughput_bps if tcp else 0.0


SLOW_SEED, FAST_SEED = min(range(20), key=_speed), max(range(20), key=_speed)


def side(seed: int, run_id: str, *, is_simulated: bool = True) -> Side:
    records = [simulated_record(spec, SimulationModel(seed=seed), run_id, 1, "") for spec in PLAN.trials()]
    return side_of_run(make_run(run_id=run_id, host_facts={"simulated": "yes"} if is_simulated else {}), records)


def rows_of(runs: dict[str, list[Side]]) -> list[CampaignRow]:
    return campaign_rows({("p", testbed): own for testbed, own in runs.items()}, [*runs])


def verdicts(runs: dict[str, list[Side]]) -> set[ComparisonVerdict | None]:
    """Return the verdicts on the throughput of the second testbed."""
    return {row.devices[1].verdict for row in rows_of(runs) if row.figure is ComparedFigure.THROUGHPUT}


def several(seed: int, count: int, name: str) -> list[Side]:
    return [side(seed, f"{name}-{number}") for number in range(count)]


def test_a_run_gives_one_value_the_median_of_its_trials() -> None:
    runs = several(FAST_SEED, 3, "a")
    row = next(row for row in rows_of({"attic": runs}) if row.tunnel == "GRE" and row.direction == "in")
    trials = [each for own in runs for each in own.rows if each.name == "GRE" and each.direction == "in"]
    assert row.devices[0].values == tuple(median([*each.figures[row.figure].values()]) for each in trials)
    assert row.devices[0].runs is not None
    assert row.devices[0].runs.count == 3


def test_five_runs_of_each_testbed_are_tested_and_fewer_are_not() -> None:
    for count, expected in ((5, ComparisonVerdict.SLOWER), (4, ComparisonVerdict.LOWER)):
        fast, slow = several(FAST_SEED, count, "a"), several(SLOW_SEED, count, "b")
        assert verdicts({"attic": fast, "cellar": slow}) == {expected}


def test_a_lower_bound_leaves_open_which_testbed_is_slower() -> None:
    fast, slow = several(FAST_SEED, 5, "a"), several(SLOW_SEED, 5, "b")
    bounds = [replace(own, rows=tuple(replace(row, is_tester_limited=True) for row in own.rows)) for own in slow]
    assert verdicts({"attic": fast, "cellar": bounds}) == {ComparisonVerdict.UNDECIDED}
    assert verdicts({"attic": bounds, "cellar": fast}) == {ComparisonVerdict.UNDECIDED}
    assert verdicts({"attic": slow, "cellar": fast}) == {ComparisonVerdict.FASTER}
    faster_bounds = [replace(own, rows=tuple(replace(row, is_tester_limited=True) for row in own.rows)) for own in fast]
    assert verdicts({"attic": slow, "cellar": faster_bounds}) == {ComparisonVerdict.FASTER}
    assert verdicts({"attic": bounds, "cellar": faster_bounds}) == {ComparisonVerdict.UNDECIDED}


def test_two_testbeds_of_one_speed_tie() -> None:
    runs = {"attic": several(FAST_SEED, 5, "a"), "cellar": several(FAST_SEED, 5, "b")}
    assert verdicts(runs) == {ComparisonVerdict.TIE}


def test_each_testbed_is_compared_with_the_first_one_that_is_as_real() -> None:
    runs = {
        "toy": several(SLOW_SEED, 1, "a"),
        "attic": [side(FAST_SEED, "b", is_simulated=False)],
        "cellar": [side(SLOW_SEED, "c", is_simulated=False)],
        "other toy": several(FAST_SEED, 1, "d"),
    }
    for row in rows_of(runs):
        assert [device.compared_with for device in row.devices] == ["", "", "attic", "toy"]


def test_a_testbed_without_runs_has_no_figure() -> None:
    (row, *_) = campaign_rows({("p", "attic"): several(FAST_SEED, 1, "a")}, ["attic", "cellar"])
    assert (row.devices[1].runs, row.devices[1].verdict) == (None, None)


def test_many_testbeds_are_rows_of_the_table_and_few_are_columns() -> None:
    for count in (6, 7):
        runs = {f"rack-{number}": several(number, 1, f"run-{number}") for number in range(count)}
        rows = rows_of(runs)
        sheet = campaign_sheet(Campaign("c", (*runs,), (), tuple(rows)))
        is_wide = count == 6
        assert ("rack-0" in sheet.header) is is_wide
        assert len(sheet.rows) == len(rows) * (1 if is_wide else count)
        assert {len(line) for line in sheet.rows} == {len(sheet.header)}
