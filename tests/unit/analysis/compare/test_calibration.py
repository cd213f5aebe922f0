"""Cycles for each instruction of a virtual router, and predictions of each row from the others, with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.builders import make_run, make_spec, make_tcp, make_trial

from tunnelbench.analysis.compare.calibration import Calibration, calibrate
from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow
from tunnelbench.model.reference import Comparability, Comparable
from tunnelbench.reference import read_reference

CLOCK_MHZ = 100.0
CPU_SHARE = 0.5
PAYLOAD_BYTES = 1000
NAMES = ("none", "ipip", "gre", "l2tpv2-ppp")
INSTRUCTIONS = (5_000.0, 10_000.0, 20_000.0, 40_000.0)
"""Instructions of the virtual router for one data packet, by tunnel."""


def row(name: str, mbps: float, **others: object) -> SideRow:
    made = SideRow(
        kind=name,
        name=name,
        settings={},
        options={},
        payload_bytes=PAYLOAD_BYTES,
        effective_bytes=PAYLOAD_BYTES,
        direction="in",
        traffic="tcp",
        figures={ComparedFigure.THROUGHPUT: {1: mbps}},
    )
    return replace(made, **others)  # type: ignore[arg-type]


def run_of(instructions: Sequence[float | None] = INSTRUCTIONS) -> Side:
    rows = [row(name, 10.0, segment_instructions=each) for name, each in zip(NAMES, instructions, strict=False)]
    return Side("run", "run", tuple(rows), {})


def publication_of(cycles_per_instruction: Sequence[float], cpu_share: float | None = CPU_SHARE) -> Side:
    """A table of a router of 100 MHz that takes so many cycles for each instruction, by tunnel."""
    rows = []
    for name, instructions, ratio in zip(NAMES, INSTRUCTIONS, cycles_per_instruction, strict=False):
        packets_per_s = CLOCK_MHZ * 1e6 * CPU_SHARE / (instructions * ratio)
        rows.append(row(name, packets_per_s * 8 * PAYLOAD_BYTES / 1e6, cpu_share=cpu_share))
    comparability = Comparability("through-device", Comparable.YES, "measured as runs are")
    return Side(
        "table", "table", tuple(rows), {}, comparability=comparability, clock_mhz=CLOCK_MHZ, clock_source="a log"
    )


def calibrated(a: Side, b: Side) -> Calibration:
    found = calibrate(compare(a, b))
    assert found is not None
    return found


def test_each_row_is_predicted_from_the_median_of_the_others() -> None:
    found = calibrated(run_of(), publication_of((1, 2, 2, 4)))
    assert [each.tunnel for each in found.rows] == list(NAMES)
    assert [each.cycles_per_instruction for each in found.rows] == pytest.approx([1, 2, 2, 4])
    assert [each.packet_cycles for each in found.rows] == pytest.approx([5_000, 20_000, 40_000, 160_000])
    assert [each.published_mbps for each in found.rows] == pytest.approx([80, 20, 10, 2.5])
    assert [each.predicted_mbps for each in found.rows] == pytest.approx([40, 20, 10, 5])
    assert [each.error_share for each in found.rows] == pytest.approx([-0.5, 0, 0, 1])
    assert found.median_absolute_error_share == pytest.approx(0.25)
    ratio = found.cycles_per_instruction
    assert (ratio.median, ratio.low, ratio.high, ratio.count) == pytest.approx((2, 1, 4, 4))
    assert (found.clock_mhz, found.clock_source) == (CLOCK_MHZ, "a log")


def test_the_order_of_the_sides_makes_no_difference() -> None:
    sides = run_of(), publication_of((1, 2, 2, 4))
    assert calibrated(*sides) == calibrated(*reversed(sides))


def test_the_payload_is_that_of_the_segments_of_the_run() -> None:
    run, table = run_of(), publication_of((2, 2, 2, 2))
    shorter = replace(run, rows=tuple(replace(each, effective_bytes=500) for each in run.rows))
    assert calibrated(shorter, table).cycles_per_instruction.median == pytest.approx(1)


def test_a_cpu_share_read_off_as_more_than_all_counts_as_all() -> None:
    found = calibrated(run_of(), publication_of((2, 2, 2, 2), cpu_share=1.05))
    assert [each.published_cpu_share for each in found.rows] == [1.0] * 4
    assert found.cycles_per_instruction.median == pytest.approx(4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (run_of(), run_of()),
        (run_of(), replace(publication_of((1, 2, 2, 4)), clock_mhz=None)),
        (run_of(), publication_of((1, 2, 2, 4), cpu_share=None)),
        (run_of((None, None, None, None)), publication_of((1, 2, 2, 4))),
        (run_of(INSTRUCTIONS[:2]), publication_of((1, 2, 2, 4))),
        (publication_of((1, 2, 2, 4)), publication_of((1, 2, 2, 4))),
    ],
    ids=["two runs", "no clock", "no CPU share", "no fixed speed", "two rows", "two publications"],
)
def test_without_all_figures_of_three_rows_there_is_no_calibration(a: Side, b: Side) -> None:
    assert calibrate(compare(a, b)) is None


def test_the_published_table_predicts_itself() -> None:
    # With 1.5 cycles for each instruction in every row, no prediction is wrong.
    table = side_of_reference(read_reference("wr841n-2014"))
    assert table.clock_mhz == 535
    rows = []
    for each in table.rows:
        assert each.cpu_share is not None
        assert each.effective_bytes is not None
        packets_per_s = each.figures[ComparedFigure.THROUGHPUT][1] * 1e6 / (8 * each.effective_bytes)
        rows.append(replace(each, segment_instructions=535e6 * each.cpu_share / packets_per_s / 1.5))
    found = calibrated(Side("run", "run", tuple(rows), {}), table)
    assert len(found.rows) == 48
    assert [each.cycles_per_instruction for each in found.rows] == pytest.approx([1.5] * 48)
    assert found.median_absolute_error_share == pytest.approx(0, abs=1e-9)


def test_a_run_has_the_instructions_of_a_data_packet_and_its_largest_clock_loss() -> None:
    records = []
    for number, (instructions, lost_s) in enumerate(((9_000, 0.01), (10_000, -0.02), (13_000, 0.04)), start=1):
        tcp = make_tcp(1e8)
        window = replace(
            tcp.window,
            router_instructions=instructions * tcp.window.data_packets,
            router_clock_lost_s=lost_s * tcp.window.duration_s,
        )
        records.append(make_trial(make_spec(number, number), replace(tcp, window=window)))
    (found,) = side_of_run(make_run(trials_planned=3), records).rows
    assert found.segment_instructions == pytest.approx(10_000)
    assert found.clock_lost_share == pytest.approx(0.04)
    (other,) = side_of_run(make_run(trials_planned=1), [make_trial(make_spec())]).rows
    assert (other.segment_instructions, other.clock_lost_share) == (None, None)
