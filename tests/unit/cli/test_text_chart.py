"""The chart of a UDP trial."""

from __future__ import annotations

from tunnelbench.cli.text_chart import HEIGHT, MOST_CHART_COLUMNS, chart
from tunnelbench.model.udp import UdpInterval


def series(*received: int, sent: int = 1000) -> list[UdpInterval]:
    return [UdpInterval(float(n), n + 1.0, sent, packets, sent - packets) for n, packets in enumerate(received)]


def test_a_chart_has_a_column_for_each_interval_and_marks_start_and_losses() -> None:
    assert list(chart(series(1000, 500, 0, 1000))) == [
        "1,000 │█  █",
        "      │█  █",
        "      │█  █",
        "      │██ █",
        "      │██ █",
        "      │██ █",
        "    0 └────",
        "       ▲ start 4.0 s",
        "       ·xx·",
        "       x packets were lost",
    ]


def test_a_chart_without_losses_marks_none() -> None:
    assert "x" not in "".join(chart(series(1000, 1000)))


def test_a_long_series_is_drawn_as_narrow_as_a_terminal() -> None:
    lines = list(chart(series(*range(1000))))
    assert max(map(len, lines)) <= MOST_CHART_COLUMNS + 10
    assert lines[-3].endswith("1000.0 s")


def test_a_trial_in_which_nothing_arrived_has_empty_bars() -> None:
    lines = list(chart(series(0, 0)))
    assert [line.strip() for line in lines[1:HEIGHT]] == ["│"] * (HEIGHT - 1)


def test_no_series_no_chart() -> None:
    assert list(chart([])) == []
