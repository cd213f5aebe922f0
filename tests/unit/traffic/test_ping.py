"""ping: its command line, and its summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import samples

from tunnelbench.model.counters import Ping
from tunnelbench.traffic.ping import command, parse

EXPECTED = {"answered": (3, 3), "half-lost": (6, 3), "interrupted": (6, 6), "unanswered": (2, 0)}
SUMMARIES = samples("iputils-*/ping-*.txt")


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_has_the_sent_and_answered_pings_and_the_worst_time(name: str) -> None:
    found = parse(SUMMARIES[name])
    kind = name.split("ping-")[1].removesuffix(".txt")
    assert (found.sent, found.answered) == EXPECTED[kind]
    if found.answered:
        assert found.worst_ms is not None
        assert 0 < found.worst_ms < 100
    else:
        assert found.worst_ms is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 packets transmitted, 1 received, +3 errors, 75% packet loss, time 3ms", Ping(4, 1, None)),
        (
            "5 packets transmitted, 5 received, +2 duplicates, 0% packet loss\nrtt m/a/m/m = 0.1/2.5/1012.7/3.2 ms",
            Ping(5, 5, 1012.7),
        ),
        ("ping: connect: Network is unreachable", Ping(0, 0, None)),
        ("", Ping(0, 0, None)),
    ],
)
def test_other_summaries_of_iputils_are_read_too(text: str, expected: Ping) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(("received", "sent"), [(10, 10), (9, 9), (8, 9), (0, 9)])
def test_a_ping_under_way_at_an_interrupt_is_not_counted_as_lost(received: int, sent: int) -> None:
    summary = f"10 packets transmitted, {received} received, {10 - received}0% packet loss, time 900ms"
    assert parse(summary, interrupted=True) == Ping(sent, received, None)


@given(st.text())
def test_any_output_can_be_read(text: str) -> None:
    assert parse(text) == Ping(0, 0, None)


def test_pings_go_on_until_interrupted_unless_they_are_counted() -> None:
    assert " ".join(command("198.18.1.1")) == "ping -n -q -i 0.1 -W 1 -s 56 198.18.1.1"
    counted = command("198.18.4.1", count=3, interval_s=0.02, payload_bytes=600)
    assert " ".join(counted) == "ping -n -q -i 0.02 -W 1 -s 600 -c 3 198.18.4.1"
