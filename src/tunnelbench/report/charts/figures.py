"""Bar charts of a run: the throughput of TCP, and packets per second and router CPU per packet of TCP and UDP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import Test, payload_text
from tunnelbench.report.charts.bars import Bar, bar_chart
from tunnelbench.report.charts.chart import Chart, PageSection
from tunnelbench.report.document import Document
from tunnelbench.report.figures import Figure, figure
from tunnelbench.report.text import one_line


def figure_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart for each figure and each payload that was measured."""
    for place, title, key in (
        (PageSection.THROUGHPUT, "Throughput of TCP", "throughput_bps"),
        (PageSection.PACKETS, "Data packets of TCP per second", "data_pps"),
        (PageSection.COST, "Router CPU per packet of TCP", COST_KEY),
    ):
        for payload in dict.fromkeys(row.payload_bytes for row in document.rows):
            bars = [
                _bar(row, row.direction.label, figure("tcp", key))
                for row in document.rows
                if row.payload_bytes == payload
                and not row.load
                and not row.is_calibration  # the testers may be much faster than others
            ]
            yield from _chart(f"{place}-tcp-{payload}", place, f"{title}, {_size(payload)}", bars, payload)
    for place, title, keys_of in (
        (PageSection.PACKETS, "UDP packets per second", _udp_rates),
        (PageSection.COST, "Router CPU per packet of UDP", _udp_costs),
    ):
        for payload, test in dict.fromkeys((row.payload_bytes, row.test) for row in document.udp_rows):
            bars = [
                _bar(row, f"{row.direction.label} {what}", figure("udp", key), "refuted" if what == "NDR" else "")
                for row in document.udp_rows
                if (row.payload_bytes, row.test) == (payload, test) and not row.is_calibration
                for what, key in keys_of(row).items()
            ]
            name = f"{place}-udp-{test}-{payload_text(payload)}"
            yield from _chart(name, place, f"{title} ({UDP_TESTS.get(test, test)}), {_size(payload)}", bars, payload)


COST_KEY = "cpu_s_per_million_packets"
UNITS = {PageSection.THROUGHPUT: "Mbit/s", PageSection.PACKETS: "packets/s", PageSection.COST: "µs"}
"""Units of the bar charts. CPU seconds per million packets are shown as microseconds per packet, the same number."""


def _chart(name: str, place: PageSection, title: str, bars: Sequence[Bar], payload_bytes: int) -> Iterator[Chart]:
    if chart := bar_chart(name, place, title, UNITS[place], bars, payload=payload_text(payload_bytes)):
        yield chart


def _bar(row: Row | UdpRow, group: str, shown: Figure, refuted: str = "") -> Bar:
    """Return the bar of a row; it has the remark `refuted` if the trial that checks its NDR lost packets."""
    figures = row.figures
    found: Estimate | None = shown.of_row(row) if shown.of_row else None
    return Bar(
        one_line(row.tunnel.name),
        one_line(group),
        row.direction.label,
        shown.scaled(found) if found else None,
        note="" if figures else " and ".join(row.uncounted_classes),
        is_limited=shown.is_lower_bound(row),
        limit=_limit(figures) if shown.key == "throughput_bps" and isinstance(figures, Figures) else None,
        remark=refuted if isinstance(figures, UdpFigures) and figures.refuted else "",
    )


def _limit(figures: Figures) -> float | None:
    """Return the highest throughput that the link can carry with this payload [Mbit/s]; None if unlimited."""
    if figures.share_of_limit is None or not figures.share_of_limit.median:
        return None
    return figures.throughput_bps.median / figures.share_of_limit.median / 1e6


def _size(payload: int) -> str:
    return f"{payload} bytes of payload" if payload else "mix of sizes (IMIX)"


UDP_TESTS = {
    Test.SEARCH: "NDR and PDR",
    Test.ECHO_SEARCH: "NDR and PDR there and back",
    Test.RATE: "one way",
    Test.ECHO: "there and back",
    Test.REKEY: "during changes of keys",
    Test.HANDSHAKE: "during handshakes",
}


def _udp_rates(row: UdpRow) -> Mapping[str, str]:
    """Return the keys of the rates of a row, by the names of their bars."""
    if row.test.is_search:
        return {"NDR": "ndr_pps", "PDR": "pdr_pps"}
    return {row.load: "forwarding_rate_pps"} if row.test in UDP_TESTS else {}


def _udp_costs(row: UdpRow) -> Mapping[str, str]:
    if row.test not in UDP_TESTS:
        return {}
    return {"at the NDR" if row.test.is_search else row.load: COST_KEY}
