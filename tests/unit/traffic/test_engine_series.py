"""The engine's lines as they come, paired into a series."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tunnelbench.host.procfs import resident_bytes
from tunnelbench.model.errors import TrialFailed
from tunnelbench.traffic.engine_series import Series

SECOND_NS = 1_000_000_000
START_NS = 5_000_000_000
ODDITIES = {
    "late_packets": 0,
    "duplicated_packets": 0,
    "reordered_packets": 0,
    "corrupted_packets": 0,
    "socket_dropped_packets": 0,
}


def interval(index: int, start_ns: int, **counts: Any) -> str:
    times = {"start_ns": start_ns, "end_ns": start_ns + SECOND_NS}
    return json.dumps({"type": "interval", "index": index, **times, **ODDITIES, **counts})


def sent(index: int, packets: int = 1000, **counts: Any) -> str:
    return interval(index, START_NS + index * SECOND_NS, sent_packets=packets, **counts)


def arrived(index: int, received: int = 1000, expected: int | None = None, late_start_s: int = 0) -> str:
    start_ns = START_NS + (index + late_start_s) * SECOND_NS + 40_000
    expected = received if expected is None else expected
    return interval(index, start_ns, received_packets=received, expected_packets=expected)


def hello(clock_id: str = "boot", protocol: int = 1) -> str:
    return json.dumps({"type": "hello", "protocol": protocol, "clock_id": clock_id})


def series(*, is_echo: bool = False) -> Series:
    made = Series(is_echo=is_echo)
    made.take_far(hello())
    made.take_sender(hello())
    return made


def test_a_second_is_complete_when_both_ends_have_reported_it() -> None:
    pairs = series()
    pairs.take_sender(sent(0))
    assert pairs.ready() == []
    pairs.take_far(arrived(0, 995, 1000))
    (reading,) = pairs.ready()
    assert (reading.start_s, reading.end_s) == (0.0, 1.0)
    assert (reading.sent_packets, reading.received_packets, reading.missing_packets) == (1000, 995, 5)


def test_a_receiver_whose_first_packets_were_lost_is_set_right_by_the_clock() -> None:
    pairs = series()
    for second in range(9):
        pairs.take_sender(sent(second))
    for index in range(4):
        pairs.take_far(arrived(index, late_start_s=5, expected=6000 if index == 0 else None))
    found = pairs.ready(is_over=True)
    assert [reading.received_packets for reading in found] == [0, 0, 0, 0, 0, 1000, 1000, 1000, 1000]
    assert [reading.missing_packets for reading in found] == [0, 0, 0, 0, 0, 5000, 0, 0, 0]


def test_silence_does_not_hold_the_series_up() -> None:
    pairs = series()
    for second in range(6):
        pairs.take_sender(sent(second))
    assert len(pairs.ready()) == 3


def test_what_arrives_after_the_last_second_is_not_forgotten() -> None:
    pairs = series()
    pairs.take_sender(sent(0))
    pairs.take_far(arrived(0, 900))
    pairs.take_far(arrived(1, 100))
    found = pairs.ready(is_over=True)
    assert sum(reading.received_packets for reading in found) == 1000
    assert found[-1].end_s == found[-1].start_s


def test_all_counts_of_an_echo_come_from_the_sender() -> None:
    pairs = series(is_echo=True)
    delays = {"p50": 40_000, "p99": 90_000, "max": 200_000}
    pairs.take_sender(sent(0, received_packets=998, lost_packets=2, rtt_ns=delays))
    (reading,) = pairs.ready()
    assert (reading.received_packets, reading.missing_packets) == (998, 2)
    assert (reading.delay_p50_ns, reading.delay_p99_ns, reading.delay_max_ns) == (40_000, 90_000, 200_000)


def test_other_lines_are_kept_by_their_type_and_nonsense_is_passed_over() -> None:
    pairs = series()
    summary = json.dumps({"type": "summary", "sent_packets": 7})
    for line in ("", "tunnelbench-engine: cannot", "[1]", summary):
        pairs.take_sender(line)
    assert pairs.sender_words["summary"] == summary
    with pytest.raises(TrialFailed, match="protocol 2"):
        pairs.take_far(hello(protocol=2))


def test_hours_of_lines_goes_through_in_constant_memory() -> None:
    pairs, early, received = series(), 0, 0
    for second in range(20_000):
        pairs.take_sender(sent(second))
        pairs.take_far(arrived(second))
        received += sum(reading.received_packets for reading in pairs.ready())
        if second == 2000:
            early = resident_bytes("self") or 0
    assert received == 20_000_000
    assert (resident_bytes("self") or 0) - early < 8_000_000
