"""`tunnelbench schema`: what the JSON looks like that TunnelBench writes."""

from __future__ import annotations

import click

from tunnelbench.cli.output import emit_json
from tunnelbench.report.schema import SCHEMAS, schema


@click.command()
@click.argument("what", type=click.Choice(tuple(SCHEMAS)))
def command(what: str) -> None:
    """Write the JSON Schema of WHAT: a report as JSON, an exported run, or the index.json of a site."""
    emit_json(schema(what))
