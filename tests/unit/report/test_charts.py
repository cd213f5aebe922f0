"""Charts say in words and figures what they draw, and draw what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.unit import own_parts_run
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import hostile_run
from tests.unit.soak_builders import make_chunks, make_reading, make_soak, sample_soak
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.counters import CpuInterval
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Interval, TrialRecord
from tunnelbench.model.udp import UdpInterval
from tunnelbench.report.charts import charts
from tunnelbench.report.charts.answer import answer_charts
from tunnelbench.report.charts.chart import PALETTE, Chart, PageSection, Spec, completed
from tunnelbench.report.charts.series import MOST_POINTS, MOST_SERIES_ROWS
from tunnelbench.report.document import SoakReport, compose

WITHOUT_TUNNEL = (
    "Without a tunnel: 2,364 Mbit/s down and 2,490 up; "
    "100 Mbit/s take 4.0 % of one CPU of the router for traffic down and 4.0 % up."
)


def drawn(records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed] = ()) -> dict[str, Chart]:
    found = charts(compose(make_run(), records, None, speeds))
    assert len({chart.name for chart in found}) == len(found)
    return {chart.name: chart for chart in found}


def only_series(records: Sequence[TrialRecord]) -> Chart:
    (chart,) = [chart for name, chart in drawn(records).items() if name.startswith("series-")]
    return chart


TCP = drawn(make_records(), make_speeds())
UDP = drawn(make_udp_records())
PARTS = drawn(own_parts_run.run(noise=0.01), own_parts_run.SPEEDS)
ALL = {
    f"{run} {name}": chart for run, own in (("tcp", TCP), ("udp", UDP), ("parts", PARTS)) for name, chart in own.items()
}


def in_a_file(chart: Chart) -> Spec:
    return completed(chart, ink="black", width=640)


def values(spec: Any) -> list[Any]:
    """Every datum of a specification."""
    if isinstance(spec, dict):
        own = spec.get("values", []) if isinstance(spec.get("values"), list) else []
        return own + [datum for part in spec.values() for datum in values(part)]
    return [datum for part in spec for datum in values(part)] if isinstance(spec, list) else []


def with_series(record: TrialRecord, seconds: int = 4) -> TrialRecord:
    assert record.tcp is not None
    intervals = tuple(Interval(float(s), s + 1.0, 125_000 * (s + 1), 0) for s in range(seconds))
    cpu = (CpuInterval(-0.5, 0.0, 0.05), *(CpuInterval(float(s), s + 1.0, 0.9) for s in range(seconds)))
    window = replace(record.tcp.window, intervals=cpu)
    return replace(record, measurement=replace(record.tcp, intervals=intervals, window=window))


def test_a_run_has_charts_of_all_that_it_has_figures_of() -> None:
    assert {chart.place for chart in ALL.values()} == set(PageSection)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_chart_is_described_in_words_and_figures(name: str) -> None:
    chart = ALL[name]
    assert re.fullmatch(r"[a-z0-9-]+", chart.name)
    assert chart.sentence.endswith(".")
    assert chart.rows
    assert {len(row) for row in chart.rows} == {len(chart.header)}


@pytest.mark.parametrize("name", sorted(ALL))
def test_no_chart_fetches_anything_or_needs_more_than_its_data(name: str) -> None:
    text = json.dumps(in_a_file(ALL[name]), allow_nan=False)
    assert text.count("http") == 1  # the name of the schema
    assert '"url"' not in text
    assert values(in_a_file(ALL[name]))


def test_the_first_chart_has_the_encrypted_tunnels_and_the_baseline_as_text() -> None:
    chart = TCP["answer"]
    cpu, rates = chart.spec["hconcat"]
    for part in (cpu, rates):
        names = list(dict.fromkeys(datum["tunnel"] for datum in values(part) if "tunnel" in datum))
        assert names == ["wireguard-go", "openvpn AES-128-GCM", "tinc AES-128-CBC, SHA-1"]
    assert WITHOUT_TUNNEL in chart.sentence
    assert "A thin line goes from the smallest to the largest trial." in chart.sentence
    assert "lower bounds" in chart.sentence
    assert {row[0] for row in chart.rows} == {"wireguard-go", "openvpn AES-128-GCM", "tinc AES-128-CBC, SHA-1"}


def test_the_first_chart_of_udp_has_the_rate_of_the_encrypted_tunnels() -> None:
    chart = UDP["answer"]
    assert {row[0] for row in chart.rows} == {"openvpn AES-128-GCM"}
    assert {row[1] for row in chart.rows} == {"up"}  # down was not measured
    assert "Without a tunnel: 307 thousand packets/s up." in chart.sentence


def test_the_first_chart_marks_a_rate_that_a_soak_refutes() -> None:
    soak = make_soak()
    spec = replace(soak.spec, payload_bytes=18)
    chunks = [(1, chunk) for chunk in make_chunks([make_reading(second, 900, 100) for second in range(10)])]
    report = SoakReport(soak, summarise_soak(replace(soak, spec=spec), chunks), lambda: chunks)
    document = compose(make_run(), make_udp_records(), soaks=[report])
    (chart,) = answer_charts(document)
    assert "Refuted: a longer trial" in chart.sentence
    assert {row[-1] for row in chart.rows} == {"refuted"}


def test_a_run_without_an_encrypted_tunnel_says_so_in_its_first_chart() -> None:
    records = [record for record in make_records() if record.spec.tunnel.name in {"none", "vxlan"}]
    chart = drawn(records)["answer"]
    assert chart.title.startswith("Tunnels, none of them encrypted")
    assert {row[0] for row in chart.rows} == {"vxlan"}


def test_bars_have_the_medians_of_the_table_with_their_spread() -> None:
    chart = TCP["cost-tcp-1448"]
    rows = {(row[0], row[1]): row[2:5] for row in chart.rows}
    row = next(
        r
        for r in compose(make_run(), make_records()).rows
        if (r.tunnel.name, r.payload_bytes, r.direction) == ("vxlan", 1448, "in")
    )
    assert row.figures is not None
    cost = row.figures.cpu_s_per_million_packets
    assert cost is not None
    assert rows["vxlan", "down"] == tuple(f"{value:.2f}" for value in (cost.median, cost.low, cost.high))
    (datum,) = [each for each in values(chart.spec) if (each["tunnel"], each["group"]) == ("vxlan", "down")]
    assert datum["value"] == pytest.approx(cost.median, rel=1e-3)
    assert datum["low"] <= datum["value"] <= datum["high"]


def test_a_row_without_figures_says_why_in_place_of_a_bar() -> None:
    data = values(TCP["throughput-tcp-1448"].spec)
    (refused,) = [each for each in data if (each["tunnel"], each["group"]) == ("tinc BF-CBC, SHA-1", "down")]
    assert refused["label"] == "down refused"
    assert "value" not in refused


def test_a_lower_bound_is_pale_striped_and_has_a_mark() -> None:
    data = {(each["tunnel"], each["group"]): each for each in values(TCP["throughput-tcp-1448"].spec)}
    assert data["openvpn AES-128-GCM", "down"]["limited"]
    assert data["openvpn AES-128-GCM", "down"]["label"].startswith("down ≥ ")
    assert "limited" not in data["vxlan", "down"]
    assert "4 of 12 are lower bounds, which the testers limited (striped, ≥)" in TCP["throughput-tcp-1448"].sentence
    assert not any("limited" in each for each in values(TCP["cost-tcp-1448"].spec))  # a cost holds there, too
    striped = [layer["mark"] for layer in TCP["throughput-tcp-1448"].spec["layer"] if "transform" in layer]
    assert [mark["strokeDash"] for mark in striped] == [[3, 3]]
    assert not any("transform" in layer for layer in TCP["cost-tcp-1448"].spec["layer"])


def test_an_ndr_that_did_not_hold_says_so_on_its_bar() -> None:
    found = [chart for name, chart in ALL.items() if name.startswith("udp packets-udp-search")]
    labels = [each["label"] for chart in found for each in values(chart.spec) if "label" in each]
    refuted = [label for label in labels if "refuted" in label]
    assert refuted
    assert all("NDR" in label for label in refuted)
    assert len(refuted) < len(labels)
    assert all("refuted" in chart.sentence for chart in found)


def test_the_limit_of_the_line_is_drawn_where_it_has_one() -> None:
    assert not any("limit" in each for each in values(TCP["throughput-tcp-1448"].spec))
    records = [
        replace(record, measurement=replace(record.tcp, physical_limit_bps=94.15e6))
        for record in make_records()
        if record.tcp
    ]
    chart = drawn(records)["throughput-tcp-1448"]
    assert {each["limit"] for each in values(chart.spec) if "limit" in each} == {94.15}
    assert "what the link can carry" in chart.sentence
    assert chart.rows[0][5] == "94.2"


def test_the_testers_alone_are_no_bar() -> None:
    assert not any("testers" in row[0] for row in TCP["throughput-tcp-1448"].rows)


def test_a_series_begins_before_the_test_and_has_the_routers_cpu_below_it() -> None:
    record = with_series(make_records()[4])
    chart = only_series([record])
    traffic, cpu = chart.spec["vconcat"]
    assert [each["v"] for each in values(traffic) if "v" in each] == [1, 2, 3, 4, 4]  # Mbit/s, and the last one's end
    assert [each["v"] for each in values(cpu) if "v" in each] == [10, 90, 90, 90, 90, 90]  # %
    marks = [each for part in (traffic, cpu) for each in values(part) if "said" in each]
    assert marks == [{"t": 0, "said": "start of the test"}] * 2
    domains = {json.dumps(part["layer"][0]["encoding"]["x"]["scale"]) for part in (traffic, cpu)}
    assert domains == {'{"domain": [-0.5, 4.0], "nice": false}'}
    assert "before the test 10.0%" in chart.sentence
    assert "router CPU 90.0% to 90.0% busy" in chart.sentence


def test_a_series_is_named_after_its_tunnel_and_its_trial() -> None:
    names = {name for name in UDP if name.startswith("series-openvpn")}
    assert "series-openvpn-aes-128-gcm-18-up-rate-flat-out" in names
    assert "series-openvpn-aes-128-gcm-imix-up-latency-50" in names


def test_series_of_tunnels_with_names_alike_have_names_of_their_own() -> None:
    records = [with_series(record) for record in make_records()[4:6]]
    specs = [
        replace(record.spec, payload_bytes=9, direction=Direction.IN, tunnel=replace(record.spec.tunnel, name=name))
        for record, name in zip(records, ("a b", "a-b"), strict=True)
    ]
    renamed = [replace(record, spec=spec) for record, spec in zip(records, specs, strict=True)]
    names = {name for name in drawn(renamed) if name.startswith("series-")}
    assert names == {"series-a-b-9-down", "series-a-b-9-down--2"}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_chart_shows_its_figures_under_the_pointer(name: str) -> None:
    def tips(spec: Any) -> list[Spec]:
        parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
        own = spec.get("tooltip", []) if isinstance(spec, dict) else []
        return own + [tip for part in parts for tip in tips(part) if part is not own]

    shown = tips(ALL[name].spec)
    assert len({tip["title"] for tip in shown}) >= 2
    fields = {key for datum in values(ALL[name].spec) for key in datum} | {"low", "high", "limit"}
    assert {tip["field"] for tip in shown} <= fields


def test_what_filters_choose_by_is_in_the_data_of_a_chart() -> None:
    for name, chart in ALL.items():
        if "ciphers" in name or "parts-" in name:
            continue
        data = [datum for datum in values(chart.spec) if {"name", "tunnel"} & datum.keys()]
        assert chart.tunnel or all(datum["tunnel"] for datum in data), name
        assert chart.direction or all(datum["direction"] in {"down", "up"} for datum in data), name
        assert chart.payload or name.endswith((" answer", " cost-model")), name


def test_a_last_reading_of_a_moment_is_no_rate_of_its_own() -> None:
    record = with_series(make_records()[4])
    assert record.tcp is not None
    sliver = replace(record.tcp.intervals[-1], start_s=4.0, end_s=4.001, bytes=125_000)
    tcp = replace(record.tcp, intervals=(*record.tcp.intervals, sliver))
    chart = only_series([replace(record, measurement=tcp)])
    rates = [each["v"] for each in values(chart.spec["vconcat"][0]) if "v" in each]
    assert rates == [1, 2, 3, pytest.approx(5 / 1.001, rel=1e-3), pytest.approx(5 / 1.001, rel=1e-3)]


def test_of_several_trials_the_middle_one_is_shown() -> None:
    records = [with_series(record) for record in make_records() if record.spec.tunnel.name == "vxlan" and record.tcp]
    own = [record for record in records if (record.spec.payload_bytes, record.spec.direction) == (1448, "in")]
    middle = sorted(own, key=lambda record: record.tcp.throughput_bps if record.tcp else 0)[1]
    assert only_series(own).sentence.startswith(f"round {middle.spec.round}, the median of 3 trials that count")


def test_a_long_series_is_thinned_out_but_loses_nothing_of_its_sum() -> None:
    chart = only_series([with_series(make_records()[4], 3600)])
    points = [each for each in values(chart.spec["vconcat"][0]) if "v" in each]
    assert 100 < len(points) <= MOST_POINTS + 1
    held = sum(before["v"] * (after["t"] - before["t"]) for before, after in pairwise(points))
    assert held == pytest.approx(3600 * 3601 / 2, rel=1e-3)
    assert len(chart.rows) <= 2 * MOST_SERIES_ROWS


def test_lost_packets_are_marked_in_a_series() -> None:
    record = next(r for r in make_udp_records() if r.udp and r.udp.counts and r.spec.tunnel.name == "none")
    assert record.udp is not None
    assert record.udp.counts is not None
    intervals = (UdpInterval(0, 1, 100, 100), UdpInterval(1, 2, 100, 93, 7), UdpInterval(2, 3, 100, 100))
    counts = replace(record.udp.counts, intervals=intervals)
    chart = only_series([replace(record, measurement=replace(record.udp, counts=counts))])
    assert [each["t"] for each in values(chart.spec) if "lost" in each] == [1.5]
    assert "7 packets lost" in chart.sentence


def test_a_soak_is_drawn_with_its_losses_and_a_blank_where_nobody_measured() -> None:
    soak, chunks = sample_soak()
    report = SoakReport(soak, summarise_soak(soak, chunks), lambda: chunks)
    (chart,) = charts(compose(make_run(), [], soaks=[report]))
    assert chart.name == "soak-openvpn-aes-128-gcm-1400-up-soak-90"
    traffic, cpu = chart.spec["vconcat"]
    points = [(each["t"], each["v"]) for each in values(traffic) if "v" in each]
    assert points[9:14] == [(9, 1000), (10, 1000), (10, None), (30, 1000), (31, 1000)]
    assert points[3] == (3, 970)
    assert [each["t"] for each in values(traffic) if "lost" in each] == [3.5]
    assert {each["v"] for each in values(cpu) if "v" in each} == {25, None}
    assert "30 packets lost" in chart.sentence


def test_delays_are_drawn_at_each_load_one_colour_a_tunnel_and_one_dash_a_percentile() -> None:
    chart = UDP["delay-18-up"]
    assert [row[0] for row in chart.rows][2:4] == ["none, 50 %", "none, 99 %"]
    assert chart.header[1:] == ("idle [µs]", "10% [µs]", "50% [µs]", "90% [µs]")
    colours = chart.spec["encoding"]["color"]["scale"]["range"]
    dashes = chart.spec["layer"][0]["encoding"]["strokeDash"]["scale"]["range"]
    assert colours[:4] == [PALETTE[0], PALETTE[0], PALETTE[1], PALETTE[1]]
    assert dashes[0] == dashes[2] != dashes[1]


def test_a_loss_curve_names_the_lowest_load_that_lost() -> None:
    assert "vxlan 169,400 packets/s" in UDP["loss-18-up"].sentence


def test_costs_below_zero_are_not_drawn_and_that_is_said() -> None:
    chart = PARTS["cost-model"]
    data = values(chart.spec)
    assert data
    assert all(each["value"] >= 0 for each in data)
    sentence = drawn(make_records())["cost-model"].sentence
    assert "Not drawn: 8 with a part below zero" in sentence
    assert "a line through two sizes cannot be checked" in sentence


def test_parts_stand_beside_what_is_calculated_from_the_speed_of_the_cipher() -> None:
    rows = {row[0]: row[1:] for row in PARTS["parts-openvpn"].rows}
    by_difference, by_calculation = rows["cipher AES-128-CBC, 1448 up"]
    assert float(by_difference.split("+-")[0]) == pytest.approx(2.5, rel=0.3)
    assert float(by_calculation) == pytest.approx(1.4, rel=0.05)


def test_a_cipher_that_could_not_be_measured_is_no_line() -> None:
    lines = ["aes-128-gcm, as it comes", "aes-128-gcm, AES instructions masked"]
    assert [row[0] for row in TCP["ciphers-1-1"].rows] == lines


def without_data(spec: Any) -> Any:
    """A specification without its data, at any depth."""
    if isinstance(spec, dict):
        return {key: without_data(part) for key, part in spec.items() if key != "data"}
    return [without_data(part) for part in spec] if isinstance(spec, list) else spec


def test_hostile_names_are_data_and_nothing_else() -> None:
    run, records = hostile_run()
    for chart in charts(compose(run, records)):
        assert re.fullmatch(r"[a-z0-9-]+", chart.name)
        spec = in_a_file(chart)
        outside = {key: part for key, part in spec.items() if key not in {"description", "title"}}
        assert "alert(1)" not in json.dumps(without_data(outside))
