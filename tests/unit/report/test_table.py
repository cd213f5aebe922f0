"""The rows of the table as text."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.builders import make_spec, make_tcp, make_trial

from tunnelbench.analysis.summary import summarise
from tunnelbench.model.counters import Ping
from tunnelbench.report.figures import FigureText
from tunnelbench.report.table import result_table, version_lines


def line_of(*throughputs_bps: float, ping: Ping | None = None) -> Mapping[str, FigureText]:
    trials = [
        make_trial(make_spec(number, number), make_tcp(throughput_bps, ping=ping))
        for number, throughput_bps in enumerate(throughputs_bps, start=1)
    ]
    return result_table("tcp", summarise(trials), trials).lines[0].figures


@pytest.mark.parametrize(
    ("ping", "worst", "lost"),
    [
        (Ping(100, 100, 0.4123), "0.412 ms", ""),
        (Ping(100, 91, 212.4), "212 ms", "9/100 lost"),
        (Ping(100, 0, None), "no answer", "100/100 lost"),
        (Ping(0, 0, None), "", ""),
    ],
)
def test_ping_shows_the_worst_answer_and_the_lost_ones(ping: Ping, worst: str, lost: str) -> None:
    text = line_of(1e8, ping=ping)["ping_worst_ms"]
    assert (text.median, text.note) == (worst, lost)


def test_a_spread_is_shown_unless_it_reads_as_the_median_does() -> None:
    assert line_of(90e6, 95e6, 100e6)["throughput_bps"].spread == "90.00-100.00"
    assert line_of(95e6)["throughput_bps"].spread == ""
    assert line_of(95e6, 95.0001e6)["throughput_bps"].spread == ""


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, ()),
        (
            {"router.tinc": "1.0.36", "router.openssl": "3.0.19", "server.tinc": "1.0.35", "server.openssl": "3.5.1"},
            ("tinc 1.0.36 (1.0.35)", "OpenSSL 3.0.19 (3.5.1)"),
        ),
        ({"router.linux": "6.18"}, ("linux 6.18 (-)",)),
        ({"server.xl2tpd": "1.3.18"}, ("xl2tpd - (1.3.18)",)),
    ],
)
def test_versions_are_those_of_the_router_and_in_brackets_of_the_server(
    versions: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert version_lines(versions) == expected
