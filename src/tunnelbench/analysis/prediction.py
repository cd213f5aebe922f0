"""Predicts the throughput of a tunnel on a device that nobody measured with it, from other published figures.

All methods work with the logarithm of the throughput, because devices and tunnels differ by factors. Each gives a
prediction interval of Student's t (Montgomery, Peck and Vining, Introduction to Linear Regression Analysis, section
2.5): the estimate, plus and minus `t * s * sqrt(1 + h)`, where `s` is the standard deviation of the residuals and `h`
the variance of the estimate as a share of that of one figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import fmean, median

from tunnelbench.analysis.least_squares import student_t_quantile
from tunnelbench.model.text import counted

PREDICTION_CONFIDENCE = 0.9
"""Probability with which the interval is meant to hold the figure."""
WIDEST_FACTOR = 3.0
"""Largest quotient of the ends of an interval; a wider interval is no prediction."""
MOST_TRIED = 500
"""Largest number of figures that are left out in turn to test the predictions."""
LARGEST_LOGARITHM = 300.0
"""Largest logarithm of an end of an interval. A line through clocks that are nearly the same, which an imported table
may have, leads anywhere."""
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
    """Number of figures that were left out; each is the median of a device's figures of one tunnel and direction."""
    cases: tuple[LeftOutFigure, ...]
    """Those that had a prediction."""

    def of(self, basis: Basis) -> Validation:
        """Return the cases that were predicted from one basis."""
        kept = tuple(case for case in self.cases if case.prediction.basis is basis)
        return Validation(len(kept), kept)

    @property
    def tested(self) -> str:
        """Sentences on what was left out, and on the kinds of tunnels whose predictions this tests."""
        kinds = ", ".join(sorted({case.figure.measurement.kind for case in self.cases})) or "none"
        return (
            f"Tried on {counted(self.figures, 'published figure')} of encrypted tunnels, each the median of a device, "
            "variant and direction: each was left out in turn and predicted from the others. "
            f"Kinds of tunnels in this test: {kinds}."
        )

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


@dataclass(frozen=True)
class _Spread:
    """Mean of some logarithms, and the sum of the squared differences from it."""

    count: int
    mean: float
    squares: float

    @property
    def squared_error(self) -> float:
        """Squared standard error of the prediction of one more value."""
        return self.squares / (self.count - 1) * (1 + 1 / self.count)


@dataclass(frozen=True)
class _Line:
    """A line through logarithms of clock and throughput."""

    clocks: _Spread
    throughput: float
    """Mean of the logarithms of the throughput."""
    slope: float
    squares: float
    """Sum of the squared residuals."""


class Predictor:
    """Predicts from figures, of which those of one device and measurement are replaced by their median.

    What depends on all devices is computed once, because an imported table may have ten thousand figures. A device
    whose own figures are left out changes it for itself alone.
    """

    def __init__(self, figures: Sequence[KnownFigure], facts: Mapping[str, CpuFacts]) -> None:
        medians: dict[tuple[str, MeasuredTunnel], list[float]] = {}
        for figure in figures:
            medians.setdefault((figure.device, figure.measurement), []).append(figure.mbps)
        self._logs = {key: math.log(median(values)) for key, values in medians.items()}
        self._facts = facts
        self._of_device: dict[str, dict[MeasuredTunnel, float]] = {}
        self._of_measurement: dict[MeasuredTunnel, dict[str, float]] = {}
        self._groups: dict[tuple[str, MeasuredTunnel], dict[str, float]] = {}
        """Figures of the devices with the same CPU."""
        for (device, measurement), value in self._logs.items():
            self._of_device.setdefault(device, {})[measurement] = value
            self._of_measurement.setdefault(measurement, {})[device] = value
            if cpu := self._cpu(device):
                self._groups.setdefault((cpu, measurement), {})[device] = value
        self._spreads = {key: _spread(values.values()) for key, values in self._groups.items()}
        self._whole = _residuals(self._spreads.values())
        self._quotient_spreads: dict[tuple[MeasuredTunnel, MeasuredTunnel], _Spread] = {}
        self._log_clocks = {name: math.log(each.clock_mhz) for name, each in facts.items() if each.clock_mhz}
        self._lines: dict[MeasuredTunnel, _Line | None] = {}

    @property
    def measurements(self) -> list[MeasuredTunnel]:
        return sorted(self._of_measurement)

    def predict(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Return the prediction with the narrowest interval; None if no method has enough figures.

        Figures of that device through that kind of tunnel are not used.
        """
        methods = (self._by_cpu, self._by_other_tunnels, self._by_clock)
        found = [each for method in methods if (each := method(device, measurement))]
        return min(found, key=lambda each: each.factor, default=None)

    def validate(self) -> Validation:
        """Leave out each figure of an encrypted tunnel in turn, and predict it from the others.

        Of more than MOST_TRIED figures, some at equal distances are tried.
        """
        cases = []
        encrypted = [(key, value) for key, value in self._logs.items() if key[1].is_encrypted]
        tried = encrypted[:: -(-len(encrypted) // MOST_TRIED) or 1]
        for (device, measurement), value in tried:
            found = self.predict(device, measurement)
            if found is not None and found.is_known:
                cases.append(LeftOutFigure(KnownFigure(device, measurement, math.exp(value)), found))
        return Validation(len(tried), tuple(cases))

    def most_informative(self, measurement: MeasuredTunnel) -> tuple[MeasuredTunnel, float] | None:
        """Return the measurement of another kind of tunnel that gives the narrowest interval, and its factor.

        The interval is that of the quotients of both, on the devices that have both; None: fewer than FEWEST_DEVICES
        devices have another one.
        """
        others = {other for device in self._of_measurement[measurement] for other in self._of_device[device]}
        factors = [
            (math.exp(2 * _quantile(own.count - 1) * math.sqrt(own.squared_error)), other)
            for other in others
            if other.kind != measurement.kind and other.method == measurement.method
            if (own := self._quotients(measurement, other)).count >= FEWEST_DEVICES
        ]
        factor, best = min(factors, default=(math.inf, None))
        return (best, factor) if best else None

    def shared_devices(self, kind: str) -> tuple[int, int]:
        """Return how many devices have a figure of an encrypted tunnel of a kind, and how many have another one, too.

        The other figure is of a tunnel of another kind that was measured alike; the most common one counts.
        """
        wanted = [each for each in self.measurements if each.kind == kind and each.is_encrypted]
        devices = {device for each in wanted for device in self._of_measurement[each]}
        both = [
            self._quotients(each, other).count
            for each in wanted
            for other in {other for device in self._of_measurement[each] for other in self._of_device[device]}
            if other.kind != kind and other.method == each.method
        ]
        return len(devices), max(both, default=0)

    def _cpu(self, device: str) -> str:
        return self._facts.get(device, CpuFacts()).cpu

    def _by_cpu(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict the mean of devices with the same CPU; the residuals are those of all devices that share a CPU."""
        cpu = self._cpu(device)
        changed = {
            (cpu, where): _spread(_without(self._groups[cpu, where], device))
            for where in self._of_device.get(device, {})
            if cpu and where.kind == measurement.kind
        }
        spreads = {**self._spreads, **changed} if changed else self._spreads
        squares, freedom = _residuals(spreads.values()) if changed else self._whole
        own = spreads.get((cpu, measurement))
        if own is None or not own.count or not freedom:
            return None
        return _prediction(own.mean, squares / freedom * (1 + 1 / own.count), freedom, Basis.SAME_CPU, own.count)

    def _by_other_tunnels(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict from a figure of the device through another kind of tunnel, and the quotient of both tunnels on at
        least FEWEST_DEVICES devices. Of several such tunnels, the one that most devices have counts."""
        found = [
            (own.count, other, own)
            for other in self._of_device.get(device, {})
            if other.kind != measurement.kind and other.method == measurement.method
            if (own := self._quotients(measurement, other, device)).count >= FEWEST_DEVICES
        ]
        if not found:
            return None
        count, other, own = max(found, key=lambda each: each[:2])
        mean = self._logs[device, other] + own.mean
        return _prediction(mean, own.squared_error, count - 1, Basis.OTHER_TUNNELS, 2 * count + 1)

    def _quotients(self, measurement: MeasuredTunnel, other: MeasuredTunnel, left_out: str | None = None) -> _Spread:
        """Return the logarithms of the quotients of two tunnels, on the devices that have both."""
        wanted, others = self._of_measurement.get(measurement, {}), self._of_measurement[other]
        if left_out in wanted:
            return _spread([wanted[name] - others[name] for name in wanted if name in others and name != left_out])
        key = measurement, other
        if key not in self._quotient_spreads:
            shared = (name for name in min(wanted, others, key=len) if name in wanted and name in others)
            self._quotient_spreads[key] = _spread([wanted[name] - others[name] for name in shared])
        return self._quotient_spreads[key]

    def _by_clock(self, device: str, measurement: MeasuredTunnel) -> PredictedFigure | None:
        """Predict from a line through the logarithms of clock and throughput of other devices."""
        if device not in self._log_clocks:
            return None
        if device in self._of_measurement.get(measurement, {}):
            line = self._line(measurement, device)
        else:
            if measurement not in self._lines:
                self._lines[measurement] = self._line(measurement)
            line = self._lines[measurement]
        if line is None:
            return None
        count, distance = line.clocks.count, self._log_clocks[device] - line.clocks.mean
        squared_error = line.squares / (count - 2) * (1 + 1 / count + distance * distance / line.clocks.squares)
        mean = line.throughput + line.slope * distance
        return _prediction(mean, squared_error, count - 2, Basis.CLOCK, count)

    def _line(self, measurement: MeasuredTunnel, left_out: str | None = None) -> _Line | None:
        """Return the line through the figures of a measurement; None if they do not determine it."""
        known, clocks_of = self._of_measurement.get(measurement, {}), self._log_clocks
        points = [(clocks_of[name], known[name]) for name in known if name in clocks_of and name != left_out]
        if len(points) < FEWEST_DEVICES or len({clock for clock, _ in points}) < 2:
            return None
        clocks = _spread([clock for clock, _ in points])
        middle = fmean(value for _, value in points)
        slope = math.fsum((clock - clocks.mean) * (value - middle) for clock, value in points) / clocks.squares
        residuals = (value - middle - slope * (clock - clocks.mean) for clock, value in points)
        return _Line(clocks, middle, slope, math.fsum(each * each for each in residuals))


def _spread(values: Collection[float]) -> _Spread:
    mean = fmean(values) if values else 0.0
    return _Spread(len(values), mean, math.fsum((value - mean) ** 2 for value in values))


def _residuals(spreads: Iterable[_Spread]) -> tuple[float, int]:
    """Return the sum of the squared residuals of all groups, and their degrees of freedom."""
    several = [each for each in spreads if each.count > 1]
    return math.fsum(each.squares for each in several), sum(each.count - 1 for each in several)


def _without(values: Mapping[str, float], name: str) -> list[float]:
    return [value for each, value in values.items() if each != name]


def _prediction(mean: float, squared_error: float, freedom: int, basis: Basis, figures: int) -> PredictedFigure | None:
    """Return a prediction from a mean of logarithms and its squared standard error; None: it is beyond all figures."""
    width = _quantile(freedom) * math.sqrt(squared_error)
    if not abs(mean) + width < LARGEST_LOGARITHM:
        return None
    return PredictedFigure(math.exp(mean), math.exp(mean - width), math.exp(mean + width), basis, figures)


@cache
def _quantile(freedom: int) -> float:
    return student_t_quantile((1 + PREDICTION_CONFIDENCE) / 2, freedom)
