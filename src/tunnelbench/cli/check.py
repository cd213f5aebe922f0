"""`tunnelbench check`: every error in plan and testbed files."""

from __future__ import annotations

import sys

import click

from tunnelbench.cli.output import emit, emit_json, json_option
from tunnelbench.model.errors import ExitCode
from tunnelbench.model.text import printable
from tunnelbench.plan import check_file
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Name every error in plan and testbed FILEs, each as `file:line:column: key: what is wrong`.

    Ends with status 1 where there is one.
    """
    schemas = option_schemas()
    found = {file: check_file(file, schemas, PLANNED, KINDS) for file in files}
    if as_json:
        emit_json([{"file": file, "errors": errors} for file, errors in found.items()])
    else:
        for file, errors in found.items():
            emit("".join(f"{error}\n" for error in errors) or f"{printable(file)}: ok\n")
    if any(found.values()):
        sys.exit(ExitCode.CHECK_FAILED)
