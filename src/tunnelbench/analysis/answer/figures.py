"""Rows of a run that the figures of its first screen come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.answer.tunnels import shown_rows
from tunnelbench.analysis.summary import Row
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.text import counted


@dataclass(frozen=True)
class ShownFigures:
    """Rows behind the figures of the first screen, one for each figure of TCP."""

    large: Sequence[Row]
    """Rows of the figures in Mbit/s."""
    small: Sequence[Row]
    """Rows of the figures in packets/s."""
    udp: Sequence[UdpRow]
    """All rows of UDP."""

    @property
    def rows(self) -> list[Row | UdpRow]:
        return [*self.large, *self.small, *self.udp]

    def where(self, is_found: Callable[[Row | UdpRow], bool]) -> ShownFigures:
        large, small = ([row for row in rows if is_found(row)] for rows in (self.large, self.small))
        return ShownFigures(large, small, [row for row in self.udp if is_found(row)])

    def count_of(self, every: ShownFigures) -> str:
        """Return how many of the figures in `every` these are, in words, such as `12 of 32 figures of Mbit/s and
        packets/s`."""
        unit = "Mbit/s and packets/s" if every.small else "Mbit/s"
        tcp, all_tcp = (len(each.large) + len(each.small) for each in (self, every))
        parts = [f"{tcp} of {counted(all_tcp, 'figure')} of {unit}"] if tcp else []
        parts += [f"{len(self.udp)} of {counted(len(every.udp), 'UDP result')}"] if self.udp else []
        return " and ".join(parts)


def shown_figures(rows: Sequence[Row], udp_rows: Sequence[UdpRow]) -> ShownFigures:
    """Return the rows with figures, without the calibration."""
    large, small = shown_rows(rows)
    return ShownFigures(large, small, [row for row in udp_rows if row.figures and not row.is_calibration])
