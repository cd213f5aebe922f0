"""Results of other programs, read without trusting them, as published results: rows with method, source and date."""

from __future__ import annotations

import bz2
import csv
import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tomli_w

from tunnelbench.analysis.audit.decode import decode_text
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.reference import class_names
from tunnelbench.report.exchange.foreign import flent, iperf3, openssl_speed, spreadsheet, wg_bench
from tunnelbench.report.exchange.foreign.result import (
    NOT_KNOWN_CLASS,
    UNSTATED,
    ForeignResult,
    Mapped,
    Stated,
    columns_of,
    completed,
)

__all__ = ["FORMATS", "MAPPED_TABLE", "ForeignResult", "Mapped", "Stated", "described", "read_foreign", "recognised",
           "unpacked"]  # fmt: skip


@dataclass(frozen=True)
class ForeignFormat:
    """A format that is recognised by its content."""

    title: str
    recognises: Callable[[str], bool]
    read: Callable[[str], ForeignResult]


FORMATS: Mapping[str, ForeignFormat] = {
    "flent": ForeignFormat("data file of Flent", flent.recognises, flent.read),
    "iperf3": ForeignFormat("JSON of iperf3", iperf3.recognises, iperf3.read),
    "openssl-speed": ForeignFormat("output of openssl speed", openssl_speed.recognises, openssl_speed.read),
    "wg-bench": ForeignFormat("table of wg-bench", wg_bench.recognises, wg_bench.read),
}
"""Formats by name, in the order in which they are tried."""
MAPPED_TABLE = "table"
"""Name of the format that needs a mapping file."""

LARGEST_UNPACKED_BYTES = 16 << 20
"""Largest content of a file, after decompression [bytes]; a Flent test of an hour has some megabytes."""
ZIP = b"PK\x03\x04"


def unpacked(content: bytes) -> bytes:
    """Return the content of a file that may be compressed by gzip or bzip2.

    Raises WrongInput if it is too large, damaged or a spreadsheet file.
    """
    if content.startswith(ZIP):
        message = "it is a ZIP file, such as a spreadsheet in .xlsx or .ods"
        raise WrongInput(message, "save the sheet as CSV, and name that file with --mapping FILE")
    if content.startswith(b"\x1f\x8b"):
        content = _decompressed(content, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))
    elif content.startswith(b"BZh"):
        content = _decompressed(content, bz2.BZ2Decompressor)
    if len(content) > LARGEST_UNPACKED_BYTES:
        raise WrongInput(f"it holds more than {LARGEST_UNPACKED_BYTES >> 20} MiB", "import a part of it")
    return content


def _decompressed(content: bytes, opened: Callable[[], zlib._Decompress | bz2.BZ2Decompressor]) -> bytes:
    """Return the first stream of a compressed file, cut off one byte after the limit."""
    machine = opened()
    try:
        found = machine.decompress(content, LARGEST_UNPACKED_BYTES + 1)
    except (zlib.error, OSError, ValueError) as error:
        raise WrongInput(f"it cannot be decompressed: {error}", "copy the file again") from None
    if not machine.eof and len(found) <= LARGEST_UNPACKED_BYTES:
        raise WrongInput("its compressed content is cut off", "copy the file again")
    if machine.eof and machine.unused_data.strip(b"\0"):
        raise WrongInput("it has several compressed parts", "decompress it first")
    return found


def recognised(content: bytes) -> str | None:
    """Return the name of the format of a content; None if it is unknown."""
    text = content.decode("utf-8", "replace")
    return next((name for name, each in FORMATS.items() if each.recognises(text)), None)


def read_foreign(content: bytes, format_name: str, mapped: Mapped | None = None) -> ForeignResult:
    """Return the result in a file of a format. Raises WrongInput if it is not of that format, or is impossible."""
    text, _ = decode_text(content)
    if format_name == MAPPED_TABLE:
        if mapped is None:
            raise WrongInput("a table needs a file that states its columns", "add --mapping FILE; see docs/exchange.md")
        return spreadsheet.read(text, mapped)
    wanted = FORMATS[format_name]
    if not wanted.recognises(text):
        raise WrongInput(f"it is no {wanted.title}", f"formats: {', '.join((*FORMATS, MAPPED_TABLE))}")
    return wanted.read(text)


def described(result: ForeignResult, stated: Stated, file_name: str) -> tuple[str, str]:
    """Return the two texts of a reference: its description as TOML, and its rows as CSV.

    Raises WrongInput if the user states too little, or states what contradicts the file.
    """
    rows = completed(result, stated)
    if result.comparability and stated.comparability not in {"", result.comparability}:
        raise WrongInput(f"its figures have the class {result.comparability}", "leave --class out")
    comparability = stated.comparability or result.comparability or NOT_KNOWN_CLASS
    if comparability not in class_names():
        raise WrongInput(f"there is no class {printable(comparability)[:60]}", f"classes: {', '.join(class_names())}")
    columns = columns_of(rows)
    head: dict[str, Any] = {
        "title": result.title or file_name,
        "source": stated.source or result.source or f"file {file_name}",
        "date": stated.date or result.date or UNSTATED,
        "comparability": comparability,
        "method": result.method,
        "notes": [
            f"Imported from {file_name}, written by {result.program}: it is unknown who measured it and how.",
            *result.notes,
        ],
        "columns": columns,
    }
    if result.trials_per_row is not None:
        head["trials_per_row"] = result.trials_per_row
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return tomli_w.dumps(head), table.getvalue()
