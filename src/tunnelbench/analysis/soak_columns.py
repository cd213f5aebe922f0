"""Summary of the series of a soak as a few time intervals of equal length (columns), for a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tunnelbench.model.soak import SOAK_INTERVAL_S, Soak, SoakChunk

Chunks = Callable[[], Iterable[tuple[int, SoakChunk]]]
"""Function that reads the series from its start: chunks with the numbers of their parts."""


@dataclass
class SoakColumn:
    """Section of the series that contains measurements."""

    start_s: float
    end_s: float
    """Time since the first packet of the soak, gaps included [s]."""
    sent_packets: int = 0
    received_packets: int = 0
    lost_packets: int = 0
    """Packets lost on the path."""
    busy_s: float = 0.0
    watched_s: float = 0.0

    @property
    def router_busy_share(self) -> float | None:
        """Busy share of the router's CPUs; None: not sampled."""
        return self.busy_s / self.watched_s if self.watched_s else None


def soak_columns(soak: Soak, chunks: Chunks, most: int) -> list[SoakColumn]:
    """Return at most this many columns of equal duration, each at least one reading long; columns without a reading are
    left out."""
    began_s = {part.number: part.started_s - soak.parts[0].started_s for part in soak.parts}
    end_s = max((began_s[number] + chunk.readings[-1].end_s for number, chunk in chunks() if chunk.readings), default=0)
    width_s = max(SOAK_INTERVAL_S, end_s / most)
    columns: dict[int, SoakColumn] = {}
    for number, chunk in chunks():
        for reading in chunk.readings:
            place = min(int((began_s[number] + reading.start_s) / width_s + 1e-6), most - 1)
            column = columns.setdefault(place, SoakColumn(place * width_s, (place + 1) * width_s))
            column.sent_packets += reading.sent_packets
            column.received_packets += reading.received_packets
            column.lost_packets += reading.path_missing_packets
            if reading.router_busy_share is not None:
                column.busy_s += reading.router_busy_share * (reading.end_s - reading.start_s)
                column.watched_s += reading.end_s - reading.start_s
    return [columns[place] for place in sorted(columns)]
