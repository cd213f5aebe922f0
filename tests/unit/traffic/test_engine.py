"""The packet engine: where it is, its command lines, and its lines as figures or as a reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.output.samples import sample, samples

from tunnelbench.model.conditions import Content
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.udp import UdpCounts
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import SenderLoad, far_end_command, locate, parse, parse_lines, sender_command

VERSIONS = sorted({Path(name).parent.name for name in samples("tunnelbench-engine-*/*.jsonl")})
LOADS = {
    "paced": SenderLoad("18", 1.0, 1000.0, interval_s=0.25),
    "delays": SenderLoad("64", 1.0, 1000.0, takes_delays=True, interval_s=0.25),
    "echo": SenderLoad("18", 1.0, 1000.0, is_echo=True, takes_delays=True, interval_s=0.25),
    "burst": SenderLoad("imix", burst_packets=24, interval_s=0.25),
}


def both(version: str, name: str) -> tuple[str, str]:
    """Return the output of sender and far end."""
    return sample(f"{version}/{name}-sender.jsonl"), sample(f"{version}/{name}-far.jsonl")


def counts_of(name: str, version: str = VERSIONS[-1]) -> UdpCounts:
    return parse(*both(version, name), LOADS[name])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", LOADS)
def test_nothing_is_lost_on_a_loopback_device(version: str, name: str) -> None:
    counts = counts_of(name, version)
    assert counts.received_packets == counts.sent_packets > 0
    assert counts.received_bytes == counts.sent_bytes
    assert counts.path_lost_packets == counts.lost_packets == 0
    assert counts.duplicated_packets == counts.corrupted_packets == counts.foreign_packets == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["paced", "delays", "echo"])
def test_the_series_adds_up_to_the_whole(version: str, name: str) -> None:
    counts = counts_of(name, version)
    assert sum(interval.sent_packets for interval in counts.intervals) == counts.sent_packets
    assert sum(interval.received_packets for interval in counts.intervals) == counts.received_packets
    assert [interval.start_s for interval in counts.intervals[:4]] == pytest.approx([0, 0.25, 0.5, 0.75], abs=0.01)
    assert (counts.intended_pps, counts.intended_packets) == (1000.0, 1000)
    assert counts.sending_s == pytest.approx(1, abs=0.05)


def test_an_echo_has_the_number_of_packets_that_reached_the_far_end() -> None:
    assert counts_of("echo").reached_packets == counts_of("echo").sent_packets
    assert counts_of("paced").reached_packets is None


def test_delays_are_known_only_if_packets_have_times_of_their_own() -> None:
    assert counts_of("paced").delay is None
    one_way, there_and_back = counts_of("delays").delay, counts_of("echo").delay
    assert one_way is not None
    assert there_and_back is not None
    assert 0 < one_way.p50_ns < there_and_back.p50_ns < there_and_back.max_ns
    assert counts_of("delays").delay_variation is not None


def test_a_burst_of_the_mix_has_its_sizes() -> None:
    counts = counts_of("burst")
    assert (counts.sent_packets, counts.intended_packets, counts.intended_pps) == (24, 24, None)
    assert counts.sent_bytes == 2 * (7 * 18 + 4 * 548 + 1472)


def changed(text: str, **values: Any) -> str:
    """The summary with other values."""
    lines = [json.loads(line) for line in text.splitlines()]
    lines[-1] |= values
    return "\n".join(json.dumps(line) for line in lines)


def test_drops_of_a_socket_are_not_the_paths_loss() -> None:
    sender, far = both(VERSIONS[-1], "paced")
    received = counts_of("paced").received_packets
    far = changed(far, received_packets=received - 30, socket_dropped_packets=20)
    counts = parse(sender, far, LOADS["paced"])
    assert (counts.lost_packets, counts.tester_dropped_packets, counts.path_lost_packets) == (30, 20, 10)


@pytest.mark.parametrize(
    ("end", "values", "reason"),
    [
        ("sender", {"sent_packets": 0}, "the sender sent nothing"),
        ("sender", {"errors": {"ECONNREFUSED": 3}}, "the sender was refused: ECONNREFUSED 3 times"),
        ("far", {"received_packets": 10_000}, "the receiver saw packet number 10000, but the sender sent only"),
        ("far", {"expected_packets": 10_000}, "the receiver saw packet number 10000, but the sender sent only"),
        ("far", {"start_ns": 2**62}, "the receiver was not ready before the first packet was sent"),
        ("far", {"received_packets": -1}, "not as expected"),
        ("far", {"received_packets": "many"}, "not as expected"),
        ("sender", {"stall_max_ns": -5}, "not as expected"),
    ],
)
def test_what_cannot_be_is_no_figure(end: str, values: dict[str, Any], reason: str) -> None:
    sender, far = both(VERSIONS[-1], "paced")
    texts = (changed(sender, **values), far) if end == "sender" else (sender, changed(far, **values))
    with pytest.raises(TrialFailed, match=reason):
        parse(*texts, LOADS["paced"])


def test_an_engine_that_was_cut_off_gives_no_figure() -> None:
    sender, far = both(VERSIONS[-1], "paced")
    with pytest.raises(TrialFailed, match="the engine's receiver ended without a summary; it printed last: "):
        parse(sender, far.rpartition('{"type":"summary"')[0], LOADS["paced"])
    with pytest.raises(TrialFailed, match="the engine's sender ended without a summary; it printed last: nothing"):
        parse("", far, LOADS["paced"])


def test_an_engines_error_is_reported_in_its_words() -> None:
    error = '{"type":"error","role":"receive","kind":"cannot-here","message":"cannot bind 10.9.9.9:5202","hint":""}\n'
    with pytest.raises(TrialFailed, match=r"the engine's receiver says: cannot bind 10\.9\.9\.9:5202"):
        parse(both(VERSIONS[-1], "paced")[0], error, LOADS["paced"])


def test_an_engine_of_another_protocol_is_refused() -> None:
    with pytest.raises(TrialFailed, match="speaks protocol 2, not 1"):
        parse_lines('{"type":"hello","protocol":2}\n')


def test_a_line_that_is_not_whole_yet_is_left_for_later() -> None:
    text = sample(f"{VERSIONS[-1]}/paced-far.jsonl")
    for end in range(0, len(text), 37):
        found = parse_lines(text[:end])
        assert found.received_packets <= counts_of("paced").received_packets


JSON = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=4)
NAMES = sorted({name for end in (0, 1) for name in json.loads(both(VERSIONS[-1], "delays")[end].splitlines()[-1])})


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["sender", "far"]), st.sampled_from(NAMES), JSON | st.lists(JSON, max_size=2))
def test_any_value_in_any_place_gives_figures_or_a_reason(end: str, name: str, value: Any) -> None:
    sender, far = both(VERSIONS[-1], "delays")
    texts = (changed(sender, **{name: value}), far) if end == "sender" else (sender, changed(far, **{name: value}))
    try:
        counts = parse(*texts, LOADS["delays"])
    except TrialFailed:
        return
    assert 0 <= counts.received_packets <= counts.sent_packets
    assert 0 <= counts.sending_s < float("inf")


@given(st.text(), st.text())
def test_any_output_gives_a_reason(sender: str, far: str) -> None:
    with pytest.raises(TrialFailed):
        parse(sender, far, LOADS["paced"])


def test_the_command_lines_of_a_rate_one_way() -> None:
    load = SenderLoad("imix", 2.5, 12_345.678, interval_s=0.5)
    assert " ".join(far_end_command("engine", "198.18.4.1", "aa", load)) == (
        "engine receive --bind 198.18.4.1:5202 --session aa --interval-s 0.5 --silence-s 0 --payload-bytes imix "
        "--same-clock --late-s 1 --one-source"
    )
    assert " ".join(sender_command("engine", "198.18.4.1", "aa", load, source="198.18.1.2")) == (
        "engine send --target 198.18.4.1:5202 --bind 198.18.1.2 --session aa --payload-bytes imix --interval-s 0.5 "
        "--rate-pps 12345.678 --duration-s 2.5"
    )


def test_repeating_data_are_zeros() -> None:
    load = SenderLoad("18", 1.0)
    argv = sender_command("engine", "198.18.4.1", "aa", load, source="198.18.1.2", content=Content.REPEATING)
    assert argv[-2:] == ["--content", "zeros"]


def test_a_receiver_with_a_clock_of_its_own_is_asked_for_no_age_of_a_packet() -> None:
    load = SenderLoad("18", 1.0, 200.0, takes_delays=True)
    far = far_end_command("engine", "b", "aa", load, has_one_clock=False)
    assert "--same-clock" not in far
    assert "--late-s" not in far
    assert far[-1] == "--latency"


@pytest.mark.parametrize(
    ("load", "sender_has", "far_has"),
    [
        (SenderLoad("18", 1.0), "--flat-out --duration-s 1", "receive"),
        (SenderLoad("18", burst_packets=9), "--burst 9", "receive"),
        (
            SenderLoad("18", 1.0, 200.0, takes_delays=True),
            "--rate-pps 200 --duration-s 1 --latency",
            "--late-s 1 --latency",
        ),
        (SenderLoad("18", 1.0, is_echo=True), "--flat-out --duration-s 1 --echo --timeout-s 1", "reflect"),
    ],
    ids=["flat out", "burst", "delays", "echo"],
)
def test_what_a_load_asks_of_both_ends(load: SenderLoad, sender_has: str, far_has: str) -> None:
    sender = " ".join(sender_command("engine", "b", "aa", load, source="a"))
    assert sender.endswith(sender_has)
    assert far_has in " ".join(far_end_command("engine", "b", "aa", load))


def test_a_receiver_of_several_flows_or_of_delays_takes_packets_of_all_sources() -> None:
    for load, flows in ((SenderLoad("18", 1.0), 2), (SenderLoad("18", 1.0, 200.0, takes_delays=True), 1)):
        assert "--one-source" not in far_end_command("engine", "b", "aa", load, flows=flows)


@pytest.mark.parametrize(("flows", "words"), [(1, []), (16, ["--flows", "16"])])
def test_a_sender_of_several_flows_has_so_many_ports(flows: int, words: list[str]) -> None:
    usual = sender_command("engine", "b", "aa", SenderLoad("18", 1.0), source="a")
    assert sender_command("engine", "b", "aa", SenderLoad("18", 1.0), source="a", flows=flows) == usual + words


def test_the_engine_of_this_installation_is_found() -> None:
    assert Path(locate()).name == engine.ENGINE_PROGRAM
    assert os.access(locate(), os.X_OK)


def test_an_installation_without_the_engine_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "files", lambda _: [])
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotHere, match="the packet engine tunnelbench-engine is missing"):
        locate()


def test_the_binary_has_less_than_one_mebibyte() -> None:
    assert Path(locate()).stat().st_size < 2**20
