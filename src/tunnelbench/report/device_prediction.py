"""Predicts figures that no publication has, for devices that were measured with other tunnels, or share a CPU."""

from __future__ import annotations

from collections.abc import Sequence
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
from tunnelbench.report.site.device_names import device_key


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


def predicted_devices(rows: Sequence[RankedRow], tunnel: str) -> PredictedDevices:
    """Return the predicted rows of all devices that have no figure of a kind of tunnel, the fastest first.

    `rows` are all figures, unencrypted ones among them, because they show how fast the device is. Of several encrypted
    variants, one with a digest, and of those the fastest, stands for the device. Lower bounds and line speeds are left
    out: they are no figures of the device.
    """
    names: dict[str, str] = {}
    facts: dict[str, CpuFacts] = {}
    for row in rows:
        key = device_key(row.device)
        names.setdefault(key, row.device)
        if row.cpu and key not in facts:
            facts[key] = CpuFacts(" ".join(row.cpu.lower().rstrip("* ").split()), row.clock_mhz)
    lacks_digest = {_measurement(row): row.lacks_digest for row in rows}
    exact = [row for row in rows if not row.is_lower_bound and row.throughput_mbps > 0]
    predictor = Predictor(
        [KnownFigure(device_key(row.device), _measurement(row), row.throughput_mbps) for row in exact], facts
    )
    validation = predictor.validate()
    wanted = [each for each in predictor.measurements if each.kind == tunnel and each.is_encrypted]
    measured = {device_key(row.device) for row in rows if row.tunnel == tunnel and row.is_encrypted}
    found: list[PredictedRow] = []
    for key in sorted(names.keys() - measured):
        best: dict[str, tuple[MeasuredTunnel, PredictedFigure]] = {}
        for measurement in wanted:
            prediction = predictor.predict(key, measurement)
            if prediction is None or not prediction.is_known:
                continue
            held = best.get(measurement.direction)
            order = not lacks_digest[measurement], prediction.mbps
            if held is None or order > (not lacks_digest[held[0]], held[1].mbps):
                best[measurement.direction] = measurement, prediction
        for measurement, prediction in best.values():
            tried = validation.of(prediction.basis)
            found.append(
                PredictedRow(
                    device=names[key],
                    cpu=facts[key].cpu if key in facts else None,
                    tunnel=tunnel,
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
            )
    found.sort(key=lambda row: (-row.throughput_mbps, row.device, row.direction or ""))
    candidates = [(each, predictor.most_informative(each)) for each in wanted]
    informative = [(each, *other) for each, other in candidates if other]
    without = len(names.keys() - measured) - len({row.device for row in found})
    return PredictedDevices(tuple(found), without, validation, tuple(informative))


def _measurement(row: RankedRow) -> MeasuredTunnel:
    return MeasuredTunnel(row.comparability, row.tunnel, row.variant, row.direction or "", bool(row.is_encrypted))
