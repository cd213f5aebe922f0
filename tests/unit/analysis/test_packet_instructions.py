"""Instructions for one packet come from two rates, without idle work, and without trials that lost packets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_proof, make_run, make_tcp, make_trial, make_tunnel
from tests.unit.udp_builders import make_counts

from tunnelbench.analysis.packet_instructions import paced_rate_pps, packet_instructions
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.plan import Direction, Test, TrialSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.document import compose
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.render import render
from tunnelbench.report.screen_tables import instructions_table

IDLE_MIPS = 1.5
WORK = {"none": (7000.0, 0.5), "vxlan": (9000.0, 1.0), "openvpn AES-128-GCM": (30_000.0, 80.0)}
"""Instructions for one packet and for each of its bytes."""


def trial(
    name: str, number: int, payload_bytes: int, pps: float, *, lost: int = 0, has_fixed_speed: bool = True
) -> TrialRecord:
    fixed, per_byte = WORK[name]
    own = fixed + per_byte * payload_bytes
    packets = round(pps * 8)
    clock_lost_s = 0.1 * number if pps < 100 else -0.05  # idle work follows the router's clock
    instructions = round((8 - clock_lost_s) * IDLE_MIPS * 1e6 + own * packets)
    window = replace(
        make_tcp(1e8).window,
        duration_s=8.0,
        data_packets=packets,
        ack_packets=0,
        router_instructions=instructions if has_fixed_speed else None,
        router_clock_lost_s=clock_lost_s if has_fixed_speed else None,
    )
    spec = TrialSpec(number * 100, number, make_tunnel(name), payload_bytes, Direction.OUT, Test.RATE, f"{pps:g}")
    udp = UdpMeasurement(
        make_counts(pps, intended_pps=pps, lost=lost), window=window, bracket_s=9.0, foreign_cpu_s=0.01
    )
    return replace(make_trial(spec, make_tcp(1e8)), measurement=udp)


def trials(lost_in: str = "", *, has_fixed_speed: bool = True) -> list[TrialRecord]:
    return [
        trial(
            name,
            number,
            payload,
            pps,
            lost=3 if name == lost_in and pps > 100 else 0,
            has_fixed_speed=has_fixed_speed,
        )
        for number in (1, 2, 3)
        for name in WORK
        for payload in (18, 1300)
        for pps in (10.0, 310.0)
    ]


def test_idle_work_is_subtracted_and_each_byte_is_the_difference_of_two_sizes() -> None:
    found = {each.tunnel.name: each for each in packet_instructions(trials())}
    for name, (fixed, per_byte) in WORK.items():
        each = found[name]
        assert each.by_payload[18].median == pytest.approx(fixed + 18 * per_byte, rel=1e-4)
        assert each.per_byte is not None
        assert each.per_byte.median == pytest.approx(per_byte, rel=1e-3)
        assert each.idle_mips is not None
        assert each.idle_mips.median == pytest.approx(IDLE_MIPS, rel=1e-3)
    assert found["vxlan"].over_baseline[18].median == pytest.approx(9018 / 7009, rel=1e-4)


def test_a_trial_that_lost_packets_does_not_count() -> None:
    found = {each.tunnel.name: each for each in packet_instructions(trials(lost_in="vxlan"))}
    assert (found["vxlan"].by_payload, found["vxlan"].left_out_trials) == ({}, 6)
    assert found["none"].by_payload


def test_a_trial_whose_packets_waited_in_an_overloaded_router_does_not_count() -> None:
    records = trials()
    late = [
        replace(each, measurement=replace(each.udp, window=replace(each.udp.window, data_packets=2250)))
        if each.udp and each.udp.window and (each.spec.round, each.spec.load) == (2, "310")
        else each
        for each in records
    ]
    found = {each.tunnel.name: each for each in packet_instructions(late)}
    assert found["vxlan"].left_out_trials == 2
    assert {payload: [*values] for payload, values in found["vxlan"].by_round.items()} == {18: [1, 3], 1300: [1, 3]}


def test_without_a_fixed_speed_or_a_second_rate_there_is_no_figure() -> None:
    assert packet_instructions(trials(has_fixed_speed=False)) == ()
    assert packet_instructions([each for each in trials() if each.spec.load == "310"]) == ()
    close = [trial("none", 1, 18, pps) for pps in (100.0, 310.0)]
    assert packet_instructions(close) == ()


def test_each_round_has_its_value() -> None:
    found = next(each for each in packet_instructions(trials()) if each.tunnel.name == "vxlan")
    assert {payload: [*values] for payload, values in found.by_round.items()} == {18: [1, 2, 3], 1300: [1, 2, 3]}
    assert found.by_round[18][2] == pytest.approx(9018, rel=1e-4)


@pytest.mark.parametrize("load", ["flat-out", "", "fast", "nan", "inf", "-1", "0"])
def test_a_load_that_is_no_rate_has_no_value(load: str) -> None:
    assert paced_rate_pps(Test.RATE, 18, load) is None
    assert paced_rate_pps(Test.RATE, 18, "60") == 60.0
    own = trial("none", 1, 18, 10.0)
    assert packet_instructions([own, replace(own, spec=replace(own.spec, load=load))]) == ()


@pytest.mark.parametrize("width", [80, 100])
def test_the_first_screen_has_the_instructions_of_each_tunnel(width: int) -> None:
    records = trials(lost_in="vxlan")
    document = compose(make_run(trials_planned=len(records)), records)
    lines = [line.plain for line in first_screen(document, width)]
    text = "\n".join(lines)
    assert len(lines) <= 40
    assert "INSTRUCTIONS OF" in text
    assert "No encrypted tunnel has a number of instructions" in text
    assert "7,009" in text
    assert "packets were lost or waited in 6 trials" in " ".join(text.split())
    assert any(section.title == "Instructions for one packet" for section in document.sections)


def test_the_verdict_names_the_encrypted_tunnel_with_the_fewest_instructions() -> None:
    proof = make_proof("openvpn AES-128-GCM")
    records = [replace(each, proof=proof) if each.spec.tunnel.name.startswith("openvpn") else each for each in trials()]
    (sentence, *_) = compose(make_run(trials_planned=len(records)), records).answer.verdict
    assert sentence.startswith("openvpn AES-128-GCM takes the fewest instructions of the encrypted tunnels")
    assert "1300 bytes: 17.5 times as many" in sentence


def test_a_cost_of_each_byte_that_may_be_0_is_an_upper_bound() -> None:
    each = packet_instructions(trials())[0]
    for low, high, shown in ((-0.088, 0.142, "< 0.14"), (0.05, 0.142, "0.062"), (-0.2, -0.1, "< 0.20")):
        known = replace(each, per_byte=Estimate(-0.062 if low < 0 else 0.062, low, high, 3))
        table = instructions_table([known])
        assert table is not None
        assert table.rows[0].cells[2] == shown
        assert ("upper bound" in table.legend) == shown.startswith("<")


def test_the_json_has_the_instructions_by_tunnel_and_direction() -> None:
    found = json.loads(render(make_run(), trials(), "json"))["packet_instructions"]
    assert [(each["tunnel"]["name"], each["direction"]) for each in found] == [(name, "out") for name in WORK]
    assert found[1]["over_baseline"]["18"]["median"] == pytest.approx(9018 / 7009, rel=1e-4)
    assert found[1]["by_round"]["1300"].keys() == {"1", "2", "3"}
