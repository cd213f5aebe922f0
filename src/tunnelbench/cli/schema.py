"""`tunnelbench schema`: write the JSON Schema of a JSON output."""

from __future__ import annotations

import click

from tunnelbench.cli.common_options import emit_json
from tunnelbench.report.schema import SCHEMAS, schema


@click.command()
@click.argument("what", type=click.Choice(tuple(SCHEMAS)))
def command(what: str) -> None:
    """Write the JSON Schema of WHAT: a report as JSON, an exported run, or the index.json of a site."""
    emit_json(schema(what))
