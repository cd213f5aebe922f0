"""The trials of a run as places in a table: what a data packet costs, by payload, direction and round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.cost import TCP_HEADERS_BYTES, Flow, Load
from tunnelbench.analysis.statistics import median
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TcpMeasurement, TrialRecord, Verdict

ROUTER_CPU_CHECK = "router-cpu"
"""The check that says that the router's busy time is not the router's alone."""


@dataclass(frozen=True)
class Cell:
    """The trials of one payload in one direction: what a data packet with its acknowledgements costs."""

    payload_bytes: int
    direction: Direction
    packet_bytes: float
    """Inner IP packet of a full segment [bytes]."""
    acks: float
    """Acknowledgements per data packet."""
    by_round: tuple[tuple[int, float], ...]
    """Logarithm of the router CPU per packet carried, acknowledgements counted [log s]."""

    @property
    def place(self) -> tuple[int, Direction]:
        return self.payload_bytes, self.direction


def cells_of(records: Sequence[TrialRecord]) -> tuple[list[Cell], str]:
    """The cells of the trials that count, and why others do not, where the router's CPU is not its own."""
    grouped: dict[tuple[int, Direction], list[tuple[int, TcpMeasurement]]] = {}
    why_not = ""
    for record in records:
        if not record.counts or record.tcp is None:
            continue
        if foreign := [c for c in record.checks if c.name == ROUTER_CPU_CHECK and c.verdict is not Verdict.OK]:
            why_not = foreign[0].reason
        elif record.tcp.cpu_s_per_million_packets and record.tcp.window.data_packets:
            place = (record.spec.payload_bytes, record.spec.direction)
            grouped.setdefault(place, []).append((record.spec.round, record.tcp))
    return [_cell(place, trials) for place, trials in grouped.items()], why_not


def _cell(place: tuple[int, Direction], trials: Sequence[tuple[int, TcpMeasurement]]) -> Cell:
    payload, direction = place
    return Cell(
        payload_bytes=payload,
        direction=direction,
        packet_bytes=median([tcp.mss_bytes or payload for _, tcp in trials]) + TCP_HEADERS_BYTES,
        acks=median([tcp.window.ack_packets / tcp.window.data_packets for _, tcp in trials]),
        by_round=tuple(
            (number, math.log(cost * 1e-6)) for number, tcp in trials if (cost := tcp.cpu_s_per_million_packets)
        ),
    )


def table(cells: Sequence[Cell]) -> dict[tuple[tuple[int, Direction], int], float]:
    return {(cell.place, number): cost for cell in cells for number, cost in cell.by_round}


def load_of(cell: Cell, effects: Mapping[int, float], directions: Sequence[Direction]) -> Load:
    """One data packet with its acknowledgements, at the speed of the median round."""
    cost = median([value - effects.get(number, 0.0) for number, value in cell.by_round])
    back = next((direction for direction in directions if direction is not cell.direction), cell.direction)
    flows = (
        Flow(cell.direction, 1.0, cell.packet_bytes),
        Flow(back, cell.acks, cell.acks * TCP_HEADERS_BYTES),
    )
    return Load(math.exp(cost) * (1 + cell.acks), flows)
