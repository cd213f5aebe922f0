"""Cycles for each instruction, from a run on a virtual router of fixed speed and a published table with a known clock.

The run counts the instructions of a packet, and the publication states throughput and CPU share of a real router. The
cycles for each instruction differ from row to row; predicting each row from the others shows how large the error is.
"""

from __future__ import annotations

from dataclasses import dataclass

from tunnelbench.analysis.compare.comparison import Comparison
from tunnelbench.analysis.compare.matching import Pair
from tunnelbench.analysis.compare.sides import ComparedFigure, SideRow
from tunnelbench.analysis.statistics import Estimate, median

LEAST_ROWS = 3
"""Smallest number of rows for a calibration, because each row is predicted from the others."""


@dataclass(frozen=True)
class CalibratedRow:
    """A row of the run and its counterpart in the publication."""

    tunnel: str
    payload_bytes: int | None
    direction: str
    packet_instructions: float
    """Instructions for one data packet with its part of the ACKs."""
    published_mbps: float
    published_cpu_share: float
    """Share of the real router's CPU time, 0 to 1."""
    packet_cycles: float
    """Cycles of the real router for one data packet with its part of the ACKs."""
    cycles_per_instruction: float
    predicted_mbps: float
    """Throughput at the published CPU share, from the median of `cycles_per_instruction` of all other rows."""

    @property
    def error_share(self) -> float:
        """Predicted minus published throughput, divided by the published throughput."""
        return self.predicted_mbps / self.published_mbps - 1


@dataclass(frozen=True)
class Calibration:
    """The rows that a run and a published table have in common; the table's CPU clock is known."""

    clock_mhz: float
    clock_source: str
    rows: tuple[CalibratedRow, ...]
    cycles_per_instruction: Estimate
    """Median and range over the rows."""
    median_absolute_error_share: float


def calibrate(found: Comparison) -> Calibration | None:
    """Return the calibration; None if no side has a clock, or fewer than three rows have all figures for it."""
    clocks = [side for side in (found.a, found.b) if side.clock_mhz is not None]
    if len(clocks) != 1 or clocks[0].clock_mhz is None:
        return None
    is_a_published = clocks[0] is found.a
    pairs = {id(row.pair): row.pair for row in found.rows}.values()
    known = [row for pair in pairs if (row := _work(*_ordered(pair, is_a_published=is_a_published))) is not None]
    if len(known) < LEAST_ROWS:
        return None
    hertz = clocks[0].clock_mhz * 1e6
    ratios = [row.cycles(hertz) / row.packet_instructions for row in known]
    rows = []
    for place, (row, ratio) in enumerate(zip(known, ratios, strict=True)):
        from_others = median([*ratios[:place], *ratios[place + 1 :]])
        rows.append(
            CalibratedRow(
                tunnel=row.own.name,
                payload_bytes=row.own.payload_bytes,
                direction=row.own.direction,
                packet_instructions=row.packet_instructions,
                published_mbps=row.mbps,
                published_cpu_share=row.cpu_share,
                packet_cycles=row.cycles(hertz),
                cycles_per_instruction=ratio,
                predicted_mbps=row.mbps * ratio / from_others,
            )
        )
    return Calibration(
        clock_mhz=clocks[0].clock_mhz,
        clock_source=clocks[0].clock_source,
        rows=tuple(rows),
        cycles_per_instruction=Estimate(median(ratios), min(ratios), max(ratios), len(ratios)),
        median_absolute_error_share=median([abs(row.error_share) for row in rows]),
    )


@dataclass(frozen=True)
class _Work:
    """The figures of one row of the run and of its counterpart."""

    own: SideRow
    packet_instructions: float
    mbps: float
    cpu_share: float
    payload_bytes: float

    def cycles(self, hertz: float) -> float:
        """Return the real router's cycles for one data packet."""
        return hertz * self.cpu_share / (self.mbps * 1e6 / (8 * self.payload_bytes))


def _ordered(pair: Pair, *, is_a_published: bool) -> tuple[SideRow, SideRow]:
    """Return the row of the run and the published row."""
    return (pair.b, pair.a) if is_a_published else (pair.a, pair.b)


def _work(own: SideRow, published: SideRow) -> _Work | None:
    """Return the figures of a row; None if one is missing.

    The payload is that of the run's segments: a table states the payload that was asked for, and a full segment carries
    less in a tunnel.
    """
    payload_bytes = own.effective_bytes or own.payload_bytes
    mbps = published.figures.get(ComparedFigure.THROUGHPUT, {}).get(1)
    if not (own.segment_instructions and payload_bytes and mbps and published.cpu_share):
        return None
    return _Work(own, own.segment_instructions, mbps, min(1.0, published.cpu_share), payload_bytes)
