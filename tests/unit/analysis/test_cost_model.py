"""The cost model of a run: found again from trials made of it, and tried on each size that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_spec, make_tcp, make_trial

from tunnelbench.analysis.cost_model import IMIX_FRAMES, CostModel, NoModel, cost_models
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check, TrialRecord, Verdict

IN_US, OUT_US = (12.0, 0.002), (10.0, 0.001)
"""Fixed and per byte cost of a packet [microseconds], by the way it travels."""

PAYLOADS = (76, 500, 950, 1368)


def packet_us(direction: Direction, size_bytes: float) -> float:
    fixed, per_byte = IN_US if direction is Direction.IN else OUT_US
    return fixed + per_byte * size_bytes


def trial(
    payload: int, direction: Direction, round_number: int, factor: float = 1.0, checks: tuple[Check, ...] = ()
) -> TrialRecord:
    """Half an acknowledgement for each data packet, as `make_tcp` has it."""
    back = Direction.OUT if direction is Direction.IN else Direction.IN
    per_data_us = packet_us(direction, payload + 52) + 0.5 * packet_us(back, 52)
    tcp = make_tcp(40e6, payload_bytes=payload, cpu_s_per_million_packets=factor * per_data_us / 1.5)
    spec = make_spec(round_number, round_number, "wireguard-go", payload, direction)
    return make_trial(spec, tcp, checks=checks, proof=make_proof("wireguard-go"))


def run(
    factor: Callable[[int, Direction, int], float] = lambda *_: 1.0,
    payloads: tuple[int, ...] = PAYLOADS,
    directions: tuple[Direction, ...] = tuple(Direction),
    rounds: int = 5,
) -> list[TrialRecord]:
    return [
        trial(payload, direction, number, factor(payload, direction, number))
        for number in range(1, rounds + 1)
        for payload in payloads
        for direction in directions
    ]


def model_of(records: list[TrialRecord]) -> CostModel:
    (found,) = cost_models(records)
    assert isinstance(found, CostModel)
    return found


def test_the_cost_of_each_way_is_found_from_data_packets_and_acknowledgements() -> None:
    model = model_of(run())
    assert model.packet_s(700, Direction.IN).value == pytest.approx(13.4e-6, rel=1e-3)
    assert model.packet_s(700, Direction.OUT).value == pytest.approx(10.7e-6, rel=1e-3)
    assert (model.smallest_bytes, model.largest_bytes, model.rounds) == (128, 1420, 5)


def test_where_one_way_was_measured_its_acknowledgements_count_as_its_packets() -> None:
    model = model_of(run(directions=(Direction.IN,)))
    assert model.directions == (Direction.IN,)
    assert model.packet_s(700, Direction.IN).value == pytest.approx(12.8e-6, rel=0.02)


def test_each_size_is_predicted_from_the_others() -> None:
    model = model_of(run())
    assert [(case.payload_bytes, case.direction) for case in model.left_out] == [
        (payload, direction) for payload in PAYLOADS for direction in Direction
    ]
    assert max(abs(case.error_share) for case in model.left_out) == pytest.approx(0, abs=2e-3)
    assert len(model.sizes_left_out) == 4
    assert model.is_straight


def test_a_size_off_the_line_is_reported_and_the_line_is_not_straight() -> None:
    model = model_of(run(lambda payload, *_: 1.8 if payload == 950 else 1.0))
    off = [case for case in model.left_out if not case.is_within_claim]
    assert {case.payload_bytes for case in off} >= {950}
    assert [case.error_share for case in off if case.payload_bytes == 950] == pytest.approx([1 / 1.8 - 1] * 2, rel=0.01)
    assert not model.is_straight


def slow_rounds(_payload: int, _direction: Direction, number: int) -> float:
    return 1.6 if number in (2, 5) else 1.0


def test_a_machine_that_is_slower_for_whole_rounds_changes_nothing() -> None:
    model = model_of(run(slow_rounds))
    assert model.packet_s(700, Direction.IN).value == pytest.approx(13.4e-6, rel=1e-3)
    assert model.drift == pytest.approx((1.6, 1.0))


def test_a_size_whose_fast_rounds_are_void_is_not_dearer_for_that() -> None:
    void = {(1, 76), (3, 76)}
    records = [record for record in run(slow_rounds) if (record.spec.round, record.spec.payload_bytes) not in void]
    assert model_of(records).packet_s(128, Direction.IN).value == pytest.approx(12.256e-6, rel=1e-3)


def test_packets_per_second_follow_for_frames_and_for_the_mix() -> None:
    model = model_of(run())
    one = model.predict([(594, 1)], Direction.IN)
    assert one.packets_per_s == pytest.approx(1e6 / packet_us(Direction.IN, 576), rel=1e-3)
    assert one.bits_per_s == pytest.approx(one.packets_per_s * 594 * 8)
    assert not one.is_extrapolated
    mix = model.predict(IMIX_FRAMES, Direction.IN)
    mean = (7 * 46 + 4 * 576 + 1420) / 12
    assert mix.packets_per_s == pytest.approx(1e6 / packet_us(Direction.IN, mean), rel=1e-3)
    assert mix.bits_per_s == pytest.approx(mix.packets_per_s * (mean + 18) * 8)


def test_what_the_tunnel_does_not_take_whole_and_what_was_not_measured_is_marked() -> None:
    model = model_of(run())
    assert model.predict([(1518, 1)], Direction.IN).largest_bytes == 1420
    assert model.predict([(594, 1)], Direction.IN).largest_bytes is None
    assert model.predict([(64, 1)], Direction.IN).is_extrapolated


SHARED = Check("router-cpu", Verdict.DOUBTFUL, "router and testers share a CPU", 12)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (run(payloads=(1368,)), "a line needs two sizes, and one was measured"),
        ([replace(record, checks=(Check("x", Verdict.VOID, "", 1),)) for record in run()], "no trial counts"),
        (
            [
                replace(r, checks=(Check("router-cpu", Verdict.DOUBTFUL, "router and testers share a CPU", 12),))
                for r in run()
            ],
            "router and testers share a CPU",
        ),
    ],
)
def test_where_there_is_no_model_it_says_why(records: list[TrialRecord], reason: str) -> None:
    (found,) = cost_models(records)
    assert isinstance(found, NoModel)
    assert found.reason == reason
