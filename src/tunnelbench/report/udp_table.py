"""The table of UDP that the formats for people draw: its rows as text, in columns that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tunnelbench.analysis.comments import NOT_IN_STATISTICS
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import Test
from tunnelbench.report.table import Figure, percents, version_lines
from tunnelbench.report.text import one_line

CURVE_POINTS = 12
"""Of a loss curve, in a remark at most."""


NOTHING = Figure()


@dataclass(frozen=True)
class UdpLine:
    """One row of the table. Empty is what is not known, or not measured by this test."""

    payload: str
    frame: str
    """[bytes], FCS included."""
    direction: str
    what: str
    """NDR, PDR, or the test with its load."""
    packets: Figure = NOTHING
    """[packets/s]"""
    share: Figure = NOTHING
    """Of the baseline [%]."""
    payload_rate: str = ""
    layer_1_rate: str = ""
    """[Mbit/s]"""
    loss: Figure = NOTHING
    """[%]"""
    delay_median: str = ""
    delay_99: str = ""
    delay_max: str = ""
    """[us]"""
    busy: Figure = NOTHING
    daemon: str = ""
    """Of the router's CPUs, and of one CPU [%]."""
    per_million_packets: Figure = NOTHING
    """Router CPU [s]."""
    comments: tuple[str, ...] = ()

    @property
    def has_figures(self) -> bool:
        return bool(self.packets.median or self.loss.median or self.delay_median)


@dataclass(frozen=True)
class UdpBlock:
    """All rows of one tunnel."""

    technology: str
    versions: tuple[str, ...]
    lines: tuple[UdpLine, ...]

    @property
    def is_empty_alike(self) -> bool:
        """Whether no line has figures, and all for the same reason."""
        return not any(line.has_figures for line in self.lines) and len({line.comments for line in self.lines}) == 1


def udp_blocks(rows: Sequence[UdpRow], *, thousands: bool = False) -> tuple[UdpBlock, ...]:
    """The rows by tunnel; `thousands`: with commas in large numbers."""
    by_tunnel: dict[str, list[UdpRow]] = {}
    for row in rows:
        by_tunnel.setdefault(row.tunnel.name, []).append(row)
    return tuple(
        UdpBlock(
            one_line(name),
            version_lines({key: version for row in reversed(own) for key, version in row.versions.items()}),
            tuple(line for row in own for line in _lines(row, thousands)),
        )
        for name, own in by_tunnel.items()
    )


def udp_legend() -> str:
    """How to read the table."""
    return (
        "UDP. Frame: Ethernet with FCS, in bytes; layer 1: with preamble and gap. NDR, PDR: the highest offered load "
        "at which a search lost nothing, and at most 0.5 %; median of all searches, with minimum and maximum. Loss and "
        "CPU beside an NDR are those of the confirming trial: refuted where it lost packets. Loss: on the path, drops "
        "of the testers' sockets left out. Delay: one way, of an echo there and back."
    )


def _lines(row: UdpRow, thousands: bool) -> list[UdpLine]:
    """A search has a line for its NDR and one for its PDR, every other test one."""
    figures = row.figures
    remarks = tuple(one_line(remark) for remark in _remarks(row))
    what = " ".join(word for word in (row.test.value, row.load) if word)
    base = UdpLine(
        payload="imix" if not row.payload_bytes else str(row.payload_bytes),
        frame=f"{row.frame_bytes:.0f}",
        direction=row.direction,
        what=what,
    )
    if figures is None:
        return [replace(base, comments=remarks)]
    if row.test is Test.SEARCH:
        ndr = _rate(base, row, figures.ndr_pps, thousands)
        ndr = replace(_of_router(ndr, figures), what="NDR", loss=percents(figures.loss_ratio), comments=remarks)
        pdr = _rate(base, row, figures.pdr_pps, thousands)
        return [ndr, replace(pdr, what="PDR", share=percents(figures.share_of_baseline))]
    line = _of_router(_rate(base, row, figures.forwarding_rate_pps, thousands), figures)
    return [
        replace(
            line,
            share=percents(figures.share_of_baseline),
            loss=percents(figures.loss_ratio),
            delay_median=_us(figures.delay_p50_ns.median if figures.delay_p50_ns else None),
            delay_99=_us(figures.delay_p99_ns.median if figures.delay_p99_ns else None),
            delay_max=_us(figures.delay_max_ns),
            comments=remarks,
        )
    ]


def _rate(line: UdpLine, row: UdpRow, pps: Estimate | None, thousands: bool) -> UdpLine:
    if pps is None:
        return line
    return replace(
        line,
        packets=_figure(pps, 4, thousands),
        payload_rate=significant(row.payload_bps(pps.median) / 1e6),
        layer_1_rate=significant(row.layer_1_bps(pps.median) / 1e6),
    )


def _of_router(line: UdpLine, figures: UdpFigures) -> UdpLine:
    cost = figures.cpu_s_per_million_packets
    return replace(
        line,
        busy=percents(figures.router_busy_share),
        daemon=percent(figures.daemon_share.median) if figures.daemon_share else "",
        per_million_packets=_figure(cost, 3, False) if cost else Figure(),
    )


def _figure(found: Estimate, digits: int, thousands: bool) -> Figure:
    median, low, high = (
        significant(value, digits, like=found.median, thousands=thousands)
        for value in (found.median, found.low, found.high)
    )
    return Figure(median, "" if low == high else f"{low}-{high}")


def _us(delay_ns: float | None) -> str:
    return "" if delay_ns is None else significant(delay_ns / 1e3, 3)


def _remarks(row: UdpRow) -> list[str]:
    figures = row.figures
    left_out = sum(row.classes[each] for each in NOT_IN_STATISTICS)
    if figures is None:
        why = " and ".join(each.value for each in NOT_IN_STATISTICS if row.classes[each])
        return [f"{why}: {'; '.join(row.reasons)}" if row.reasons else why]
    found = _of_search(figures) if row.test is Test.SEARCH else []
    if figures.is_tester_limited:
        found.append("tester-limited")
    if row.is_calibration:
        found.append("calibration: the most that the testers can do")
    if figures.longest_burst_packets:
        burst = figures.longest_burst_packets
        found.append(f"a burst of {burst.median:.0f} packets came through whole, and none longer")
    if figures.curve:
        step = -(-len(figures.curve) // CURVE_POINTS)
        shown = (f"{percent(loss)} at {pps:,.0f}" for pps, loss in figures.curve[::step])
        found.append(f"loss by packets/s offered: {', '.join(shown)}")
    if figures.delay_variation_p99_ns:
        found.append(f"delay variation {_us(figures.delay_variation_p99_ns.median)} us (99 %)")
    if row.over_tcp:
        found.append(f"{significant(row.over_tcp, 3)} times the packets of small TCP, ACKs counted")
    if left_out:
        found.append(f"{row.trials - left_out} of {row.trials} trials count")
    if row.doubtful_checks:
        found.append(f"doubts: {', '.join(row.doubtful_checks)}")
    return found


def _of_search(figures: UdpFigures) -> list[str]:
    found = []
    if figures.refuted:
        found.append("NDR refuted" if not figures.confirmed else f"NDR refuted in {figures.refuted} trials")
    elif figures.confirmed:
        found.append("NDR confirmed")
    elif figures.ndr_pps:
        found.append("NDR not confirmed")
    else:
        found.append("no load without loss was found")
    if figures.complete_searches < figures.searches:
        missing = figures.searches - figures.complete_searches
        found.append(f"{missing} of {figures.searches} searches ran out of time")
    return found
