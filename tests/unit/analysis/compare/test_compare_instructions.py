"""Runs at two rates on a router of fixed speed are compared by the instructions of a packet without idle work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.unit.builders import make_run, make_tcp, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts

from tunnelbench.analysis.compare.comparison import Comparison, ComparisonRow, ComparisonVerdict, compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, TrialSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.compare import sheet, within_texts

RATES = ("60", "360")
IDLE_MIPS = 8.0
"""Idle work that is much more than that of 60 packets/s."""


def trial(number: int, load: str, per_packet: float, idle_mips: float, lost: int) -> TrialRecord:
    """Eight seconds of packets at a rate; each round takes a little more instructions than the one before."""
    packets = round(float(load) * 8)
    window = replace(
        make_tcp(1e8).window,
        duration_s=8.0,
        data_packets=packets,
        ack_packets=0,
        router_instructions=round(8e6 * idle_mips + (per_packet + number) * packets),
        router_clock_lost_s=0.0,
    )
    spec = TrialSpec(number, number, make_tunnel("vxlan"), 1300, Direction.OUT, Test.RATE, load)
    counts = make_counts(float(load), intended_pps=float(load), lost=lost)
    udp = UdpMeasurement(counts, window=window, bracket_s=9.0, foreign_cpu_s=0.01)
    return replace(make_trial(spec, make_tcp(1e8)), measurement=udp)


def side(
    name: str,
    per_packet: float = 10_000.0,
    *,
    idle_mips: float = IDLE_MIPS,
    rounds: int = 7,
    lost: int = 0,
    rates: tuple[str, ...] = RATES,
) -> Side:
    records = [trial(number, load, per_packet, idle_mips, lost) for number in range(1, rounds + 1) for load in rates]
    return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)


def by_figure(found: Comparison) -> Mapping[tuple[str, ComparedFigure], ComparisonRow]:
    return {(line.pair.a.test, line.figure): line for line in found.rows}


def test_idle_work_does_not_hide_more_instructions_of_a_packet() -> None:
    found = compare(side("a"), side("b", 10_500))
    line = by_figure(found)["rate 60-360", ComparedFigure.WORK]
    assert line.ratio is not None
    assert line.ratio.value == pytest.approx(1.05, abs=1e-3)
    assert (line.verdict, line.pair.a.payload_bytes) == (ComparisonVerdict.DEARER, 1300)
    assert [each.figure for each in found.regressions(0.03)] == [ComparedFigure.WORK]
    assert ComparedFigure.INSTRUCTIONS not in {each.figure for each in found.rows}


def test_more_idle_work_is_no_change_of_a_packet() -> None:
    found = compare(side("a"), side("b", idle_mips=IDLE_MIPS * 1.2))
    assert by_figure(found)["rate 60-360", ComparedFigure.WORK].verdict is ComparisonVerdict.TIE
    assert found.apart(0.03) == ()


def test_within_finds_more_instructions_of_a_packet_in_three_rounds() -> None:
    found = compare(side("a", rounds=3), side("b", 10_500, rounds=3))
    assert {line.figure for line in found.own_figures} == {ComparedFigure.CARRIED, ComparedFigure.WORK}
    text = next(iter(within_texts(found, 0.03)))
    assert "vxlan 1300 up rate 60-360: instructions/packet without idle 5.0 % higher" in text


def test_lost_packets_leave_the_row_without_a_figure() -> None:
    found = compare(side("a"), side("b", lost=3))
    assert [pair.a.test for pair in found.untested] == []
    assert [row.test for row in found.only_in_a] == ["rate 60-360"]
    work, *others = side("b").rows
    lossy = replace(side("b"), rows=(replace(work, figures={}, remarks=("packets were lost",)), *others))
    assert [pair.a.test for pair in compare(side("a"), lossy).untested] == ["rate 60-360"]


@pytest.mark.parametrize("rates", [("360",), ("100", "360")])
def test_without_a_second_rate_far_away_the_instructions_per_packet_remain(rates: tuple[str, ...]) -> None:
    found = compare(side("a", rates=rates), side("b", 10_500, rates=rates))
    figures = {line.figure for line in found.rows}
    assert ComparedFigure.INSTRUCTIONS in figures
    assert ComparedFigure.WORK not in figures


def test_the_report_explains_the_figure() -> None:
    sections = {section.title: section.items for section in sheet(compare(side("a"), side("b")), {}).sections}
    assert any(item.startswith("instructions/packet without idle: ") for item in sections["How to read it"])


def test_other_rows_of_rates_at_full_speed_keep_their_instructions() -> None:
    records = [trial(number, load, 10_000, IDLE_MIPS, 0) for number in range(1, 6) for load in RATES]
    fast = [
        replace(record, spec=replace(record.spec, load=FLAT_OUT)) for record in records if record.spec.load == RATES[1]
    ]
    rows = {row.test: row for row in side_of_run(make_run(), [*records, *fast]).rows}
    assert ComparedFigure.INSTRUCTIONS in rows["rate flat-out"].figures
    assert ComparedFigure.INSTRUCTIONS not in rows["rate 360"].figures
    assert rows["rate 360"].has_fixed_speed
