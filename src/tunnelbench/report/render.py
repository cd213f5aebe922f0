"""Entry of the reports: a run or a sheet in one format, which is a module of the package `formats`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.report.document import SoakReport, Style, compose
from tunnelbench.report.formats import report_format, sheet_format
from tunnelbench.report.sheet import Sheet

IMAGE_FORMATS = ("png", "svg")
"""Formats of charts as images; a report in one of them is several files."""


def render(
    run: RunRecord,
    records: Sequence[TrialRecord],
    format_name: str,
    width: int | None = None,
    *,
    colour: bool = False,
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
    soaks: Sequence[SoakReport] = (),
    full: bool = True,
    allow_plaintext: bool = False,
) -> str:
    """Return the report of a run in one format; it ends with a newline.

    `width` [columns], `colour` and `full` are for formats that are read in a terminal. `target_mbps`: throughput that
    the advice is about. `speeds`: of ciphers without a tunnel. Tunnels that do not encrypt are recommended only with
    `allow_plaintext`. Raises WrongInput if there is no such format.
    """
    found = report_format(format_name)
    document = compose(run, records, target_mbps, speeds, soaks, allow_plaintext=allow_plaintext)
    return found.render(document, Style(width, colour, full))


def render_sheet(sheet: Sheet, format_name: str, style: Style | None = None) -> str:
    """Return a sheet in one format; it ends with a newline. Raises WrongInput if no such format can hold one."""
    return sheet_format(format_name).render_sheet(sheet, style or Style())


def render_images(
    run: RunRecord,
    records: Sequence[TrialRecord],
    format_name: str,
    *,
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
    soaks: Sequence[SoakReport] = (),
    allow_plaintext: bool = False,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a file for each chart of a run. Raises CannotHere if no library can draw them."""
    from tunnelbench.report.charts.files import chart_files  # noqa: PLC0415 - not needed by any other format

    document = compose(run, records, target_mbps, speeds, soaks, allow_plaintext=allow_plaintext)
    return chart_files(document, format_name)
