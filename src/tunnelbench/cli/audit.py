"""`tunnelbench audit`: check if the figures of a published table agree with each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tunnelbench.analysis.audit.decode import LARGEST_TABLE_BYTES, decode_text
from tunnelbench.analysis.audit.tables import READERS
from tunnelbench.analysis.audit.verdict import audit
from tunnelbench.cli.param_types import FiniteRange
from tunnelbench.cli.report import chosen_format, format_options, write_sheet
from tunnelbench.cli.run_files import file_content
from tunnelbench.model.errors import ExitCode, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report.audit import sheet
from tunnelbench.tunnel import added_bytes


@click.command()
@click.argument("table")
@click.option("--input", "input_name", type=click.Choice(tuple(READERS)), help="Format of TABLE.  [default: guessed]")
@click.option(
    "--column",
    "columns",
    metavar="KEY=HEADING",
    multiple=True,
    help="Meaning of a column, such as throughput_mbps=Débit; may be repeated.",
)
@click.option(
    "--link-mbps",
    type=FiniteRange(min=0.001, max=1e6),
    help="Ethernet rate of the link [Mbit/s], if the table does not say.",
)
@click.option("--all", "every_row", is_flag=True, help="Also list the rows without a finding.")
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
    """Check whether the figures of TABLE agree with each other and are physically possible.

    TABLE is a file in CSV, Markdown, Textile or HTML, or - for standard input. Columns are recognised by their headings
    in English and French. The exit status is 1 if there is a finding.
    """
    chosen = chosen_format(format_name, as_json=as_json)
    try:
        text, encoding = decode_text(file_content(table, LARGEST_TABLE_BYTES, "name a file with a table"))
        found = audit(text, input_name, _keys(columns), link_mbps, added_bytes())
    except WrongInput as error:
        raise WrongInput(printable(f"{table}: {error.message}"), error.hint) from None
    name = "standard input" if table == "-" else Path(table).name
    write_sheet(sheet(found, printable(name), encoding, every_row=every_row), chosen, output)
    if found.found:
        sys.exit(ExitCode.CHECK_FAILED)


def _keys(columns: Sequence[str]) -> dict[str, str]:
    given = {}
    for each in columns:
        key, equals, heading = each.partition("=")
        if not (key and equals and heading):
            raise WrongInput(f"--column {printable(each)}: not KEY=HEADING", "such as --column throughput_mbps=Débit")
        given[key] = heading
    return given
