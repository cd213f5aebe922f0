"""Cost model of each tunnel of a run: the fitted line, its predictions, and a check on the sizes of the run itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.cost import Amount, CostFit, fit_cost
from tunnelbench.analysis.trial_cells import CellTable, cells_of, table_of
from tunnelbench.model.frames import FRAME_OVERHEAD_BYTES, IMIX
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import frame_bytes

CLAIMED_ERROR_SHARE = 0.15
"""Claimed error of a prediction between the measured sizes. Every run reports how many of its own sizes comply."""

FRAME_SIZES_BYTES = (64, 594, 1518)
IMIX_FRAMES = tuple((round(frame_bytes(payload_bytes)), times) for payload_bytes, times in IMIX)
"""Ethernet frame size [bytes], and how many of twelve packets have it.

This is the "simple IMIX" of 7:4:1 IP packets of 40, 576 and 1,500 bytes (as in esnet/iperf pull request 1576). RFC 6985
calls such a list a genome.
"""

ONE_SIZE = "a line needs two sizes, and one was measured"


@dataclass(frozen=True)
class LeftOut:
    """A size that was left out of the fit and then predicted from the other sizes."""

    payload_bytes: int
    """Payload as asked for [bytes]."""
    direction: Direction | None
    """None: all measured directions together."""
    predicted_s: float
    """Router CPU time per data packet with its acknowledgements [s]."""
    measured_s: float

    @property
    def error_share(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted_s / self.measured_s - 1

    @property
    def is_within_claim(self) -> bool:
        return abs(self.error_share) <= CLAIMED_ERROR_SHARE

    def __add__(self, other: LeftOut) -> LeftOut:
        """Return the sum with the prediction for the other direction of the same size."""
        return LeftOut(
            self.payload_bytes, None, self.predicted_s + other.predicted_s, self.measured_s + other.measured_s
        )


@dataclass(frozen=True)
class Prediction:
    """Load that one fully busy router CPU forwards in one direction, for given frame sizes."""

    frame_bytes: int | None
    """Ethernet frame, FCS included [bytes]; None: a mix."""
    direction: Direction
    packet_s: Amount
    """Router CPU time per packet; the mean for a mix [s]."""
    packets_per_s: float
    bits_per_s: float
    """Ethernet frames with FCS, without preamble and gap [bit/s]."""
    is_extrapolated: bool
    """True if a size is more than a tenth outside the measured sizes."""
    largest_bytes: int | None
    """Largest IP packet that the tunnel accepts, if it is smaller than asked for [bytes]; else None."""


@dataclass(frozen=True)
class CostModel:
    """Cost of a packet in one tunnel."""

    tunnel: TunnelSpec
    fitted: CostFit
    """Fitted line, with one fixed cost and one cost per byte for each direction."""
    directions: tuple[Direction, ...]
    """Directions that were measured."""
    smallest_bytes: int
    largest_bytes: int
    """Smallest and largest inner IP packet of the measured data [bytes]."""
    rounds: int
    drift: tuple[float, float]
    """Cost in the slowest and in the fastest round, each divided by the cost in the median round."""
    left_out: tuple[LeftOut, ...]
    """Each size, predicted from the others; empty if too few sizes remain."""
    inner_mtu_bytes: int | None

    @property
    def sizes_left_out(self) -> tuple[LeftOut, ...]:
        """Predictions for payload sizes that were left out of the fit, one for each size, both directions in one."""
        by_size: dict[int, LeftOut] = {}
        for case in self.left_out:
            known = by_size.get(case.payload_bytes)
            by_size[case.payload_bytes] = case if known is None else known + case
        return tuple(by_size.values())

    @property
    def is_straight(self) -> bool:
        """True if at least seven of eight predicted sizes are within the claimed error."""
        kept = sum(case.is_within_claim for case in self.left_out)
        return bool(self.left_out) and kept * 8 >= len(self.left_out) * 7

    def packet_s(self, packet_bytes: float, direction: Direction) -> Amount:
        """Return the router CPU time of one inner IP packet in one direction [s]."""
        return self.fitted.packet_s(direction, packet_bytes)

    def predict(self, frames: Sequence[tuple[int, int]], direction: Direction) -> Prediction:
        """Predict the load for a mix of Ethernet frames, given as sizes [bytes] and how many packets have each size."""
        limit = self.inner_mtu_bytes or max(size for size, _ in frames)
        sizes = [(min(size - FRAME_OVERHEAD_BYTES, limit), times) for size, times in frames]
        total = sum(times for _, times in sizes)
        mean_bytes = sum(size * times for size, times in sizes) / total
        cost = self.packet_s(mean_bytes, direction)
        packets_per_s = 1 / cost.value if cost.value > 0 else math.inf
        asked = max(size for size, _ in frames) - FRAME_OVERHEAD_BYTES
        return Prediction(
            frame_bytes=frames[0][0] if len(frames) == 1 else None,
            direction=direction,
            packet_s=cost,
            packets_per_s=packets_per_s,
            bits_per_s=packets_per_s * (mean_bytes + FRAME_OVERHEAD_BYTES) * 8,
            is_extrapolated=any(not self.smallest_bytes * 0.9 <= size <= self.largest_bytes * 1.1 for size, _ in sizes),
            largest_bytes=limit if limit < asked else None,
        )


@dataclass(frozen=True)
class NoModel:
    """A tunnel without a cost model, and the reason."""

    tunnel: TunnelSpec
    reason: str


def models_of_many_sizes(models: Iterable[CostModel | NoModel]) -> list[CostModel]:
    """Return the cost models, if the run measured enough sizes to predict one from the others; else none."""
    fitted = [model for model in models if isinstance(model, CostModel)]
    return fitted if any(model.left_out for model in fitted) else []


def cost_models(records: Sequence[TrialRecord]) -> tuple[CostModel | NoModel, ...]:
    """Fit a cost model for each tunnel, in the order of the plan."""
    by_tunnel: dict[str, list[TrialRecord]] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        if record.spec.tunnel.kind != CALIBRATION_KIND:
            by_tunnel.setdefault(record.spec.tunnel.name, []).append(record)
    return tuple(_model(own) for own in by_tunnel.values())


def _model(records: Sequence[TrialRecord]) -> CostModel | NoModel:
    tunnel = records[0].spec.tunnel
    cells, why_not = cells_of(records)
    table = table_of(cells)
    if len(table.payloads) < 2:
        return NoModel(tunnel, why_not or (ONE_SIZE if cells else "no trial counts"))
    fitted = _fit(table)
    if fitted is None:
        return NoModel(tunnel, "the measured sizes do not separate the fixed cost from the cost per byte")
    proofs = [record.proof for record in records if record.proof is not None]
    return CostModel(
        tunnel=tunnel,
        fitted=fitted,
        directions=table.directions,
        smallest_bytes=round(min(cell.packet_bytes for cell in cells)),
        largest_bytes=round(max(cell.packet_bytes for cell in cells)),
        rounds=len(table.effects),
        drift=(math.exp(max(table.effects.values())), math.exp(min(table.effects.values()))),
        left_out=tuple(case for payload_bytes in table.payloads for case in _leave_out(payload_bytes, table)),
        inner_mtu_bytes=min((proof.inner_mtu_bytes for proof in proofs if proof.inner_mtu_bytes), default=None),
    )


def _fit(table: CellTable) -> CostFit | None:
    """Fit a fixed cost and a cost per byte for each direction; None if the cells do not determine them."""
    try:
        return fit_cost([table.load_of(cell) for cell in table.cells], table.directions)
    except ValueError:
        return None


def _leave_out(payload_bytes: int, table: CellTable) -> list[LeftOut]:
    """Predict the cost of one size from the other sizes; the speed of each round also comes from the other sizes
    only."""
    kept = table_of([cell for cell in table.cells if cell.payload_bytes != payload_bytes])
    fitted = _fit(kept) if len(kept.payloads) >= 2 and kept.directions == table.directions else None
    if fitted is None:
        return []
    found = []
    for cell in table.cells:
        if cell.payload_bytes == payload_bytes:
            load = kept.load_of(cell)
            found.append(LeftOut(payload_bytes, cell.direction, fitted.of(load.flows).value, load.busy))
    return found
