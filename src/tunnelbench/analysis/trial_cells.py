"""The TCP trials of a run as a table of costs, with a cell per tunnel, payload and direction, and a block per round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.cost import Flow, MeasuredLoad
from tunnelbench.analysis.median_polish import block_effects
from tunnelbench.analysis.statistics import median
from tunnelbench.model.frames import TCP_HEADERS_BYTES, tcp_packet_bytes
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TcpMeasurement, TrialRecord, Verdict

ROUTER_CPU_CHECK = "router-cpu"
"""Name of the check that fails if the router's busy time includes the work of other machines."""


@dataclass(frozen=True)
class TrialCell:
    """Cost of a data packet with its acknowledgements, over the trials of one tunnel, payload and direction."""

    tunnel: str
    payload_bytes: int
    direction: Direction
    packet_bytes: float
    """Length of the IP packet, inside the tunnel, of a full TCP segment [bytes]."""
    acks: float
    """Acknowledgements per data packet."""
    by_round: tuple[tuple[int, float], ...]
    """Round and logarithm of the router CPU time per packet, acknowledgements counted as packets [log s]."""
    ack_bytes: float = TCP_HEADERS_BYTES
    """Length of the IP packet, inside the tunnel, of an acknowledgement [bytes]."""


@dataclass(frozen=True)
class CellTable:
    """Cells of one or more tunnels, and the speed of the router in each round."""

    cells: Sequence[TrialCell]
    effects: dict[int, float]
    """Logarithm of the quotient of a round's cost and the median round's cost, by round."""

    @property
    def payloads(self) -> list[int]:
        """Payloads as asked for, ascending [bytes]."""
        return sorted({cell.payload_bytes for cell in self.cells})

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Directions that were measured."""
        return tuple(direction for direction in Direction if any(cell.direction is direction for cell in self.cells))

    def load_of(self, cell: TrialCell) -> MeasuredLoad:
        """Return the CPU time of one data packet with its acknowledgements, corrected to the router's speed in the
        median round."""
        cost = median([value - self.effects.get(number, 0.0) for number, value in cell.by_round])
        back = next((direction for direction in self.directions if direction is not cell.direction), cell.direction)
        flows = (
            Flow(cell.direction, 1.0, cell.packet_bytes),
            Flow(back, cell.acks, cell.acks * cell.ack_bytes),
        )
        return MeasuredLoad(math.exp(cost) * (1 + cell.acks), flows)


def table_of(cells: Sequence[TrialCell]) -> CellTable:
    """Return the cells with the effects of their rounds.

    The effect of a round is the change of cost that all tunnels and sizes have in common in that round. A further
    deviation of a single cell counts as chance.
    """
    costs = {
        ((cell.tunnel, cell.payload_bytes, cell.direction), number): cost
        for cell in cells
        for number, cost in cell.by_round
    }
    return CellTable(cells, block_effects(costs) if costs else {})


def cells_of(records: Sequence[TrialRecord]) -> tuple[list[TrialCell], str]:
    """Return the cells of one tunnel's trials that count, and why trials were left out.

    A trial is left out if the router shares its CPU with other machines. The reason is empty if no trial was left out.
    """
    grouped: dict[tuple[int, Direction], list[tuple[TrialRecord, TcpMeasurement]]] = {}
    why_not = ""
    for record in records:
        if not record.counts or record.tcp is None:
            continue
        if shared := [c for c in record.checks if c.name == ROUTER_CPU_CHECK and c.verdict is not Verdict.OK]:
            why_not = shared[0].reason
        elif record.tcp.cpu_s_per_million_packets and record.tcp.window.data_packets:
            grouped.setdefault((record.spec.payload_bytes, record.spec.direction), []).append((record, record.tcp))
    return [_cell(trials) for trials in grouped.values()], why_not


def _cell(trials: Sequence[tuple[TrialRecord, TcpMeasurement]]) -> TrialCell:
    spec = trials[0][0].spec
    ack_bytes = tcp_packet_bytes(0, spec.tunnel.conditions.inside.header_bytes)
    return TrialCell(
        tunnel=spec.tunnel.name,
        payload_bytes=spec.payload_bytes,
        direction=spec.direction,
        packet_bytes=median([tcp.mss_bytes or spec.payload_bytes for _, tcp in trials]) + ack_bytes,
        ack_bytes=ack_bytes,
        acks=median([tcp.window.ack_packets / tcp.window.data_packets for _, tcp in trials]),
        by_round=tuple(
            (record.spec.round, math.log(cost * 1e-6))
            for record, tcp in trials
            if (cost := tcp.cpu_s_per_million_packets)
        ),
    )
