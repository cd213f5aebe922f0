"""Predicts figures that no publication has, for devices that were measured with other tunnels, or share a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.prediction import (
    Basis,
    CpuFacts,
    KnownFigure,
    MeasuredTunnel,
    PredictedFigure,
    Predictor,
    Validation,
)
from tunnelbench.report.device_ranking import RankedRow
from tunnelbench.report.site.device_names import cpu_key, device_key


@dataclass(frozen=True)
class PredictedRow:
    """The predicted throughput of a device through a kind of tunnel in one direction."""

    device: str
    cpu: str | None
    tunnel: str
    variant: str
    direction: str | None
    throughput_mbps: float
    low_mbps: float
    high_mbps: float
    basis: Basis
    figures: int
    """Number of published figures that it depends on."""
    comparability: str
    """Class of the figures, and so of the prediction."""
    tried: int
    """Number of figures that were left out in turn and predicted from the same basis."""
    covered: int
    """Number of those that were inside their interval."""
    median_error: float | None
    """Median error of those, as a share: 0.1 means 10 %."""


@dataclass(frozen=True)
class PredictedDevices:
    """The predictions for a kind of tunnel."""

    rows: tuple[PredictedRow, ...]
    not_known: int
    """Number of devices without a figure that have no prediction, or one that is too wide."""
    validation: Validation
    """Test of the method with the figures of all tunnels."""
    informative: tuple[tuple[MeasuredTunnel, MeasuredTunnel, float], ...]
    """Measurements of this kind of tunnel, each with that of another kind which gives the narrowest interval, and the
    factor of this interval."""
    with_tunnel: int
    """Number of devices with a figure of this kind that predictions may use."""
    with_both: int
    """Largest number of those that also have a figure of one tunnel of another kind, measured alike."""


def predicted_devices(rows: Sequence[RankedRow], tunnel: str) -> PredictedDevices:
    """Return the predicted rows of all devices that have no figure of a kind of tunnel, the fastest first.

    `rows` are all figures, unencrypted ones among them, because they show how fast the device is. Of several encrypted
    variants, one with a digest, and of those the fastest, stands for the device. Lower bounds and line speeds are left
    out: they are no figures of the device.
    """
    return Predictions(rows).of(tunnel)


class Predictions:
    """Predicts each kind of tunnel from the same figures, which are tested once."""

    def __init__(self, rows: Sequence[RankedRow]) -> None:
        self._rows = rows
        self._names: dict[str, str] = {}
        self._facts: dict[str, CpuFacts] = {}
        for row in rows:
            key = device_key(row.device)
            self._names.setdefault(key, row.device)
            if row.cpu and key not in self._facts:
                self._facts[key] = CpuFacts(cpu_key(row.cpu), row.clock_mhz)
        self._lacks_digest = {_measurement(row): row.lacks_digest for row in rows}
        exact = [row for row in rows if not row.is_lower_bound and row.throughput_mbps > 0]
        figures = [KnownFigure(device_key(row.device), _measurement(row), row.throughput_mbps) for row in exact]
        self._predictor = Predictor(figures, self._facts)
        self.validation = self._predictor.validate()

    @property
    def tunnels(self) -> list[str]:
        """The kinds of tunnels with a figure of an encrypted variant."""
        return sorted({each.kind for each in self._predictor.measurements if each.is_encrypted})

    def of(self, tunnel: str) -> PredictedDevices:
        """Return the predictions for a kind of tunnel."""
        predictor = self._predictor
        wanted = [each for each in predictor.measurements if each.kind == tunnel and each.is_encrypted]
        measured = {device_key(row.device) for row in self._rows if row.tunnel == tunnel and row.is_encrypted}
        missing = sorted(self._names.keys() - measured)
        found = [row for key in missing for row in self._of_device(key, wanted)]
        found.sort(key=lambda row: (-row.throughput_mbps, row.device, row.direction or ""))
        candidates = [(each, predictor.most_informative(each)) for each in wanted]
        informative = [(each, *other) for each, other in candidates if other]
        without = len(missing) - len({row.device for row in found})
        return PredictedDevices(
            tuple(found), without, self.validation, tuple(informative), *predictor.shared_devices(tunnel)
        )

    def _of_device(self, key: str, wanted: Sequence[MeasuredTunnel]) -> Iterator[PredictedRow]:
        """Yield the prediction of the best variant in each direction."""
        best: dict[str, tuple[MeasuredTunnel, PredictedFigure]] = {}
        for measurement in wanted:
            prediction = self._predictor.predict(key, measurement)
            if prediction is None or not prediction.is_known:
                continue
            held = best.get(measurement.direction)
            order = not self._lacks_digest[measurement], prediction.mbps
            if held is None or order > (not self._lacks_digest[held[0]], held[1].mbps):
                best[measurement.direction] = measurement, prediction
        for measurement, prediction in best.values():
            tried = self.validation.of(prediction.basis)
            yield PredictedRow(
                device=self._names[key],
                cpu=self._facts[key].cpu if key in self._facts else None,
                tunnel=measurement.kind,
                variant=measurement.variant,
                direction=measurement.direction or None,
                throughput_mbps=prediction.mbps,
                low_mbps=prediction.low_mbps,
                high_mbps=prediction.high_mbps,
                basis=prediction.basis,
                figures=prediction.figures,
                comparability=measurement.method,
                tried=len(tried.cases),
                covered=tried.covered,
                median_error=tried.median_error,
            )


def _measurement(row: RankedRow) -> MeasuredTunnel:
    return MeasuredTunnel(row.comparability, row.tunnel, row.variant, row.direction or "", bool(row.is_encrypted))
