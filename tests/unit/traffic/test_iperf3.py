"""iperf3: its command lines, and its JSON as figures or as a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.output.samples import sample, samples

from tunnelbench.model.conditions import Content
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import LARGEST_RESULT_BYTES, Direction, TcpTraffic
from tunnelbench.model.result import Interval
from tunnelbench.traffic.iperf3 import (
    KEPT_BYTES,
    Iperf3Result,
    client_command,
    for_store,
    parse,
    server_command,
    together,
)

VERSIONS = sorted({Path(name).parent.name for name in samples("iperf3-*/*.json")})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def both(version: str, direction: Direction) -> tuple[str, str]:
    """Return the output of client and server."""
    return sample(f"{version}/{direction}-client.json"), sample(f"{version}/{direction}-server.json")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("direction", list(Direction))
def test_a_test_of_two_seconds_is_read_from_both_ends(version: str, direction: Direction) -> None:
    client, server = both(version, direction)
    result = parse(client, server, direction)
    assert result.duration_s == pytest.approx(2, abs=0.1)
    assert 0 < result.bytes_received <= result.bytes_sent
    assert result.retransmits is not None
    assert result.settings["client"]["receiver_tcp_congestion"] == "cubic"
    # A server may read what came after the last full interval as one more, of a millisecond.
    assert [interval.start_s for interval in result.intervals[:4]] == pytest.approx([0, 0.5, 1, 1.5], abs=0.1)
    assert result.intervals[-1].end_s == pytest.approx(result.duration_s, abs=0.1)
    assert sum(interval.bytes for interval in result.intervals) == result.bytes_received


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("direction", list(Direction))
def test_the_series_is_the_receivers_with_the_retransmits_of_the_sender(version: str, direction: Direction) -> None:
    client, server = both(version, direction)
    receiver = json.loads(client if direction is Direction.IN else server)
    sender = json.loads(server if direction is Direction.IN else client)
    intervals = parse(client, server, direction).intervals
    found = [interval.bytes for interval in intervals]
    assert found == [entry["sum"]["bytes"] for entry in receiver["intervals"]]
    assert found != [entry["sum"]["bytes"] for entry in sender["intervals"]]
    again = [entry["sum"]["retransmits"] for entry in sender["intervals"]]
    assert [interval.retransmits for interval in intervals] == [*again, None][: len(intervals)]


def lengthened(text: str, readings: int) -> str:
    """Return the output of a test with its first reading repeated."""
    document = json.loads(text)
    return json.dumps({**document, "intervals": document["intervals"][:1] * readings}, indent="\t")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_output_of_a_whole_day_is_read_whole_and_stored_short(version: str) -> None:
    client, server = (lengthened(text, 86_400) for text in both(version, Direction.OUT))
    assert KEPT_BYTES < len(client) < LARGEST_RESULT_BYTES
    result = parse(client, server, Direction.OUT)
    assert len(result.intervals) == 86_400
    stored = for_store(client)
    assert len(stored) < 20_000
    assert json.loads(stored)["intervals"] == "86400 readings are left out"
    assert json.loads(stored)["end"] == json.loads(client)["end"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_short_output_is_stored_as_it_came_without_the_machines_name(version: str) -> None:
    client, _ = both(version, Direction.OUT)
    stored, printed = json.loads(for_store(client)), json.loads(client)
    assert stored.pop("start").keys() == printed.pop("start").keys()
    assert stored == printed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_server_is_reported_in_iperf3s_words(version: str) -> None:
    with pytest.raises(TrialFailed, match="iperf3's client says: unable to connect to server: Connection refused"):
        parse(sample(f"{version}/refused-client.json"), "", Direction.OUT)


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ('{"error": "error - unable to start listener"}', "iperf3's server says: error - unable to start listener"),
        ('{"end": {}}', "iperf3's client says: control socket has closed unexpectedly"),
        ("", "iperf3's client says: control socket has closed unexpectedly"),
    ],
)
def test_a_server_that_ended_names_the_cause(server: str, says: str) -> None:
    with pytest.raises(TrialFailed, match=says):
        parse('{"error": "control socket has closed unexpectedly"}', server, Direction.OUT)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_test_that_was_cut_off_gives_no_figure(version: str) -> None:
    client, server = sample(f"{version}/interrupted-client.json"), sample(f"{version}/interrupted-server.json")
    with pytest.raises(TrialFailed, match="iperf3's client says: interrupt"):
        parse(client, server, Direction.OUT)
    with pytest.raises(TrialFailed, match="iperf3's server says: the client has terminated"):
        parse(both(version, Direction.OUT)[0], server, Direction.OUT)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "printed no JSON: nothing"),
        ("setpriv: failed to execute iperf3\nmore", "printed no JSON: setpriv: failed to execute iperf3"),
        ('{"end": {}} {"end": {}}', "printed no JSON"),
        ("[]", "printed no JSON object"),
        ("{}", "JSON is not as expected"),
        ('{"end": {}}', "JSON is not as expected"),
        ("[" * 200_000, "printed no JSON"),
    ],
)
def test_output_without_a_result_is_reported(text: str, reason: str) -> None:
    with pytest.raises(TrialFailed, match=reason):
        parse(text, "{}", Direction.OUT)


def broken(version: str, path: tuple[str | int, ...], value: Any) -> str:
    """The client's JSON with one value replaced."""
    document = json.loads(sample(f"{version}/out-client.json"))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_test_that_took_no_time_gives_no_figure(seconds: float) -> None:
    client = broken(VERSIONS[0], ("end", "sum_received", "seconds"), seconds)
    with pytest.raises(TrialFailed, match=r"took 0 s|is not a time"):
        parse(client, sample(f"{VERSIONS[0]}/out-server.json"), Direction.OUT)


PATHS = st.sampled_from([
    ("end",),
    ("end", "sum_received"),
    ("end", "sum_received", "seconds"),
    ("end", "sum_received", "bytes"),
    ("end", "sum_sent"),
    ("end", "sum_sent", "bytes"),
    ("end", "sum_sent", "retransmits"),
    ("intervals",),
    ("intervals", 0),
    ("intervals", 0, "sum"),
    ("intervals", 0, "sum", "bytes"),
    ("intervals", 0, "sum", "start"),
    ("error",),
])  # fmt: skip


@settings(deadline=None)
@given(PATHS, JSON | st.sampled_from([float("inf"), float("nan"), "1e999", 10**400]))
def test_any_value_in_any_place_gives_figures_or_a_reason(path: tuple[str | int, ...], value: Any) -> None:
    client = broken(VERSIONS[0], path, value)
    server = sample(f"{VERSIONS[0]}/out-server.json")
    for direction in Direction:
        try:
            result = parse(client, server, direction)
        except TrialFailed:
            continue
        assert 0 < result.duration_s < float("inf")
        assert isinstance(result.bytes_received, int)
        assert result.retransmits is None or isinstance(result.retransmits, int)
        assert all(isinstance(interval.bytes, int) for interval in result.intervals)


@given(st.text() | JSON.map(json.dumps), st.text() | JSON.map(json.dumps), st.sampled_from(Direction))
def test_any_output_gives_figures_or_a_reason(client: str, server: str, direction: Direction) -> None:
    with pytest.raises(TrialFailed):
        parse(client, server, direction)


def test_the_payload_is_set_through_the_mss_with_room_for_time_stamps() -> None:
    argv = client_command("198.18.4.1", TcpTraffic(duration_s=7, interval_s=0.5, streams=3), 1448, Direction.OUT)
    assert " ".join(argv) == (
        "iperf3 --client 198.18.4.1 --port 5201 --json --time 7 --interval 0.5 --set-mss 1460 --length 131072 "
        "--parallel 3 --congestion cubic"
    )


def test_in_is_iperf3s_reverse_mode() -> None:
    assert "--reverse" in client_command("198.18.4.1", TcpTraffic(), 76, Direction.IN)
    assert "--reverse" not in client_command("198.18.4.1", TcpTraffic(), 76, Direction.OUT)


def test_the_data_are_random_unless_the_plan_says_otherwise() -> None:
    argv = client_command("198.18.4.1", TcpTraffic(), 76, Direction.OUT, content=Content.REPEATING)
    assert "--repeating-payload" in argv
    assert "--repeating-payload" not in client_command("198.18.4.1", TcpTraffic(), 76, Direction.OUT)


def test_the_sizes_of_buffers_and_writes_are_those_of_the_plan() -> None:
    argv = client_command("198.18.4.1", TcpTraffic(), 76, Direction.IN, window_bytes=65_536, write_bytes=8192)
    assert argv[argv.index("--window") + 1] == "65536"
    assert argv[argv.index("--length") + 1] == "8192"
    assert "--window" not in client_command("198.18.4.1", TcpTraffic(), 76, Direction.IN)


def test_buffers_that_the_kernel_does_not_give_are_reported_with_its_limits() -> None:
    refused = json.dumps({"start": {}, "error": "error - socket buffer size not set correctly"})
    with pytest.raises(TrialFailed, match=r"not set correctly; Linux limits window_bytes by net\.core\.wmem_max and"):
        parse(refused, "{}", Direction.OUT)


def test_the_server_serves_one_test_on_one_address() -> None:
    assert " ".join(server_command("198.18.4.1", 1.0)) == (
        "iperf3 --server --one-off --json --interval 1 --bind 198.18.4.1 --port 5201"
    )


def test_a_client_of_several_has_a_port_and_a_device_of_its_own() -> None:
    argv = client_command("198.18.4.1", TcpTraffic(), 76, Direction.IN, port=5203, device="tun2")
    assert argv[argv.index("--port") + 1] == "5203"
    assert argv[argv.index("--bind-dev") + 1] == "tun2"
    assert "--bind-dev" not in client_command("198.18.4.1", TcpTraffic(), 76, Direction.IN)


def test_tests_at_the_same_time_are_summed_over_the_time_of_all() -> None:
    first = Iperf3Result(2.0, 1000, 1100, 1, (Interval(0, 1, 600, 1), Interval(1, 2, 400, 0)), {"client": {"a": 1}})
    other = Iperf3Result(2.1, 500, 500, 2, (Interval(0, 1, 500, 2),), {"client": {"a": 2}})
    found = together([first, other], [7.0, 7.4])
    assert (found.duration_s, found.bytes_received, found.bytes_sent, found.retransmits) == (2.5, 1500, 1600, 3)
    assert together([first, other], [7.0, 6.8]).duration_s == pytest.approx(2.2), "the last to start ended last"
    assert found.intervals == (Interval(0, 1, 1100, 3),)
    assert found.settings == {"client 1": {"a": 1}, "client 2": {"a": 2}}
    assert together([first], [7.0]) is first
    assert together([first, replace(other, retransmits=None)], [7.0, 7.0]).retransmits is None
