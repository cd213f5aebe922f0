"""`tunnelbench audit`: a published table held against itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tunnelbench.analysis.audit.decode import LARGEST_BYTES, decoded
from tunnelbench.analysis.audit.tables import READERS
from tunnelbench.analysis.audit.verdict import audit
from tunnelbench.cli.finite import FiniteRange
from tunnelbench.cli.report import chosen_format, format_options, write_sheet
from tunnelbench.model.errors import ExitCode, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report.audit import sheet


@click.command()
@click.argument("table")
@click.option("--input", "input_name", type=click.Choice(tuple(READERS)), help="What it is.  [default: by its looks]")
@click.option(
    "--column",
    "columns",
    metavar="KEY=HEADING",
    multiple=True,
    help="What a column is, such as throughput_mbps=Débit; may be given several times.",
)
@click.option(
    "--link-mbps",
    type=FiniteRange(min=0.001, max=1e6),
    help="Ethernet rate of the link, if the table is silent.",
)
@click.option("--all", "every_row", is_flag=True, help="List the rows without a finding, too.")
@format_options
def command(  # noqa: PLR0917 - click hands them over by name
    table: str,
    input_name: str | None,
    columns: tuple[str, ...],
    link_mbps: float | None,
    every_row: bool,
    format_name: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Hold the figures of TABLE against each other and against what is possible.

    TABLE is a file with CSV, Markdown, Textile or HTML in it, or - for standard input. Columns are recognised by their
    headings in English and French. Ends with status 1 where something was found.
    """
    chosen = chosen_format(format_name, as_json=as_json)
    try:
        text, encoding = decoded(_read(table))
        found = audit(text, input_name, _keys(columns), link_mbps)
    except WrongInput as error:
        raise WrongInput(printable(f"{table}: {error.message}"), error.hint) from None
    name = "standard input" if table == "-" else Path(table).name
    write_sheet(sheet(found, printable(name), encoding, every_row=every_row), chosen, output)
    if found.found:
        sys.exit(ExitCode.CHECK_FAILED)


def _read(table: str) -> bytes:
    try:
        if table == "-":
            return sys.stdin.buffer.read(LARGEST_BYTES + 1)
        with Path(table).open("rb") as stream:
            return stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"cannot be read: {why.lower()}", "name a file that holds a table") from None


def _keys(columns: Sequence[str]) -> dict[str, str]:
    given = {}
    for each in columns:
        key, equals, heading = each.partition("=")
        if not (key and equals and heading):
            raise WrongInput(f"--column {printable(each)}: not KEY=HEADING", "such as --column throughput_mbps=Débit")
        given[key] = heading
    return given
