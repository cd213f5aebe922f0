"""A chart over time of a UDP trial, in characters: what arrived each second, and where packets were lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.model.udp import UdpInterval

HEIGHT = 6
"""Lines of the bars."""
MOST_COLUMNS = 60
EIGHTHS = " ▁▂▃▄▅▆▇█"


def chart(intervals: Sequence[UdpInterval]) -> Iterator[str]:
    """Lines of a chart that starts where the traffic does; nothing where there is no series."""
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
    meanings = {"x": "x packets were lost", "-": "- nobody measured"}
    if shown := [meaning for mark, meaning in meanings.items() if mark in marks]:
        yield f"{'':{len(label)}}  {', '.join(shown)}"


def _eighths(share: float, line: int) -> int:
    """How much of a character a bar fills on a line, from 0 to 8."""
    return round(min(1.0, max(0.0, share * HEIGHT - (line - 1))) * 8)


def _merged(intervals: Sequence[UdpInterval]) -> Iterator[UdpInterval]:
    """At most MOST_COLUMNS of them, neighbours taken together."""
    step = -(-len(intervals) // MOST_COLUMNS)
    for first in range(0, len(intervals), step):
        group = intervals[first : first + step]
        yield UdpInterval(
            group[0].start_s,
            group[-1].end_s,
            sum(each.sent_packets for each in group),
            sum(each.received_packets for each in group),
            sum(each.lost_packets for each in group),
        )
