"""`tunnelbench check`: list every error in plan and testbed files."""

from __future__ import annotations

import sys

import click

from tunnelbench.cli.common_options import emit, emit_json, json_option
from tunnelbench.cli.completion import checked_names, testbed_names
from tunnelbench.model.errors import ExitCode
from tunnelbench.model.text import printable
from tunnelbench.plan import check_file, read_testbed
from tunnelbench.testbed import KINDS, refused_in_plans
from tunnelbench.tunnel import PLANNED, option_schemas, plan_entries


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=checked_names)
@click.option(
    "--on",
    "testbed",
    metavar="TESTBED",
    shell_complete=testbed_names,
    help="Also check that the plans can run on this testbed.",
)
@json_option
def command(files: tuple[str, ...], testbed: str | None, as_json: bool) -> None:
    """List every error in plan and testbed FILEs, each as `file:line:column: key: error`.

    A FILE is the name of a shipped plan or testbed, or a path, as for `run`. The exit status is 1 if there is an error.
    """
    schemas = option_schemas()
    refused = refused_in_plans(read_testbed(testbed, KINDS).testbed) if testbed else {}
    tunnels = plan_entries()
    found = {file: check_file(file, schemas, KINDS, PLANNED, refused, shipped_tunnels=tunnels) for file in files}
    if as_json:
        emit_json([{"file": file, "errors": errors} for file, errors in found.items()])
    else:
        for file, errors in found.items():
            emit("".join(f"{error}\n" for error in errors) or f"{printable(file)}: ok\n")
    if any(found.values()):
        sys.exit(ExitCode.CHECK_FAILED)
