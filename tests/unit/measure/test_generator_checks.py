"""The figures that iperf3 reports, against counts of the path and of the clock."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.output.samples import sample
from tests.unit.builders import make_tcp

from tunnelbench.measure.generator_checks import iperf3_figures, iperf3_settings
from tunnelbench.model.plan import Direction, TcpTraffic
from tunnelbench.model.result import CONTROL_PACKETS, Check, Verdict
from tunnelbench.traffic.iperf3 import parse, planned_settings

OK, DOUBTFUL = Verdict.OK, Verdict.DOUBTFUL
CLEAN = replace(make_tcp(), bracket_s=10.2)
PACKETS = CLEAN.counters.data_packets
SAID = f"iperf3 reports {CLEAN.bytes_received} bytes in 10.00 s; its test was planned for 10 s"


@pytest.mark.parametrize(
    ("reported_s", "verdict"), [(10.0, OK), (9.51, OK), (9.49, DOUBTFUL), (10.19, OK), (10.21, DOUBTFUL)]
)
def test_the_time_that_iperf3_reports_fits_the_plan_and_the_clock(reported_s: float, verdict: Verdict) -> None:
    check = iperf3_figures(replace(CLEAN, duration_s=reported_s), 10)
    assert (check.name, check.verdict, check.rule) == ("iperf3-figures", verdict, 16)
    assert check.reason.endswith("its time is wrong") is (verdict is DOUBTFUL), check.reason


@pytest.mark.parametrize(("share", "verdict"), [(1.0, OK), (0.932, OK), (0.93, DOUBTFUL), (0.5, DOUBTFUL)])
def test_the_bytes_that_iperf3_reports_are_those_that_arrived_in_its_time(share: float, verdict: Verdict) -> None:
    arrived = PACKETS - (CLEAN.retransmits or 0) - CONTROL_PACKETS
    check = iperf3_figures(replace(CLEAN, bytes_received=round(arrived * 1448 * share)), 10)
    assert check.verdict is verdict, check.reason
    assert check.reason.endswith("it reports too few bytes") is (verdict is DOUBTFUL)


@pytest.mark.parametrize(("share", "verdict"), [(1.0, OK), (0.93, DOUBTFUL)])
@pytest.mark.parametrize("headers_bytes", [66, 98])
def test_segments_that_short_writes_do_not_fill_carry_what_their_bytes_say(
    headers_bytes: int, share: float, verdict: Verdict
) -> None:
    counters = replace(CLEAN.counters, data_bytes=PACKETS * (headers_bytes + 700))
    tcp = replace(CLEAN, counters=counters, bytes_received=round(PACKETS * 700 * share))
    assert iperf3_figures(tcp, 10, 200, headers_bytes).verdict is verdict
    assert iperf3_figures(tcp, 10).verdict is DOUBTFUL


@pytest.mark.parametrize(("share", "verdict"), [(0.8, OK), (0.78, DOUBTFUL)])
def test_a_device_that_counts_no_headers_leaves_the_bound_of_the_writes(share: float, verdict: Verdict) -> None:
    arrived = PACKETS - (CLEAN.retransmits or 0) - CONTROL_PACKETS
    counters = replace(CLEAN.counters, data_bytes=0)
    tcp = replace(CLEAN, counters=counters, bytes_received=round(arrived * 1448 * share))
    assert iperf3_figures(tcp, 10, 8192).verdict is verdict
    assert iperf3_figures(tcp, 10).verdict is DOUBTFUL


def test_both_figures_may_be_wrong() -> None:
    wrong = replace(CLEAN, duration_s=20.0, bytes_received=CLEAN.bytes_received // 3)
    assert iperf3_figures(wrong, 10).reason.endswith(": its time is wrong, and it reports too few bytes")


def test_segments_that_were_sent_again_are_not_expected_twice() -> None:
    counters = CLEAN.counters
    counters = replace(counters, data_packets=round(PACKETS * 1.5), data_bytes=round(counters.data_bytes * 1.5))
    assert iperf3_figures(replace(CLEAN, counters=counters), 10).verdict is DOUBTFUL
    assert iperf3_figures(replace(CLEAN, counters=counters, retransmits=PACKETS // 2), 10).verdict is OK


@pytest.mark.parametrize("mss_bytes", [None, 0])
def test_without_a_segment_size_only_the_time_is_checked(mss_bytes: int | None) -> None:
    check = iperf3_figures(replace(CLEAN, mss_bytes=mss_bytes), 10)
    assert (check.verdict, check.reason) == (OK, f"{SAID}, and started and ended within 10.20 s")


def settings_of(direction: Direction, changes: dict[str, Any], end: str = "client", load: str = "") -> Check:
    """Check real output of a test of two seconds, of which one end reports other settings."""
    outputs = {name: json.loads(sample(f"iperf3-3.12/{direction}-{name}.json")) for name in ("client", "server")}
    for name, value in changes.items():
        for part in ("start", "end"):
            if name in outputs[end][part]:
                outputs[end][part][name] = value
        outputs[end]["start"]["test_start"][name] = value
    result = parse(json.dumps(outputs["client"]), json.dumps(outputs["server"]), direction)
    traffic = TcpTraffic(duration_s=2, interval_s=0.5)
    return iperf3_settings(planned_settings(traffic, 1448, direction, load), result.settings)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_test_with_the_settings_of_the_plan_is_as_planned(direction: Direction) -> None:
    check = settings_of(direction, {})
    assert (check.name, check.verdict, check.rule) == ("iperf3-settings", OK, 16), check.reason


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protocol", "UDP"),
        ("num_streams", 2),
        ("duration", 1),
        ("reverse", 1),
        ("bidir", 1),
        ("blksize", 8192),
        ("omit", 1),
        ("bytes", 1_000_000),
        ("target_bitrate", 50_000_000),
        ("tcp_mss", 1400),
        ("connected", []),
    ],
)
def test_another_test_than_the_planned_one_is_void(end: str, name: str, value: object) -> None:
    check = settings_of(Direction.OUT, {name: value}, end)
    assert check.verdict is Verdict.VOID, check.reason
    assert f"on the {end} (planned: " in check.reason


def test_another_congestion_control_is_void() -> None:
    for end, name in (("client", "sender"), ("server", "receiver")):
        check = settings_of(Direction.OUT, {f"{name}_tcp_congestion": "reno"}, end)
        assert check.reason.endswith(f"{name}_tcp_congestion reno on the {end} (planned: cubic)")


def test_a_pace_that_the_plan_asks_for_must_be_reported() -> None:
    assert settings_of(Direction.OUT, {}, load="50").verdict is Verdict.VOID


def with_buffers(text: str, window_bytes: int, actual_bytes: int) -> str:
    """Return the output of one end with other sizes of its socket buffers."""
    document = json.loads(text)
    document["start"] |= {
        "sock_bufsize": window_bytes,
        "sndbuf_actual": actual_bytes,
        "rcvbuf_actual": actual_bytes,
    }
    return json.dumps(document)


@pytest.mark.parametrize(
    ("window_bytes", "actual_bytes", "verdict"),
    [(65_536, 131_072, OK), (65_536, 98_304, Verdict.VOID), (0, 131_072, Verdict.VOID)],
)
def test_both_ends_must_have_the_buffers_of_the_plan(window_bytes: int, actual_bytes: int, verdict: Verdict) -> None:
    client, server = (sample(f"iperf3-3.12/out-{end}.json") for end in ("client", "server"))
    result = parse(client, with_buffers(server, window_bytes, actual_bytes), Direction.OUT)
    planned = planned_settings(TcpTraffic(duration_s=2), 1448, Direction.OUT, window_bytes=65_536)
    reported = {"server": result.settings["server"]}
    check = iperf3_settings(planned, reported)
    assert check.verdict is verdict, check.reason
    assert ("net.core.rmem_max" in check.reason) is (actual_bytes != 131_072), check.reason
    assert iperf3_settings(planned, result.settings).verdict is Verdict.VOID  # the client has those of the system


def test_a_version_that_reports_no_buffers_cannot_prove_those_of_the_plan() -> None:
    planned = planned_settings(TcpTraffic(), 1448, Direction.OUT, window_bytes=65_536)
    found = {name: value for name, value in planned.items() if name != "rcvbuf_actual"}
    assert iperf3_settings(planned, {"client": planned}).verdict is OK
    assert "rcvbuf_actual unknown on the client (planned: 131072)" in iperf3_settings(planned, {"client": found}).reason


def test_writes_of_another_size_are_void_if_the_plan_does_not_ask_for_them() -> None:
    planned = planned_settings(TcpTraffic(), 1448, Direction.OUT, write_bytes=8192)
    assert planned["blksize"] == 8192
    assert iperf3_settings(planned, {"client": planned}).verdict is OK
    assert iperf3_settings(planned, {"client": {**planned, "blksize": 131_072}}).verdict is Verdict.VOID


def test_a_setting_that_every_version_reports_must_be_there() -> None:
    planned = planned_settings(TcpTraffic(), 1448, Direction.OUT)
    assert "num_streams unknown on the server (planned: 1)" in iperf3_settings(planned, {"server": {}}).reason
    old = {name: planned[name] for name in ("protocol", "num_streams", "duration", "reverse", "connections")}
    assert iperf3_settings(planned, {"server": old}).verdict is OK
