"""The table that the formats for people draw, in the shape of a wiki's: its rows as text, one field a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tunnelbench.analysis.comments import comments
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.report.text import one_line

PROGRAM_TITLES = {"openssl": "OpenSSL"}
"""Programs that are not spelled as their version key."""


@dataclass(frozen=True)
class Figure:
    """A figure as text; empty where there is none."""

    median: str = ""
    spread: str = ""
    """Low and high; empty where they read as the median does."""
    is_best: bool = False


@dataclass(frozen=True)
class Line:
    """One row of the table; its tunnel stands in the `Block` that holds it. Empty is what is not known."""

    payload: str
    direction: str
    share: Figure = Figure()
    """Of the baseline [%]."""
    throughput: Figure = Figure()
    """[Mbit/s]"""
    data_packets: Figure = Figure()
    ack_packets: Figure = Figure()
    """[packets/s]"""
    busy: Figure = Figure()
    """Of the router's CPUs [%]."""
    split: str = ""
    """usr/sys/softirq/steal [%]."""
    daemon: str = ""
    """[%]"""
    per_million_packets: Figure = Figure()
    per_gigabit: Figure = Figure()
    """Router CPU [s]."""
    ping_worst: str = ""
    """Worst answer of the router in words, with its unit."""
    ping_lost: str = ""
    """Answers that did not come, and how many were asked for; empty where all came."""
    comments: tuple[str, ...] = ()

    @property
    def has_figures(self) -> bool:
        return bool(self.throughput.median)

    @property
    def ping(self) -> str:
        return f"{self.ping_worst}, {self.ping_lost}" if self.ping_lost else self.ping_worst


@dataclass(frozen=True)
class Block:
    """All rows of one tunnel."""

    technology: str
    versions: tuple[str, ...]
    """`program router (server)`, one each."""
    lines: tuple[Line, ...]

    @property
    def is_empty_alike(self) -> bool:
        """Whether no line has figures, and all for the same reason."""
        return not any(line.has_figures for line in self.lines) and len({line.comments for line in self.lines}) == 1

    def by_payload(self) -> list[list[Line]]:
        """The lines in groups of one payload."""
        return [list(lines) for _, lines in groupby(self.lines, key=lambda line: line.payload)]


def blocks(rows: Sequence[Row], *, thousands: bool = False) -> tuple[Block, ...]:
    """The rows by tunnel; `thousands`: with commas in large numbers."""
    by_tunnel: dict[str, list[Row]] = {}
    for row in rows:
        by_tunnel.setdefault(row.tunnel.name, []).append(row)
    return tuple(
        Block(
            one_line(name),
            version_lines({key: version for row in reversed(own) for key, version in row.versions.items()}),
            tuple(_line(row, thousands) for row in own),
        )
        for name, own in by_tunnel.items()
    )


def version_lines(versions: Mapping[str, str]) -> tuple[str, ...]:
    """`openvpn 2.6.14 (2.6.14)`: the router's version, and the other end's in brackets, for each program."""
    ends: dict[str, dict[str, str]] = {}
    for key, version in versions.items():
        end, _, program = key.partition(".")
        ends.setdefault(program, {})[end] = one_line(version)
    return tuple(
        one_line(f"{PROGRAM_TITLES.get(program, program)} {by_end.pop('router', '-')} ({_first(by_end.values())})")
        for program, by_end in ends.items()
    )


def _first(versions: Iterable[str]) -> str:
    return next(iter(versions), "-")


def _line(row: Row, thousands: bool) -> Line:
    remarks = tuple(one_line(comment) for comment in comments(row))
    figures = row.figures
    if figures is None:
        return Line(str(row.payload_bytes), row.direction, comments=remarks)

    def number(name: str, *, scale: float = 1, digits: int = 4) -> Figure:
        found: Estimate | None = getattr(figures, name)
        if found is None:
            return Figure()
        median, low, high = (
            significant(value * scale, digits, like=found.median * scale, thousands=thousands)
            for value in (found.median, found.low, found.high)
        )
        return Figure(median, "" if low == high else f"{low}-{high}", name in row.best)

    traffic = Line(
        payload=str(row.payload_bytes),
        direction=row.direction,
        share=percents(figures.share_of_baseline, is_best="throughput_bps" in row.best),
        throughput=number("throughput_bps", scale=1e-6),
        data_packets=number("data_pps"),
        ack_packets=number("ack_pps"),
        comments=remarks,
    )
    if row.is_calibration:
        return traffic
    return replace(
        traffic,
        busy=percents(figures.router_busy_share),
        split=_split(figures),
        daemon=percent(figures.daemon_share.median) if figures.daemon_share else "",
        per_million_packets=number("cpu_s_per_million_packets", digits=3),
        per_gigabit=number("cpu_s_per_gigabit", digits=3),
        ping_worst=_ping_worst(figures),
        ping_lost=f"{figures.pings_lost}/{figures.pings_sent} lost" if figures.pings_lost else "",
    )


def _ping_worst(figures: Figures) -> str:
    if figures.ping_worst_ms is not None:
        return f"{significant(figures.ping_worst_ms, 3)} ms"
    return "no answer" if figures.pings_sent else ""


def percents(share: Estimate | None, *, is_best: bool = False) -> Figure:
    """A share of 1 in per cent, with its spread."""
    if share is None:
        return Figure()
    median, low, high = (percent(value, like=share.median) for value in (share.median, share.low, share.high))
    return Figure(median, "" if low == high else f"{low.removesuffix('%')}-{high}", is_best)


def _split(figures: Figures) -> str:
    parts = (
        figures.router_user_share,
        figures.router_system_share,
        figures.router_softirq_share,
        figures.router_steal_share,
    )
    return "/".join(f"{part.median * 100:.0f}" for part in parts)
