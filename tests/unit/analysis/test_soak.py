"""Soaks in figures: losses where they belong, gaps that are no loss, memory that grows or does not."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.soak_builders import PPS, make_chunks, make_part, make_reading, make_soak, sample_soak
from tests.unit.udp_builders import make_counts

from tunnelbench.analysis.memory import Growth, MemorySamples
from tunnelbench.analysis.soak import SoakSummary, in_words, summarise_soak
from tunnelbench.model.soak import SoakEvent, SoakReading

MIB = 1 << 20


def summary_of(*readings: SoakReading, lost: int | None = None) -> SoakSummary:
    """Return a soak of one part; `lost` is the total in its final counts, and None if these are missing."""
    counts = None
    if lost is not None:
        sent = sum(reading.sent_packets for reading in readings)
        counts = make_counts(sent / 2, lost=lost)
    part = make_part(counts=counts, ended_at=None if counts is None else "2025-03-14T09:30:00+00:00")
    return summarise_soak(make_soak(part), ((1, chunk) for chunk in make_chunks(readings)))


def test_a_loss_belongs_to_the_second_that_misses_packets() -> None:
    found = summary_of(*(make_reading(s, 990 if s == 4 else PPS, 10 if s == 4 else 0) for s in range(10)))
    assert (found.lost_packets, found.seconds_with_loss, found.worst_second_lost_packets) == (10, 1, 10)
    assert found.worst_second is not None
    assert (found.worst_second.at_s, found.longest_loss_free_s) == (4, 5)
    assert found.loss_ratio == 0.001


def test_what_is_missing_after_silence_was_lost_in_it() -> None:
    """Two seconds and a half without an arrival: the receiver notices it all in the second in which packets come."""
    silent = [make_reading(2, 500), make_reading(3, 0), make_reading(4, 0), make_reading(5, PPS, 2500)]
    found = summary_of(make_reading(0), make_reading(1), *silent, make_reading(6))
    assert (found.lost_packets, found.seconds_with_loss, found.worst_second_lost_packets) == (2500, 3, 1000)
    assert found.worst_second is not None
    assert (found.worst_second.at_s, found.longest_loss_free_s) == (3, 2)


def test_packets_that_come_after_silence_were_late_and_not_lost() -> None:
    found = summary_of(make_reading(0), make_reading(1, 0), make_reading(2, 2 * PPS), make_reading(3))
    assert (found.lost_packets, found.seconds_with_loss, found.longest_loss_free_s) == (0, 0, 4)


def test_packets_that_change_places_over_the_end_of_a_second_are_not_lost() -> None:
    found = summary_of(make_reading(0, 998, 2), make_reading(1, 1002, -2), make_reading(2))
    assert (found.lost_packets, found.seconds_with_loss) == (0, 0)


def test_what_the_testers_sockets_dropped_is_not_the_routers_loss() -> None:
    found = summary_of(make_reading(0), make_reading(1, 990, 10, tester_dropped_packets=7))
    assert (found.lost_packets, found.tester_dropped_packets) == (3, 7)


def test_what_was_sent_after_the_last_arrival_is_lost_in_the_silence_at_the_end() -> None:
    found = summary_of(make_reading(0), make_reading(1), make_reading(2, 0), make_reading(3, 0), lost=2000)
    assert (found.lost_packets, found.seconds_with_loss, found.longest_loss_free_s) == (2000, 2, 2)


def test_of_an_end_that_nobody_noted_what_was_under_way_is_not_lost() -> None:
    found = summary_of(make_reading(0), make_reading(1, 995))
    assert (found.lost_packets, found.ended) == (0, "unknown")


def test_losses_add_up_to_the_engines_count_whatever_happens() -> None:
    random = Random(2544)
    for _ in range(300):
        seconds, late_missing, lost = [], 0, 0
        for second in range(30):
            gone = random.choice([0, 0, 0, 0, random.randint(1, PPS), PPS])
            lost += gone
            late_missing += gone
            if gone == PPS:
                seconds.append(make_reading(second, 0))
            else:
                seconds.append(make_reading(second, PPS - gone, late_missing))
                late_missing = 0
        assert summary_of(*seconds, lost=lost).lost_packets == lost


def test_a_gap_is_no_loss_and_ends_a_stretch() -> None:
    soak, chunks = sample_soak()
    found = summarise_soak(soak, chunks)
    assert (found.parts, found.gaps, found.gaps_s, found.measured_s) == (2, 1, 20.0, 20.0)
    assert (found.lost_packets, found.longest_loss_free_s) == (30, 10.0)
    assert (found.gap_list[0].at_s, found.ended, found.is_complete) == (10.0, "interrupted", False)
    assert [(each.at_s, each.text) for each in found.rekey_list] == [(7.25, "openvpn on the router: new keys")]
    assert in_words(found) == (
        "20 of 60 s at 1,000 packets/s, 30 of 20,000 packets lost (0.150 %), "
        "losses in 1 s, at most 30 in 1 s, 1 rekey, 1 gap"
    )


def trend(growth_bytes_per_s: float, duration_s: int, noise_bytes: int = 0) -> Growth:
    random = Random(1)
    samples = MemorySamples()
    for second in range(0, duration_s, 5):
        size = 9 * MIB + growth_bytes_per_s * second + random.uniform(-noise_bytes, noise_bytes)
        samples.take(second, {"router/openvpn": int(size) // 4096 * 4096})
    return samples.trends()[0].growth


@pytest.mark.parametrize(
    ("growth_bytes_per_s", "duration_s", "noise_bytes", "expected"),
    [
        (0.0, 600, 0, Growth.UNKNOWN),
        (0.0, 7200, 0, Growth.STEADY),
        (0.0, 86_400, 40_000, Growth.STEADY),
        (0.0, 3600, 400_000, Growth.UNKNOWN),
        (100.0, 7200, 40_000, Growth.GROWS),
        (100.0, 60, 0, Growth.UNKNOWN),
        (4.0, 604_800, 40_000, Growth.GROWS),
    ],
)
def test_memory_grows_or_does_not_or_the_trend_is_unknown(
    growth_bytes_per_s: float, duration_s: int, noise_bytes: int, expected: Growth
) -> None:
    assert trend(growth_bytes_per_s, duration_s, noise_bytes) is expected


def test_what_a_program_takes_while_it_warms_up_is_no_growth() -> None:
    samples = MemorySamples()
    for second in range(0, 10_000, 5):
        samples.take(second, {"router/openvpn": 9 * MIB + min(second, 600) * 1000})
    (found,) = samples.trends()
    assert (found.growth, found.first_bytes, found.last_bytes) == (Growth.STEADY, 9 * MIB, 9 * MIB + 600_000)


def test_a_program_that_began_anew_is_looked_at_from_then_on() -> None:
    events = {100: SoakEvent(500.0, "restart", "openvpn on the router ended")}
    memory = {"router/openvpn": 9 * MIB, "controller": 60 * MIB}
    chunks = make_chunks((make_reading(s) for s in range(1000)), events=events, memory_bytes=memory)
    found = summarise_soak(make_soak(), ((1, chunk) for chunk in chunks))
    assert found.restarts == 1
    assert {trend.program: trend.observed_s for trend in found.memory} == {"router/openvpn": 495, "controller": 995}
