"""The places of a router's instructions, as a list and as a flame graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.unit.builders import make_records, make_run

from tunnelbench.analysis.instruction_places import MOST_REPORTED_PLACES, instruction_places
from tunnelbench.model.plan import CALIBRATION_KIND
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.charts import charts
from tunnelbench.report.document import compose
from tunnelbench.report.render import render

HOSTILE = "kernel/<script>/\x1b[2J"
SHARES = {"openvpn/libcrypto.so.3": 0.6, "kernel/vmlinux/ip_forward": 0.2, "kernel/others": 0.15, HOSTILE: 0.05}


def profiled(records: tuple[TrialRecord, ...]) -> tuple[TrialRecord, ...]:
    """Return the trials as if a plugin had counted; from round to round one place gets 1 % more of the instructions."""
    found = []
    for record in records:
        if record.tcp:
            more = record.spec.round / 100
            places = SHARES | {"kernel/others": 0.15 - more, "openvpn/libcrypto.so.3": 0.6 + more}
            window = replace(record.tcp.window, router_instruction_shares=places)
            record = replace(record, measurement=replace(record.tcp, window=window))  # noqa: PLW2901
        found.append(record)
    return tuple(found)


def rounds_of_one_row(every: Iterable[dict[str, float]]) -> list[TrialRecord]:
    """Return trials of one tunnel, each with its shares."""
    base = next(each for each in make_records(1) if each.tcp and each.counts and each.spec.round)
    assert base.tcp is not None
    records = []
    for number, shares in enumerate(every, start=1):
        tcp = replace(base.tcp, window=replace(base.tcp.window, router_instruction_shares=shares))
        records.append(replace(base, spec=replace(base.spec, sequence=number, round=number), measurement=tcp))
    return records


def test_each_row_has_the_median_over_its_trials() -> None:
    records = profiled(make_records(3))
    found = instruction_places(records)
    rows = {
        (record.spec.tunnel.name, record.spec.payload_bytes, record.spec.direction)
        for record in records
        if record.counts and record.tcp and record.spec.tunnel.kind != CALIBRATION_KIND
    }
    assert {(each.tunnel.name, each.payload_bytes, each.direction) for each in found} == rows
    whole = next(each for each in found if each.trials == 3)
    assert whole.shares["openvpn/libcrypto.so.3"] == pytest.approx(0.62)
    assert next(iter(whole.shares)) == "openvpn/libcrypto.so.3"
    assert instruction_places(make_records(3)) == ()


def test_trials_of_which_each_has_other_places_take_no_quadratic_time() -> None:
    """A look at every trial for every place of 2,000 trials of 500 places each takes some ten minutes."""
    shared = {"kernel/vmlinux/shared": 0.5}
    (found,) = instruction_places(
        rounds_of_one_row(shared | {f"p/{number}-{n}": 1e-3 for n in range(500)} for number in range(2000))
    )
    assert len(found.shares) == MOST_REPORTED_PLACES
    assert list(found.shares.items())[:2] == [("kernel/vmlinux/shared", 0.5), ("p/0-0", 0.0)]


def test_a_place_that_half_of_the_trials_lack_has_half_of_its_share() -> None:
    every = ({"a": 0.2, "b": 1.0}, {"b": 1.0}, {"b": 1.0, "c": 0.4}, {"a": 0.4, "b": 1.0})
    (found,) = instruction_places(rounds_of_one_row(every))
    assert found.shares == pytest.approx({"b": 1.0, "a": 0.1, "c": 0.0})


def test_the_list_and_the_flame_graph_have_the_shares() -> None:
    run, records = make_run(), profiled(make_records(3))
    text = render(run, records, "terminal", 100)
    assert "Where the instructions go: " in text
    assert "62.0% openvpn/libcrypto.so.3" in text
    assert "\x1b" not in text
    drawn = [chart for chart in charts(compose(run, records)) if chart.name.startswith("instructions-")]
    tunnels = {(each.tunnel.name, each.direction) for each in instruction_places(records)}
    assert len(drawn) == len(tunnels)
    for chart in drawn:
        values = chart.spec["data"]["values"]
        assert sum(each["end"] - each["start"] for each in values if each["level"] == 0) == pytest.approx(1, abs=1e-4)
        kernel = next(each for each in values if each["place"] == "kernel")
        inside = [each for each in values if each["level"] == 1 and each["place"].startswith("kernel / ")]
        assert {each["place"] for each in inside} >= {"kernel / vmlinux", "kernel / others"}
        assert all(kernel["start"] <= each["start"] <= each["end"] <= kernel["end"] + 1e-4 for each in inside)
    assert "kernel/<script>" not in render(run, records, "html")
