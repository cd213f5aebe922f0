"""Prints predictions for devices that nobody measured with a tunnel, for `tunnelbench devices --predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.analysis.number_format import percent_in_words, significant
from tunnelbench.analysis.prediction import FEWEST_DEVICES, PREDICTION_CONFIDENCE, WIDEST_FACTOR
from tunnelbench.cli.layout import cell, columns, title
from tunnelbench.model.plan import direction_label
from tunnelbench.model.text import counted
from tunnelbench.report.device_prediction import PredictedDevices, PredictedRow

MOST_INFORMATIVE = 3
"""Largest number of sentences on measurements that would narrow a prediction most."""
INTERVAL = f"{PREDICTION_CONFIDENCE * 100:.0f} % interval"


def predicted_text(row: PredictedRow) -> str:
    low, high = significant(row.low_mbps, 2), significant(row.high_mbps, 2)
    return f"{significant(row.throughput_mbps, 2)} ({low} to {high})"


def tried_text(row: PredictedRow) -> str:
    error = "" if row.median_error is None else f"{percent_in_words(row.median_error)}, "
    return f"{error}{row.covered} of {row.tried}"


PREDICTION_COLUMNS: Sequence[tuple[str, Callable[[PredictedRow], str]]] = (
    ("Mbit/s", predicted_text),
    ("device", lambda row: row.device),
    ("tunnel, cipher", lambda row: row.variant),
    ("direction", lambda row: direction_label(row.direction or "")),
    ("predicted from", lambda row: f"{row.basis}: {counted(row.figures, 'figure')}, {row.comparability}"),
    ("error, held", tried_text),
)
"""Title of each column, and its text. A column without any text is left out."""


def prediction_parts(found: PredictedDevices, target_mbps: float | None) -> Iterator[RenderableType]:
    """Yield the table of predictions that may reach a target, and the sentences below it."""
    rows = [row for row in found.rows if target_mbps is None or row.high_mbps >= target_mbps]
    yield title("Predicted throughput of TCP with large packets, for devices that nobody measured with this tunnel")
    if rows:
        shown = [(name, text) for name, text in PREDICTION_COLUMNS if any(text(row) for row in rows)]
        yield columns([[text(row) for _, text in shown] for row in rows], [name for name, _ in shown], numbers=[])
        yield cell(
            f"Mbit/s: the prediction and its {INTERVAL}. Error, held: the median error of such predictions of "
            "published figures, and how many of those figures were inside their interval."
        )
    else:
        yield cell("No device has a prediction" + (" that may reach the target." if found.rows else "."))
    yield Text()
    yield cell(
        f"Not known for {counted(found.not_known, 'more device')}: no figure of theirs, and none of a device with the "
        f"same CPU, gives an interval whose ends differ by a factor of less than {WIDEST_FACTOR:g}."
    )
    tried, error = found.validation, found.validation.median_error
    yield cell(
        f"{tried.tested} {len(tried.cases)} had a prediction; the {INTERVAL} held {tried.covered} of them"
        f"{'' if error is None else f', and the median error was {percent_in_words(error)}'}."
    )


def informative(found: PredictedDevices, tunnel: str) -> Iterator[RenderableType]:
    """Yield sentences on the measurements that would narrow a prediction most, the most informative one first."""
    ordered = sorted(found.informative, key=lambda each: each[2])[:MOST_INFORMATIVE]
    for wanted, other, factor in ordered:
        yield cell(
            f"To predict {wanted.variant}, measure {other.variant} on the device: the ends of the interval would then "
            f"differ by a factor of {significant(factor, 2)}."
        )
    if not ordered:
        yield cell(
            f"No other tunnel helps to predict {tunnel}: usable figures of {tunnel} come from "
            f"{counted(found.with_tunnel, 'device')}, figures of {tunnel} and of another tunnel that were measured "
            f"alike come from {found.with_both}, and {FEWEST_DEVICES} are needed. Measure {tunnel} itself on the "
            "device, or on another one with the same CPU."
        )


def prediction_entry(measured: Sequence[object], found: PredictedDevices) -> dict[str, object]:
    """Return rankings and predictions for programs."""
    tried = found.validation
    return {
        "measured": measured,
        "predicted": [asdict(row) for row in found.rows],
        "not_known_devices": found.not_known,
        "devices_with_tunnel": found.with_tunnel,
        "devices_with_both": found.with_both,
        "devices_with_both_needed": FEWEST_DEVICES,
        "confidence": PREDICTION_CONFIDENCE,
        "validation": {
            "figures": tried.figures,
            "kinds": sorted({case.figure.measurement.kind for case in tried.cases}),
            "predicted": len(tried.cases),
            "covered": tried.covered,
            "median_error": tried.median_error,
        },
        "most_informative": [
            {"to_predict": wanted.variant, "measure": other.variant, "interval_factor": factor}
            for wanted, other, factor in found.informative
        ],
    }
