"""CPU time that the router spends on a packet, fitted over several packet sizes (docs/cost-model.md).

The model is a fixed cost per packet plus a cost per byte. The router's busy time in a window is the sum over all
packets that it forwarded: data in one direction, acknowledgements in the other. Each direction has its own pair of
unknowns if both directions were measured. Otherwise the acknowledgements count as packets of the measured direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.least_squares import Fit, fit, student_t_quantile
from tunnelbench.analysis.statistics import CONFIDENCE


@dataclass(frozen=True)
class Flow:
    """Packets of one kind that the router forwarded, as a rate or as a count: only ratios matter."""

    term: str
    """Name of the term of the model that these packets are charged to."""
    packets: float
    bytes: float
    """Sum over all of these packets."""


@dataclass(frozen=True)
class MeasuredLoad:
    """Traffic that the router forwarded, and the time for which it kept the router busy."""

    busy: float
    """Busy time: seconds if the flows are counts, a share of one CPU if the flows are packets per second."""
    flows: tuple[Flow, ...]
    error_share: float = 1.0
    """Relative error of `busy`; leave it at 1 if all that is known is that every load has the same error."""


@dataclass(frozen=True)
class Amount:
    """A value with the half width of its 95 % interval; None: too few observations for an interval."""

    value: float
    error: float | None

    def times(self, factor: float) -> Amount:
        """Convert to another unit."""
        return Amount(self.value * factor, None if self.error is None else self.error * abs(factor))


@dataclass(frozen=True)
class CostFit:
    """Fixed cost and cost per byte of each term of the model."""

    terms: tuple[str, ...]
    fit: Fit
    widening: float | None
    """Factor from a standard error in `fit` to the half width of an interval; None: unknown."""

    def fixed_s(self, term: str) -> Amount:
        """Return the cost of one packet that does not depend on its size [s]."""
        return self.amount({term: (1.0, 0.0)})

    def per_byte_s(self, term: str) -> Amount:
        """Return the cost of one more byte [s]."""
        return self.amount({term: (0.0, 1.0)})

    def packet_s(self, term: str, size_bytes: float) -> Amount:
        """Return the cost of one packet of a given size [s]."""
        return self.amount({term: (1.0, size_bytes)})

    def amount(self, wanted: Mapping[str, tuple[float, float]]) -> Amount:
        """Return the total cost of given numbers of packets and bytes, by term [s]; terms that are not given add no
        cost."""
        row = [factor for term in self.terms for factor in wanted.get(term, (0.0, 0.0))]
        value = self.fit.at(row)
        if self.widening is None:
            return Amount(value, None)
        return Amount(value, self.widening * max(0.0, self.fit.variance_at(row)) ** 0.5)

    def of(self, flows: Iterable[Flow]) -> Amount:
        """Return the cost of some flows together [s]; a term that was not fitted costs nothing."""
        wanted: dict[str, tuple[float, float]] = {}
        for flow in flows:
            packets, size = wanted.get(flow.term, (0.0, 0.0))
            wanted[flow.term] = (packets + flow.packets, size + flow.bytes)
        return self.amount(wanted)


def fit_cost(loads: Sequence[MeasuredLoad], terms: Sequence[str], *, errors_are_known: bool = False) -> CostFit:
    """Fit the costs of `terms` to the busy times; equal relative errors have equal weight.

    The intervals come from the residuals, by Student's t for as few residuals as there are. Set `errors_are_known` if
    `error_share` of each load is the half width of a 95 % interval: then no interval is narrower than these errors
    imply. Raises ValueError if the loads do not determine the costs.
    """
    rows = [_row(load, terms) for load in loads]
    found = fit(rows, [load.busy for load in loads], [load.error_share * load.busy for load in loads])
    least = 1.0 if errors_are_known else None
    if found.scatter is None:
        return CostFit(tuple(terms), found, least)
    widening = found.scatter * student_t_quantile((1 + CONFIDENCE) / 2, found.freedom)
    return CostFit(tuple(terms), found, max(least or 0.0, widening))


def _row(load: MeasuredLoad, terms: Sequence[str]) -> list[float]:
    row = []
    for term in terms:
        own = [flow for flow in load.flows if flow.term == term]
        row += [sum(flow.packets for flow in own), sum(flow.bytes for flow in own)]
    return row
