"""The bars of a run: throughput, packets per second and router CPU per packet, of TCP and UDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tunnelbench.analysis.comments import NOT_IN_STATISTICS
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import Test
from tunnelbench.report.charts.bars import Bar, bar_chart
from tunnelbench.report.charts.chart import Chart, Place
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line


def figure_charts(document: Document) -> Iterator[Chart]:
    """One for each payload that was measured."""
    for place, title, unit, of in (
        (Place.THROUGHPUT, "Throughput of TCP", "Mbit/s", _throughput),
        (Place.PACKETS, "Data packets of TCP per second", "packets/s", _packets),
        (Place.COST, "Router CPU per packet of TCP", "us", _cost),
    ):
        yield from _of_tcp(document.rows, place, title, unit, of)
    for place, title, unit, of_udp in (
        (Place.PACKETS, "UDP packets per second", "packets/s", _udp_packets),
        (Place.COST, "Router CPU per packet of UDP", "us", _udp_cost),
    ):
        yield from _of_udp(document.udp_rows, place, title, unit, of_udp)


def _of_tcp(
    rows: Sequence[Row], place: Place, title: str, unit: str, of: Callable[[Figures], Estimate | None]
) -> Iterator[Chart]:
    for payload in dict.fromkeys(row.payload_bytes for row in rows):
        # The testers by themselves are in the table: they may be faster than all others by far.
        own = [row for row in rows if row.payload_bytes == payload and not row.is_calibration]
        bars = [
            Bar(
                one_line(row.tunnel.name),
                row.direction.value,
                of(row.figures) if row.figures else None,
                note=_why_not(row),
                is_limited=bool(row.figures and row.figures.is_tester_limited) and place is not Place.COST,
                limit=_limit(row.figures) if place is Place.THROUGHPUT else None,
            )
            for row in own
        ]
        chart = bar_chart(f"{place}-tcp-{payload}", place, f"{title}, {payload} bytes of payload", unit, bars)
        if chart:
            yield chart


def _of_udp(
    rows: Sequence[UdpRow],
    place: Place,
    title: str,
    unit: str,
    of: Callable[[UdpRow, UdpFigures | None], Sequence[tuple[str, Estimate | None]]],
) -> Iterator[Chart]:
    for payload, test in dict.fromkeys((row.payload_bytes, row.test) for row in rows):
        bars = []
        for row in rows:
            if (row.payload_bytes, row.test) != (payload, test) or row.is_calibration:
                continue
            tunnel = one_line(row.tunnel.name)
            limited = bool(row.figures and row.figures.is_tester_limited) and place is not Place.COST
            for what, figure in of(row, row.figures):
                group = one_line(f"{row.direction} {what}")
                remark = "refuted" if what == "NDR" and row.figures and row.figures.refuted else ""
                bars.append(Bar(tunnel, group, figure, note=_why_not(row), is_limited=limited, remark=remark))
        size = f"{payload} bytes of payload" if payload else "mix of sizes (IMIX)"
        name = f"{place}-udp-{test}-{payload or 'imix'}"
        chart = bar_chart(name, place, f"{title} ({UDP_TESTS.get(test, test)}), {size}", unit, bars)
        if chart:
            yield chart


UDP_TESTS = {Test.SEARCH: "NDR and PDR", Test.RATE: "one way", Test.ECHO: "there and back"}


def _why_not(row: Row | UdpRow) -> str:
    return "" if row.figures else " and ".join(each.value for each in NOT_IN_STATISTICS if row.classes[each])


def _limit(figures: Figures | None) -> float | None:
    """What the line can carry [Mbit/s]."""
    if figures is None or figures.share_of_limit is None or not figures.share_of_limit.median:
        return None
    return figures.throughput_bps.median / figures.share_of_limit.median / 1e6


def _throughput(figures: Figures) -> Estimate:
    found = figures.throughput_bps
    return Estimate(found.median / 1e6, found.low / 1e6, found.high / 1e6, found.count)


def _packets(figures: Figures) -> Estimate:
    return figures.data_pps


def _cost(figures: Figures) -> Estimate | None:
    """A CPU second per million packets is a microsecond per packet."""
    return figures.cpu_s_per_million_packets


def _udp_packets(row: UdpRow, figures: UdpFigures | None) -> Sequence[tuple[str, Estimate | None]]:
    if row.test is Test.SEARCH:
        return (("NDR", figures.ndr_pps if figures else None), ("PDR", figures.pdr_pps if figures else None))
    if row.test in {Test.RATE, Test.ECHO}:
        return ((row.load, figures.forwarding_rate_pps if figures else None),)
    return ()


def _udp_cost(row: UdpRow, figures: UdpFigures | None) -> Sequence[tuple[str, Estimate | None]]:
    if row.test not in UDP_TESTS:
        return ()
    return (
        ("at the NDR" if row.test is Test.SEARCH else row.load, figures.cpu_s_per_million_packets if figures else None),
    )
