"""Figures of a run's first screen, with what makes each one a lower bound or doubtful."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.answer.tunnels import shown_rows
from tunnelbench.analysis.answer.udp import UdpAnswer
from tunnelbench.analysis.summary import Row
from tunnelbench.model.text import counted


@dataclass(frozen=True)
class ShownFigure:
    """One figure of the first screen."""

    tunnel_name: str
    is_tester_limited: bool
    """True if the testers were the limit, so that the figure is a lower bound."""
    doubts: tuple[str, ...]
    """Names of the checks that make the figure doubtful."""


@dataclass(frozen=True)
class ShownFigures:
    """Figures of the first screen; the CPU time at a throughput is not counted apart from that throughput."""

    large: Sequence[ShownFigure]
    """Figures in Mbit/s."""
    small: Sequence[ShownFigure]
    """Figures in packets/s."""
    udp: Sequence[ShownFigure]
    """Rates and delays of UDP."""

    @property
    def every(self) -> list[ShownFigure]:
        return [*self.large, *self.small, *self.udp]

    def where(self, is_found: Callable[[ShownFigure], bool]) -> ShownFigures:
        return ShownFigures(*([each for each in own if is_found(each)] for own in (self.large, self.small, self.udp)))

    def count_of(self, shown: ShownFigures) -> str:
        """Return how many of the figures in `shown` these are, in words, such as `12 of 32 figures of Mbit/s and
        packets/s`."""
        unit = "Mbit/s and packets/s" if shown.small else "Mbit/s"
        tcp, all_tcp = (len(each.large) + len(each.small) for each in (self, shown))
        parts = [f"{tcp} of {counted(all_tcp, 'figure')} of {unit}"] if tcp else []
        parts += [f"{len(self.udp)} of {counted(len(shown.udp), 'UDP figure')}"] if self.udp else []
        return " and ".join(parts)


def shown_figures(rows: Sequence[Row], udp: Sequence[UdpAnswer]) -> ShownFigures:
    """Return the figures of the first screen, without the calibration."""
    large, small = ([_of_row(row) for row in own] for own in shown_rows(rows))
    ways = [(answer.name, way) for answer in udp for way in answer.directions.values()]
    return ShownFigures(large, small, [ShownFigure(name, *facts) for name, way in ways for facts in way.marks()])


def _of_row(row: Row) -> ShownFigure:
    return ShownFigure(row.tunnel.name, bool(row.figures and row.figures.is_tester_limited), row.doubts)
