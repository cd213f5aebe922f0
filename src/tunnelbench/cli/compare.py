"""`tunnelbench compare`: two results against each other, each a run or a reference."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tunnelbench.analysis.compare.comparison import PAIRS_FROM, TESTED_FROM, compare
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side
from tunnelbench.cli.finite import FiniteRange
from tunnelbench.cli.output import open_store, store_option
from tunnelbench.cli.report import chosen_format, format_options, write_sheet
from tunnelbench.model.errors import ExitCode, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan.wording import quoted
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.compare import sheet
from tunnelbench.store import default_path


@click.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--fail-on-regression",
    "fail_percent",
    type=FiniteRange(min=0, max=100),
    metavar="PCT",
    help="End with status 1 where B is tested to be worse by more than so many per cent.",
)
@format_options
@store_option
def command(  # noqa: PLR0917 - click hands them over by name
    a: str,
    b: str,
    fail_percent: float | None,
    format_name: str | None,
    as_json: bool,
    output: str | None,
    store_location: str | None,
) -> None:
    """Say what is faster, slower or a tie in B, compared with A.

    A and B are runs (`last`, an id, or the beginning of one) or published results (tunnelbench list references). A name
    that could be either is written run:NAME or reference:NAME. RUN#TUNNEL is one tunnel of a run: two of one run are
    compared round by round, so that no drift of the machine is taken for a difference.
    """
    chosen = chosen_format(format_name, as_json=as_json)
    location = store_location or default_path()
    found = compare(_side(a, location), _side(b, location))
    fail_share = None if fail_percent is None else fail_percent / 100
    write_sheet(sheet(found, fail_share=fail_share), chosen, output)
    if fail_share is None:
        return
    if not found.tested:
        raise WrongInput(
            "--fail-on-regression: no row can be tested, so that nothing could have failed",
            f"compare two tunnels of one run of {PAIRS_FROM} rounds or more"
            if found.is_paired
            else f"compare two runs of {TESTED_FROM} rounds or more of one plan",
        )
    if found.regressions(fail_share):
        sys.exit(ExitCode.CHECK_FAILED)


def _side(name: str, location: Path | str) -> Side:
    """The run or reference of that name; WrongInput where there is none."""
    noun, colon, rest = name.partition(":")
    if colon and noun == "reference":
        return side_of_reference(read_reference(rest))
    if not colon and name in reference_names():
        return side_of_reference(read_reference(name))
    wanted, hash_sign, tunnel = (rest if colon and noun == "run" else name).partition("#")
    if wanted in reference_names() and not colon:
        raise WrongInput(f"{quoted(wanted)} is a reference: RUN#TUNNEL takes a run", f"compare {quoted(wanted)} itself")
    try:
        with open_store(location) as store:
            run = store.run(wanted)
            side = side_of_run(run, store.trials(run.run_id, with_raw=False))
    except WrongInput as error:
        known = f"references: {', '.join(reference_names())}"
        hint = f"{error.hint}; {known}" if error.hint else known
        neither = "no run" if colon and noun == "run" else "no reference, and no run"
        raise WrongInput(f"{quoted(printable(wanted))} is {neither}: {error.message}", hint) from None
    return _one_tunnel(side, tunnel) if hash_sign else side


def _one_tunnel(side: Side, name: str) -> Side:
    found = side.only(name)
    if not found.rows:
        known = dict.fromkeys(quoted(printable(row.name)) for row in side.rows)
        raise WrongInput(f"run {side.name} has no tunnel {quoted(printable(name))}", f"it has {', '.join(known)}")
    return found
