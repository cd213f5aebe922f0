"""Reports are made from stored results alone: one module a format in `formats`, named as the format is."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.report import formats
from tunnelbench.report.document import Style, compose

FORMATS = tuple(sorted(module.name for module in pkgutil.iter_modules(formats.__path__)))
"""Names of all formats."""

IMAGE_FORMATS = ("png", "svg")
"""Formats of charts, which are several files."""


def render(
    run: RunRecord,
    records: Sequence[TrialRecord],
    format_name: str,
    width: int | None = None,
    *,
    colour: bool = False,
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
) -> str:
    """The report of a run in one format, ending with a newline.

    `width` [columns] and `colour` are for formats that are read in a terminal; the others ignore them. `target_mbps`:
    the advice says whether so much goes through each tunnel; `speeds`: of the ciphers by themselves. WrongInput where
    there is no such format.
    """
    if format_name not in FORMATS:
        raise WrongInput(f"there is no report format {format_name!r}", hint=f"formats: {', '.join(FORMATS)}")
    module = import_module(f"{formats.__name__}.{format_name}")
    text: str = module.render(compose(run, records, target_mbps, speeds), Style(width, colour))
    return text


def render_images(
    run: RunRecord,
    records: Sequence[TrialRecord],
    format_name: str,
    *,
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
) -> Iterator[tuple[str, bytes]]:
    """Name and content of a file for each chart of a run; CannotHere where what draws them is missing."""
    from tunnelbench.report.charts.files import chart_files  # noqa: PLC0415 - not needed by any other format

    return chart_files(compose(run, records, target_mbps, speeds), format_name)
