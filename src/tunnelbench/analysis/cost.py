"""What a packet costs the router: fixed + per byte x size, fitted over the sizes measured (docs/cost-model.md).

The router's busy time in a window is the sum over the packets that it carried: data one way, acknowledgements the
other. Each way has its own two unknowns where both were measured; where one was, its acknowledgements count as packets
of the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.least_squares import Fit, fit, student_t_quantile
from tunnelbench.analysis.statistics import CONFIDENCE

TCP_HEADERS_BYTES = 52
"""IPv4 20, TCP 20, time stamps 12: what an inner packet has beside its payload, and all that an acknowledgement has."""


@dataclass(frozen=True)
class Flow:
    """Packets of one kind that the router carried, as a rate or a count: only ratios matter."""

    part: str
    """What these packets cost is the unknown of this name."""
    packets: float
    bytes: float
    """Of all of them together."""


@dataclass(frozen=True)
class Load:
    """What the router carried and how long that kept it busy."""

    busy: float
    """Busy time, in seconds if the flows are counts, as a share of one CPU if they are packets per second."""
    flows: tuple[Flow, ...]
    error_share: float = 1.0
    """Relative error of `busy`; 1 where nothing is known but that all have the same."""


@dataclass(frozen=True)
class Amount:
    """A figure with the half width of its 95 % interval; None: too few observations to know."""

    value: float
    error: float | None

    def times(self, factor: float) -> Amount:
        """The same in another unit."""
        return Amount(self.value * factor, None if self.error is None else self.error * abs(factor))

    @property
    def error_share(self) -> float | None:
        return None if self.error is None or not self.value else self.error / abs(self.value)


@dataclass(frozen=True)
class CostFit:
    """Fixed and per byte cost of some parts, and what follows from them."""

    parts: tuple[str, ...]
    fit: Fit
    widening: float | None
    """From a standard error as `fit` has it to the half width of an interval; None: not known."""

    def fixed_s(self, part: str) -> Amount:
        """Of one packet, whatever its size [s]."""
        return self.amount({part: (1.0, 0.0)})

    def per_byte_s(self, part: str) -> Amount:
        """Of one byte more [s]."""
        return self.amount({part: (0.0, 1.0)})

    def packet_s(self, part: str, size_bytes: float) -> Amount:
        """Of one packet of a size [s]."""
        return self.amount({part: (1.0, size_bytes)})

    def amount(self, wanted: Mapping[str, tuple[float, float]]) -> Amount:
        """Of so many packets and bytes of each part [s]; a part that is not named has none."""
        row = [factor for part in self.parts for factor in wanted.get(part, (0.0, 0.0))]
        value = self.fit.at(row)
        if self.widening is None:
            return Amount(value, None)
        return Amount(value, self.widening * max(0.0, self.fit.variance_at(row)) ** 0.5)

    def of(self, flows: Iterable[Flow]) -> Amount:
        """Of all that some flows carry; a KeyError would be a part that was not fitted."""
        wanted: dict[str, tuple[float, float]] = {}
        for flow in flows:
            packets, size = wanted.get(flow.part, (0.0, 0.0))
            wanted[flow.part] = (packets + flow.packets, size + flow.bytes)
        return self.amount(wanted)


def fit_cost(loads: Sequence[Load], parts: Sequence[str], *, errors_are_known: bool = False) -> CostFit:
    """The costs of `parts` that explain the busy times best, relative errors weighing alike.

    The residuals make the intervals, with Student's t for the few that there are. Where the errors of the loads are
    known, as half widths of 95 % intervals, no interval is narrower than these make it. ValueError where the loads do
    not determine the costs.
    """
    rows = [_row(load, parts) for load in loads]
    found = fit(rows, [load.busy for load in loads], [load.error_share * load.busy for load in loads])
    least = 1.0 if errors_are_known else None
    if found.scatter is None:
        return CostFit(tuple(parts), found, least)
    widening = found.scatter * student_t_quantile((1 + CONFIDENCE) / 2, found.freedom)
    return CostFit(tuple(parts), found, max(least or 0.0, widening))


def _row(load: Load, parts: Sequence[str]) -> list[float]:
    row = []
    for part in parts:
        own = [flow for flow in load.flows if flow.part == part]
        row += [sum(flow.packets for flow in own), sum(flow.bytes for flow in own)]
    return row
