"""The ranking and the predictions of a site: rows of `tunnelbench devices` with links to the pages of the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tunnelbench.analysis.number_format import percent_in_words, significant
from tunnelbench.analysis.prediction import PREDICTION_CONFIDENCE, WIDEST_FACTOR, Validation
from tunnelbench.model.plan import direction_label
from tunnelbench.model.reference import Reference
from tunnelbench.report.device_prediction import PredictedRow, Predictions
from tunnelbench.report.device_ranking import RankedRow, RankingLimits, all_rows, rank
from tunnelbench.report.site.device_names import device_key
from tunnelbench.report.site.gather import DeviceFacts, GatheredRun


@dataclass(frozen=True)
class RankingLine:
    """A row of the ranking as text."""

    device: str
    href: str
    tunnel: str
    kind: str
    direction: str
    mbps: str
    price: str
    watts: str
    mbps_per_eur: str
    mbps_per_watt: str
    marks: str
    comparability: str
    date: str
    where: str
    where_href: str
    source: str


@dataclass(frozen=True)
class PredictionLine:
    """A prediction as text."""

    device: str
    href: str
    tunnel: str
    direction: str
    mbps: str
    interval: str
    basis: str
    tried: str
    """Median error and coverage of such predictions."""


@dataclass(frozen=True)
class SiteRanking:
    """The ranking of encrypted tunnels, and the predictions for devices without a figure."""

    rows: tuple[RankedRow, ...]
    predicted: tuple[PredictedRow, ...]
    validation: Validation

    @property
    def kinds(self) -> list[str]:
        return sorted({row.tunnel for row in self.rows})

    @property
    def tried(self) -> str:
        """Sentences on the test of the predictions."""
        found = self.validation
        error = (
            "" if found.median_error is None else f", and the median error was {percent_in_words(found.median_error)}"
        )
        return (
            f"{found.tested} {len(found.cases)} had a prediction; the {PREDICTION_CONFIDENCE * 100:.0f} % interval "
            f"held {found.covered} of them{error}. A device is left out if the ends of its interval differ by more "
            f"than a factor of {WIDEST_FACTOR:g}: its throughput is not known."
        )

    def for_programs(self) -> Mapping[str, Any]:
        """Return the content of `ranking.json`."""
        return {
            "rows": [row.for_programs() for row in self.rows],
            "predicted": [asdict(row) for row in self.predicted],
            "validation": {
                "figures": self.validation.figures,
                "predicted": len(self.validation.cases),
                "covered": self.validation.covered,
                "median_error": self.validation.median_error,
            },
        }

    def lines(self, pages: Mapping[str, str], references: Sequence[Reference]) -> list[RankingLine]:
        """Return the rows as text; `pages` has the page of each device, by `device_key`."""
        published = {reference.name for reference in references}
        return [
            RankingLine(
                device=row.device,
                href=pages[device_key(row.device)],
                tunnel=row.variant,
                kind=row.tunnel,
                direction=direction_label(row.direction or "") or "not stated",
                mbps=row.text,
                price=_text(row.price_eur),
                watts=_text(row.power_w),
                mbps_per_eur=_text(row.mbps_per_eur),
                mbps_per_watt=_text(row.mbps_per_watt),
                marks=row.remarks,
                comparability=row.comparability,
                date=row.date,
                where=row.where,
                where_href=f"{'references' if row.where in published else 'runs'}/{row.where}.html",
                source=row.source,
            )
            for row in self.rows
        ]

    def predictions(self, pages: Mapping[str, str], device: str | None = None) -> list[PredictionLine]:
        """Return the predictions as text, of all devices or of one."""
        key = None if device is None else device_key(device)
        return [
            PredictionLine(
                device=row.device,
                href=pages[device_key(row.device)],
                tunnel=row.variant,
                direction=direction_label(row.direction or "") or "not stated",
                mbps=significant(row.throughput_mbps, 2),
                interval=f"{significant(row.low_mbps, 2)} to {significant(row.high_mbps, 2)}",
                basis=f"{row.basis}, {row.comparability}",
                tried=f"{'' if row.median_error is None else percent_in_words(row.median_error) + ', '}{row.covered} "
                f"of {row.tried}",
            )
            for row in self.predicted
            if key in {None, device_key(row.device)}
        ]


def site_ranking(
    runs: Sequence[GatheredRun], references: Sequence[Reference], given: Mapping[str, DeviceFacts]
) -> SiteRanking:
    """Return the ranking of all encrypted tunnels, and the predictions of all kinds of them.

    A run takes part if its router is a machine of its own: the figures of a guest are those of no device.
    """
    taking_part = [run for run in runs if run.known.is_router]
    predictions = Predictions(all_rows(taking_part, references))
    predicted = [row for tunnel in predictions.tunnels for row in predictions.of(tunnel).rows]
    rows = rank(taking_part, references, given, RankingLimits()).rows
    return SiteRanking(rows, tuple(predicted), predictions.validation)


def _text(value: float | None) -> str:
    return "" if value is None else significant(value)
