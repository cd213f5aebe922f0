"""The cost model of each tunnel of a run: its trials, the line through them, and how far that is to be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.cells import Cell, cells_of, load_of, table
from tunnelbench.analysis.cost import Amount, CostFit, fit_cost
from tunnelbench.analysis.polish import block_effects
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TunnelSpec
from tunnelbench.model.result import TrialRecord

CLAIMED_ERROR_SHARE = 0.15
"""What is claimed of a prediction between the sizes measured; every run shows how many of its own keep to it."""

FRAME_OVERHEAD_BYTES = 18
"""Ethernet header 14 and FCS 4, which the frame sizes of RFC 2544 count and IP packets do not."""

FRAME_SIZES_BYTES = (64, 594, 1518)
IMIX = ((64, 7), (594, 4), (1518, 1))
"""Frame size and how many of twelve have it: the "simple IMIX" of 7:4:1 IP packets of 40, 576 and 1,500 bytes (as in
esnet/iperf pull request 1576), in Ethernet frames. RFC 6985 calls such a list a genome."""


@dataclass(frozen=True)
class LeftOut:
    """One size, predicted from the others."""

    payload_bytes: int
    """As asked for [bytes]."""
    direction: Direction | None
    """None: all that were measured, together."""
    predicted_s: float
    """Router CPU per data packet with its acknowledgements [s]."""
    measured_s: float

    @property
    def error_share(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_s / self.measured_s - 1

    @property
    def is_within_claim(self) -> bool:
        return abs(self.error_share) <= CLAIMED_ERROR_SHARE

    def __add__(self, other: LeftOut) -> LeftOut:
        """Both directions of one size together."""
        return LeftOut(
            self.payload_bytes, None, self.predicted_s + other.predicted_s, self.measured_s + other.measured_s
        )


@dataclass(frozen=True)
class Prediction:
    """What one router CPU would carry one way if it were busy all the time with packets of these sizes."""

    frame_bytes: int | None
    """Ethernet frame, FCS included [bytes]; None: a mix."""
    direction: Direction
    packet_s: Amount
    """Router CPU per packet, for a mix the mean [s]."""
    packets_per_s: float
    bits_per_s: float
    """Of Ethernet frames, FCS included, without preamble and gap [bit/s]."""
    is_extrapolated: bool
    """Whether a size is outside those measured by more than a tenth."""
    largest_bytes: int | None
    """Where the tunnel takes no IP packet as large as asked for, what it takes instead [bytes]; else None."""


@dataclass(frozen=True)
class CostModel:
    """What a packet costs in one tunnel."""

    tunnel: TunnelSpec
    fitted: CostFit
    """Its parts are the directions."""
    directions: tuple[Direction, ...]
    """Those that were measured."""
    smallest_bytes: int
    largest_bytes: int
    """Inner IP packets of the data that were measured [bytes]."""
    rounds: int
    drift: tuple[float, float]
    """The slowest and the fastest round, as factors of the cost of the median round."""
    left_out: tuple[LeftOut, ...]
    """Each size, predicted from the others; empty where too few sizes remain."""
    inner_mtu_bytes: int | None

    @property
    def worst_error_share(self) -> float | None:
        """The largest error of a size left out; None where none could be."""
        return max((abs(case.error_share) for case in self.left_out), default=None)

    @property
    def sizes_left_out(self) -> tuple[LeftOut, ...]:
        """As `left_out`, the directions of a size together."""
        by_size: dict[int, LeftOut] = {}
        for case in self.left_out:
            known = by_size.get(case.payload_bytes)
            by_size[case.payload_bytes] = case if known is None else known + case
        return tuple(by_size.values())

    @property
    def is_straight(self) -> bool:
        """Whether at least seven of eight sizes left out were predicted as well as is claimed."""
        kept = sum(case.is_within_claim for case in self.left_out)
        return bool(self.left_out) and kept * 8 >= len(self.left_out) * 7

    def packet_s(self, packet_bytes: float, direction: Direction) -> Amount:
        """Router CPU of one inner IP packet that travels in a direction [s]."""
        return self.fitted.packet_s(direction, packet_bytes)

    def predict(self, frames: Sequence[tuple[int, int]], direction: Direction) -> Prediction:
        """For a mix of Ethernet frames: each size and how many have it."""
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
    """A tunnel of which nothing can be said, and why."""

    tunnel: TunnelSpec
    reason: str


def cost_models(records: Sequence[TrialRecord]) -> tuple[CostModel | NoModel, ...]:
    """One for each tunnel, in the order of the plan."""
    by_tunnel: dict[str, list[TrialRecord]] = {}
    for record in sorted(records, key=lambda record: record.spec.sequence):
        if record.spec.tunnel.kind != CALIBRATION_KIND:
            by_tunnel.setdefault(record.spec.tunnel.name, []).append(record)
    return tuple(_model(own) for own in by_tunnel.values())


def _model(records: Sequence[TrialRecord]) -> CostModel | NoModel:
    tunnel = records[0].spec.tunnel
    cells, why_not = cells_of(records)
    sizes = {cell.payload_bytes for cell in cells}
    if len(sizes) < 2:
        reason = why_not or ("one size makes no line" if sizes else "no trial counts")
        return NoModel(tunnel, reason)
    effects = block_effects(table(cells))
    directions = tuple(direction for direction in Direction if any(cell.direction is direction for cell in cells))
    try:
        fitted = fit_cost([load_of(cell, effects, directions) for cell in cells], directions)
    except ValueError:
        return NoModel(tunnel, "the sizes measured do not tell fixed and per byte cost apart")
    proofs = [record.proof for record in records if record.proof is not None]
    return CostModel(
        tunnel=tunnel,
        fitted=fitted,
        directions=directions,
        smallest_bytes=round(min(cell.packet_bytes for cell in cells)),
        largest_bytes=round(max(cell.packet_bytes for cell in cells)),
        rounds=len(effects),
        drift=(math.exp(max(effects.values())), math.exp(min(effects.values()))),
        left_out=tuple(case for size in sorted(sizes) for case in _leave_out(size, cells, directions)),
        inner_mtu_bytes=min((proof.inner_mtu_bytes for proof in proofs if proof.inner_mtu_bytes), default=None),
    )


def _leave_out(payload_bytes: int, cells: Sequence[Cell], directions: Sequence[Direction]) -> list[LeftOut]:
    """One size predicted from the others, the rounds' speeds taken from the others too."""
    kept = [cell for cell in cells if cell.payload_bytes != payload_bytes]
    if len({cell.payload_bytes for cell in kept}) < 2:
        return []
    effects = block_effects(table(kept))
    try:
        fitted = fit_cost([load_of(cell, effects, directions) for cell in kept], directions)
    except ValueError:
        return []
    found = []
    for cell in cells:
        if cell.payload_bytes == payload_bytes:
            load = load_of(cell, effects, directions)
            found.append(LeftOut(payload_bytes, cell.direction, fitted.of(load.flows).value, load.busy))
    return found
