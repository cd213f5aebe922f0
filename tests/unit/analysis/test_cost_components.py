"""Parts of a run's own tunnels: found again from trials made of them, and said not to be where they cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.own_parts_run import BASELINE, COSTS_US, FOUR, SPEEDS, run, speed, trial, variant

from tunnelbench.analysis.cost_components import (
    MeasuredComponents,
    UnknownComponents,
    calculated_s,
    measured_components,
)
from tunnelbench.model.cipher_speed import MASKED, CipherSpeed
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check, TrialRecord, Verdict

NAMES = {
    "forwarding": "forwarding",
    "tunnel": "tunnel",
    "cipher AES-128-CBC": "AES-128-CBC",
    "cipher AES-128-GCM": "AES-128-GCM",
    "digest SHA1": "SHA1",
}


def parts_of(records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed] = ()) -> MeasuredComponents:
    (found,) = measured_components(records, speeds)
    assert isinstance(found, MeasuredComponents)
    return found


def reason_of(records: Sequence[TrialRecord]) -> str:
    (found,) = measured_components(records)
    assert isinstance(found, UnknownComponents)
    return found.reason


@pytest.mark.parametrize("directions", [(Direction.OUT,), tuple(Direction)])
@pytest.mark.parametrize("speed_of_round", [(1.0, 1.0, 1.0), (1.0, 1.5, 1.0)])
def test_components_that_add_up_are_found_in_rounds_of_any_speed(
    directions: tuple[Direction, ...], speed_of_round: tuple[float, ...]
) -> None:
    found = parts_of(run(directions=directions, speed_of_round=speed_of_round))
    assert [part.label for part in found.components] == ["forwarding", "tunnel", "cipher AES-128-CBC", "digest SHA1"]
    assert len(found.costs) == 4 * 2 * len(directions)
    for cost in found.costs:
        fixed, per_byte = COSTS_US[NAMES[cost.component.label]]
        assert cost.by_difference_s.value * 1e6 == pytest.approx(fixed + per_byte * cost.packet_bytes, rel=0.01)
    assert {cost.payload_bytes: cost.packet_bytes for cost in found.costs} == {300: 352, 1448: 1400}
    assert found.worst_misfit_share < 0.001


def test_costs_that_do_not_add_up_widen_the_error() -> None:
    records = [
        replace(
            each,
            measurement=trial(
                each.spec.tunnel, each.spec.payload_bytes, Direction.OUT, each.spec.round, factor=1.2
            ).tcp,
        )
        if each.spec.tunnel == FOUR[-1]
        else each
        for each in run()
    ]
    found = parts_of(records)
    assert found.worst_misfit_share > 0.02
    cipher = next(cost for cost in found.costs if cost.component.label == "cipher AES-128-CBC")
    assert cipher.by_difference_s.error is not None
    assert cipher.is_distinguishable is False


def test_as_many_unknowns_as_figures_leave_no_error() -> None:
    found = parts_of(run((BASELINE, *FOUR[:3])))
    assert {cost.by_difference_s.error for cost in found.costs} == {None}
    assert {cost.is_distinguishable for cost in found.costs} == {None}


def test_only_components_of_algorithms_have_a_calculation() -> None:
    found = parts_of(run(), SPEEDS)
    calculated = {(cost.component.label, cost.payload_bytes): cost.by_calculation_s for cost in found.costs}
    assert calculated["cipher AES-128-CBC", 1448] == pytest.approx(1.4e-6)
    assert calculated["digest SHA1", 300] == pytest.approx(0.704e-6)
    assert calculated["forwarding", 300] is calculated["tunnel", 1448] is None


def test_time_is_interpolated_between_the_nearest_blocks() -> None:
    own = speed("sha1", 1.0, bytes_per_s={256: 256 / 2e-6, 1024: 1024 / 5e-6})
    assert calculated_s(("sha1",), 256, (own,)) == pytest.approx(2e-6)
    assert calculated_s(("sha1",), 640, (own,)) == pytest.approx(3.5e-6)
    assert calculated_s(("sha1",), 2000, (own,)) is None


@pytest.mark.parametrize(
    "other",
    [
        speed("sha1", 1e9, hosts=("client", "server")),
        speed("sha1", 1e9, acceleration=MASKED),
        speed("sha1", 1e9, threads=2),
        speed("sha1", 1e9, bytes_per_s={}),
        speed("sha256", 1e9),
    ],
)
def test_a_speed_of_something_else_is_no_calculation(other: CipherSpeed) -> None:
    assert calculated_s(("sha1",), 500, (other,)) is None


def test_a_cipher_that_authenticates_has_no_digest() -> None:
    found = parts_of(run((BASELINE, FOUR[0], FOUR[1], variant("AES-128-GCM", "SHA1"))))
    assert [part.label for part in found.components] == ["forwarding", "tunnel", "cipher AES-128-GCM", "digest SHA1"]
    assert found.aead_ciphers == ("AES-128-GCM",)


def test_work_that_no_variant_separates_is_one_component() -> None:
    together = parts_of(run((BASELINE, FOUR[0], FOUR[3])), SPEEDS)
    assert [part.label for part in together.components] == [
        "forwarding",
        "tunnel",
        "cipher AES-128-CBC and digest SHA1",
    ]
    assert together.costs[-1].by_calculation_s == pytest.approx(1.4e-6 + 2.8e-6)
    no_baseline = parts_of(run(FOUR))
    assert no_baseline.components[0].label == "forwarding and tunnel"


def test_tinc_calls_its_digest_digest() -> None:
    four = [
        variant(cipher, digest, kind="tinc", digest_is="digest")
        for cipher in ("none", "AES-128-CBC")
        for digest in ("none", "SHA1")
    ]
    assert [part.label for part in parts_of(run((BASELINE, *four))).components][-1] == "digest SHA1"


def test_tunnels_that_differ_in_more_are_no_variants_of_each_other() -> None:
    assert measured_components(run((BASELINE, FOUR[0], variant("AES-128-CBC", "SHA1", mode="y")))) == ()
    assert measured_components(run((BASELINE,))) == ()


TWO_CIPHERS = ("forwarding", "tunnel", "cipher AES-128-CBC", "cipher AES-128-GCM")
SHARED = Check("router-cpu", Verdict.DOUBTFUL, "router and testers share a CPU", 12)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (run(payloads=(1448,)), "a line needs two sizes, and one was measured"),
        ([replace(each, checks=(SHARED,)) for each in run()], "router and testers share a CPU"),
        (
            [replace(each, checks=(Check("x", Verdict.VOID, "", 1),)) for each in run()],
            "fewer than two variants have trials that count",
        ),
        (
            run((BASELINE, variant("AES-128-CBC", "none"), variant("AES-128-GCM", "none"))),
            f"the measured variants and sizes do not separate these: {', '.join(TWO_CIPHERS)}",
        ),
    ],
)
def test_components_that_cannot_be_separated_have_a_reason(records: list[TrialRecord], reason: str) -> None:
    assert reason_of(records) == reason
