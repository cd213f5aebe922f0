"""Draws a chart of a UDP trial over time in characters: packets received each second, and losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.model.udp import UdpInterval

HEIGHT = 6
"""Height of the bars [lines]."""
MOST_CHART_COLUMNS = 60
EIGHTHS = " ▁▂▃▄▅▆▇█"


def chart(intervals: Sequence[UdpInterval]) -> Iterator[str]:
    """Yield the lines of a chart from the start of the traffic; no lines if there is no time series."""
    timed = [each for each in intervals if each.end_s > each.start_s]
    if not timed:
        return
    columns = list(_merged(timed))
    rates = [each.received_packets / (each.end_s - each.start_s) for each in columns]
    top = max(rates) or 1.0
    label = f"{top:,.0f}"
    for line in range(HEIGHT, 0, -1):
        bars = "".join(EIGHTHS[_eighths(rate / top, line)] for rate in rates)
        yield f"{label if line == HEIGHT else '':>{len(label)}} │{bars}".rstrip()
    yield f"{0:>{len(label)}} └{'─' * len(columns)}"
    end = f"{columns[-1].end_s:.1f} s"
    start = "▲ start"
    yield f"{'':{len(label)}}  {start}{end:>{max(len(end) + 1, len(columns) - len(start))}}"
    marks = ["-" if not (each.sent_packets or each.received_packets) else "x" if each.lost_packets > 0 else "·"
             for each in columns]  # fmt: skip
    if "x" in marks or "-" in marks:
        yield f"{'':{len(label)}}  {''.join(marks)}"
    meanings = {"x": "x packets were lost", "-": "- not measured"}
    if shown := [meaning for mark, meaning in meanings.items() if mark in marks]:
        yield f"{'':{len(label)}}  {', '.join(shown)}"


def _eighths(share: float, line: int) -> int:
    """Return how many eighths of a character a bar fills on a line."""
    return round(min(1.0, max(0.0, share * HEIGHT - (line - 1))) * 8)


def _merged(intervals: Sequence[UdpInterval]) -> Iterator[UdpInterval]:
    """Merge neighbours, so that at most MOST_CHART_COLUMNS intervals remain."""
    step = -(-len(intervals) // MOST_CHART_COLUMNS)
    for first in range(0, len(intervals), step):
        group = intervals[first : first + step]
        yield UdpInterval(
            group[0].start_s,
            group[-1].end_s,
            sum(each.sent_packets for each in group),
            sum(each.received_packets for each in group),
            sum(each.lost_packets for each in group),
        )
