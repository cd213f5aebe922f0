"""Predicts the throughput of a tunnel on a device that nobody measured with it, from other published figures.

All methods work with the logarithm of the throughput, because devices and tunnels differ by factors. Each gives a
prediction interval of Student's t (Montgomery, Peck and Vining, Introduction to Linear Regression Analysis, section
2.5): the estimate, plus and minus `t * s * sqrt(1 + h)`, where `s` is the standard deviation of the residuals and `h`
the variance of the estimate as a share of that of one figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import fmean, median, stdev, variance

from tunnelbench.analysis.least_squares import fit, student_t_quantile

PREDICTION_CONFIDENCE = 0.9
"""Probability with which the interval is meant to hold the figure."""
WIDEST_FACTOR = 3.0
"""Largest quotient of the ends of an interval; a wider interval is no prediction."""
FEWEST_DEVICES = 3
"""Fewest devices on which a fit of clocks depends."""


class Basis(StrEnum):
    """The figures that a prediction depends on."""

    SAME_CPU = "same CPU"
    """Figures of other devices with the same CPU, through the same tunnel, measured alike."""
    OTHER_TUNNELS = "other tunnels"
    """A figure of the same device through another kind of tunnel, measured alike, and devices that have both."""
    CLOCK = "clock"
    """The clock of the CPU, and figures of devices with other clocks."""


@dataclass(frozen=True, order=True)
class MeasuredTunnel:
    """A tunnel in one direction, and the class of its measurement: its figures can be compared with each other."""

    method: str
    """Name of the class of comparability."""
    kind: str
    variant: str
    """Name of the tunnel with its cipher."""
    direction: str
    is_encrypted: bool = True


@dataclass(frozen=True)
class KnownFigure:
    """A published throughput; lower bounds are none."""

    device: str
    measurement: MeasuredTunnel
    mbps: float


@dataclass(frozen=True)
class CpuFacts:
    """Facts of a device that predictions use."""

    cpu: str = ""
    """CPU or system on a chip; empty: not known."""
    clock_mhz: float | None = None


@dataclass(frozen=True)
class PredictedFigure:
    """A predicted throughput [Mbit/s] with its interval."""

    mbps: float
    low_mbps: float
    high_mbps: float
    basis: Basis
    figures: int
    """Number of published figures that it depends on."""

    @property
    def factor(self) -> float:
        """Quotient of the ends of the interval."""
        return self.high_mbps / self.low_mbps

    @property
    def is_known(self) -> bool:
        """False if the interval is too wide to say anything."""
        return self.factor <= WIDEST_FACTOR


@dataclass(frozen=True)
class LeftOutFigure:
    """A figure, and its prediction from the others."""

    figure: KnownFigure
    prediction: PredictedFigure

    @property
    def error(self) -> float:
        """Quotient of prediction and figure, without its direction, less 1: 0.1 means 10 % too high or too low."""
        return math.exp(abs(math.log(self.prediction.mbps / self.figure.mbps))) - 1

    @property
    def is_covered(self) -> bool:
        """True if the interval holds the figure."""
        return self.prediction.low_mbps <= self.figure.mbps <= self.prediction.high_mbps


@dataclass(frozen=True)
class Validation:
    """The result of leaving out each figure in turn, and predicting it from the others."""

    figures: int
    """Number of figures that were left out."""
    cases: tuple[LeftOutFigure, ...]
    """Those that had a prediction."""

    def of(self, basis: Basis) -> Validation:
        """Return the cases that were predicted from one basis."""
        kept = tuple(case for case in self.cases if case.prediction.basis is basis)
        return Validation(len(kept), kept)

    @property
    def covered(self) -> int:
        """Number of figures inside their interval."""
        return sum(case.is_covered for case in self.cases)

    @property
    def median_error(self) -> float | None:
        return median(case.error for case in self.cases) if self.cases else None

    @property
    def worst(self) -> tuple[LeftOutFigure, ...]:
        """The cases, the largest error first."""
        return tuple(sorted(self.cases, key=lambda case: -case.error))


class Predictor:
    """Predicts from figures, of which those of one device and measurement are replaced by their median."""

    def __init__(self, figures: Sequence[KnownFigure], facts: Mapping[str, CpuFacts]) -> None:
        groups: dict[tuple[str, MeasuredTunnel], list[float]] = {}
        for figure in figures:
            groups.setdefault((figure.device, figure.measurement), []).append(figure.mbps)
        self._logs = {key: math.log(median(values)) for key, values in groups.items()}
        self._facts = facts

    @property
    def measurements(self) -> list[MeasuredTunnel]:
        return sorted({measurement for _, measurement in self._logs})

    def predict(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Return the prediction with the narrowest interval; None if no method has enough figures.

        Figures of that device through that kind of tunnel are not used.
        """
        return self._without(device, measurement.kind).narrowest(device, measurement)

    def narrowest(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        methods = (self._by_cpu, self._by_other_tunnels, self._by_clock)
        found = [each for method in methods if (each := method(device, measurement))]
        return min(found, key=lambda each: each.factor, default=None)

    def validate(self) -> Validation:
        """Leave out each figure of an encrypted tunnel in turn, and predict it from the others."""
        cases = []
        encrypted = [(key, value) for key, value in self._logs.items() if key[1].is_encrypted]
        for (device, measurement), value in encrypted:
            found = self.predict(device, measurement)
            if found is not None and found.is_known:
                cases.append(LeftOutFigure(KnownFigure(device, measurement, math.exp(value)), found))
        return Validation(len(encrypted), tuple(cases))

    def most_informative(self, measurement: MeasuredTunnel) -> tuple[MeasuredTunnel, float] | None:
        """Return the measurement of another kind of tunnel that gives the narrowest interval, and its factor.

        The interval is that of the quotients of both, on the devices that have both; None: fewer than FEWEST_DEVICES
        devices have another one.
        """
        factors = [
            (math.exp(2 * _quantile(len(own) - 1) * stdev(own) * math.sqrt(1 + 1 / len(own))), other)
            for other, own in self._quotients(measurement).items()
            if len(own) >= FEWEST_DEVICES
        ]
        factor, best = min(factors, default=(math.inf, None))
        return (best, factor) if best else None

    def _without(self, device: str, kind: str) -> Predictor:
        """Return a predictor that does not know the figures of a device through a kind of tunnel."""
        other = Predictor((), self._facts)
        other._logs = {key: log for key, log in self._logs.items() if (key[0], key[1].kind) != (device, kind)}
        return other

    def _cpu(self, device: str) -> str:
        return self._facts.get(device, CpuFacts()).cpu

    def _by_cpu(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict the mean of devices with the same CPU; the residuals are those of all devices that share a CPU."""
        groups: dict[tuple[str, MeasuredTunnel], list[float]] = {}
        for (name, where), value in self._logs.items():
            if self._cpu(name):
                groups.setdefault((self._cpu(name), where), []).append(value)
        own = groups.get((self._cpu(device), measurement), [])
        freedom = sum(len(values) - 1 for values in groups.values())
        if not own or not freedom:
            return None
        squares = math.fsum((value - fmean(values)) ** 2 for values in groups.values() for value in values)
        return _prediction(fmean(own), squares / freedom * (1 + 1 / len(own)), freedom, Basis.SAME_CPU, len(own))

    def _by_other_tunnels(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict from a figure of the device through another kind of tunnel, and the quotient of both tunnels on at
        least FEWEST_DEVICES devices. Of several such tunnels, the one that most devices have counts."""
        quotients = {
            other: own
            for other, own in self._quotients(measurement).items()
            if (device, other) in self._logs and len(own) >= FEWEST_DEVICES
        }
        if not quotients:
            return None
        other, own = max(quotients.items(), key=lambda item: (len(item[1]), item[0]))
        mean = self._logs[device, other] + fmean(own)
        squared_error = variance(own) * (1 + 1 / len(own))
        return _prediction(mean, squared_error, len(own) - 1, Basis.OTHER_TUNNELS, 2 * len(own) + 1)

    def _quotients(self, measurement: MeasuredTunnel) -> dict[MeasuredTunnel, list[float]]:
        """Return the logarithms of the quotients of one tunnel and each other kind, on the devices that have both."""
        found: dict[MeasuredTunnel, list[float]] = {}
        for (device, other), value in self._logs.items():
            own = self._logs.get((device, measurement))
            if own is not None and other.kind != measurement.kind and other.method == measurement.method:
                found.setdefault(other, []).append(own - value)
        return found

    def _by_clock(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict from a line through the logarithms of clock and throughput of other devices."""
        clock_mhz = self._facts.get(device, CpuFacts()).clock_mhz
        points = [
            (math.log(other_mhz), value)
            for (name, where), value in self._logs.items()
            if where == measurement and (other_mhz := self._facts.get(name, CpuFacts()).clock_mhz)
        ]
        if not clock_mhz or len(points) < FEWEST_DEVICES or len({clock for clock, _ in points}) < 2:
            return None
        middle = fmean(clock for clock, _ in points)
        line = fit([(1.0, clock - middle) for clock, _ in points], [value for _, value in points], [1.0] * len(points))
        spread = math.fsum((clock - middle) ** 2 for clock, _ in points)
        squares = math.fsum(each * each for each in line.residuals)
        distance = math.log(clock_mhz) - middle
        freedom = len(points) - 2
        squared_error = squares / freedom * (1 + 1 / len(points) + distance * distance / spread)
        mean = line.values[0] + line.values[1] * distance
        return _prediction(mean, squared_error, freedom, Basis.CLOCK, len(points))


def _prediction(mean: float, squared_error: float, freedom: int, basis: Basis, figures: int) -> PredictedFigure:
    """Return a prediction from a mean of logarithms and its squared standard error."""
    width = _quantile(freedom) * math.sqrt(squared_error)
    return PredictedFigure(math.exp(mean), math.exp(mean - width), math.exp(mean + width), basis, figures)


@cache
def _quantile(freedom: int) -> float:
    return student_t_quantile((1 + PREDICTION_CONFIDENCE) / 2, freedom)
