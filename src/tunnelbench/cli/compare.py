"""`tunnelbench compare`: compare two results, each a run or a reference."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from tunnelbench.analysis.compare.comparison import PAIRS_FROM, TESTED_FROM, Comparison, compare
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side, SideRow
from tunnelbench.cli.common_options import has_colour, open_store, read_store_option, terminal_width
from tunnelbench.cli.completion import side_names
from tunnelbench.cli.param_types import FiniteRange
from tunnelbench.cli.report import chosen_format, format_options, write_sheet, write_text
from tunnelbench.cli.run_files import read_exported
from tunnelbench.model.errors import ExitCode, WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan.messages import quoted
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.compare import sheet
from tunnelbench.report.compare_screen import comparison_screen
from tunnelbench.report.document import Style
from tunnelbench.store.location import default_path
from tunnelbench.tunnel import weights

EXPORTED_SUFFIX = ".json"
"""Suffix of the files that are read as exported runs; no id of a run has this suffix."""


@click.command()
@click.argument("a", shell_complete=side_names)
@click.argument("b", shell_complete=side_names)
@click.option(
    "--fail-on-regression",
    "fail_percent",
    type=FiniteRange(min=0, max=100),
    metavar="PCT",
    help="Exit with status 1 if a statistical test finds B worse by more than PCT per cent, with 2 if a row cannot be "
    "tested.",
)
@click.option(
    "--within",
    "within_percent",
    type=FiniteRange(min=0, max=100),
    metavar="PCT",
    help="Exit with status 1 if a figure of B differs from A's by more than PCT per cent, and say what can cause it.",
)
@format_options
@click.option("--full", is_flag=True, help="Print tests, intervals and remarks of each figure, not one screen alone.")
@read_store_option
def command(  # noqa: PLR0917 - click hands them over by name
    a: str,
    b: str,
    fail_percent: float | None,
    within_percent: float | None,
    format_name: str | None,
    as_json: bool,
    output: str | None,
    store_location: str | None,
    *,
    full: bool,
) -> None:
    """Report for each row of B whether it is faster, slower or a tie, compared with A.

    A and B are runs (`last`, an id, or the beginning of one), files from tunnelbench export (FILE.json), or published
    results (tunnelbench list references). Write run:NAME or reference:NAME if a name could be either. RUN#TUNNEL is one
    tunnel of a run, by its name, the beginning of its name, or its kind. Two tunnels of one run are compared round by
    round, so that a drift of the machine does not look like a difference.
    """
    chosen = chosen_format(format_name, as_json=as_json)
    location = store_location or default_path()
    found = compare(_side(a, location), _side(b, location))
    if found.a.is_simulated and chosen == "csv":
        raise WrongInput("the runs are simulated, and --format csv has no place to say so", "choose another format")
    fail_share, within_share = (None if each is None else each / 100 for each in (fail_percent, within_percent))
    if chosen == "terminal" and not full:
        style = Style(terminal_width(), has_colour()) if output in {None, "-"} else Style()
        text = comparison_screen(found, style, fail_share=fail_share, within_share=within_share)
        write_text(text, output)
    else:
        write_sheet(sheet(found, weights(), fail_share=fail_share, within_share=within_share), chosen, output)
    if (within_share is not None or fail_share is not None) and found.unlike_speeds_mips:
        a_mips, b_mips = found.unlike_speeds_mips
        raise WrongInput(
            f"--within and --fail-on-regression: the router of A has {a_mips} MIPS and that of B {b_mips}",
            "compare two runs of one speed: --set speed_mips=... gives a run the other speed",
        )
    if within_share is not None:
        require_within(found, within_share)
    if fail_share is not None:
        require_no_regression(found, fail_share)


def require_within(found: Comparison, within_share: float) -> None:
    """End with status 1 if a figure differs by more than `within_share` (0.05 is 5 %), or is missing in B.

    Raises WrongInput if nothing is comparable.
    """
    if not found.judged(within_share):
        raise WrongInput("--within: no figure of the routers is on both sides", "compare two runs of one plan")
    if found.apart(within_share) or found.only_in_a:
        sys.exit(ExitCode.CHECK_FAILED)


MOST_NAMED = 3
"""Number of rows without a test that a message names."""


def require_no_regression(found: Comparison, fail_share: float) -> None:
    """End with status 1 if a tested figure of B is worse by more than `fail_share` (0.05 is 5 %).

    Raises WrongInput if nothing is tested, if B lacks a row of A, and if a matched row hides a regression because it
    has no tested figure.
    """
    if not found.rows:
        raise WrongInput("--fail-on-regression: no row of A is in B", "compare two runs of one plan")
    if not found.tested:
        raise WrongInput(
            "--fail-on-regression: no row can be tested: the runs have too few rounds",
            f"compare two tunnels of one run of {PAIRS_FROM} rounds or more"
            if found.is_paired
            else f"compare two runs of {TESTED_FROM} rounds or more of one plan",
        )
    if found.regressions(fail_share):
        sys.exit(ExitCode.CHECK_FAILED)
    if found.only_in_a or found.untested:
        raise WrongInput(
            f"--fail-on-regression: {'; '.join(_not_tested(found))}",
            "compare runs of one plan; see the reasons with --full, and measure with more rounds if trials are void",
        )


def _not_tested(found: Comparison) -> Iterator[str]:
    """Yield the rows of A that are not tested, with the reason."""
    lost = [pair.a for pair in found.untested if not pair.b.figures]
    few = [pair.a for pair in found.untested if pair.b.figures]
    if found.only_in_a:
        yield f"B lacks {_named(found.only_in_a)}, which A has"
    if lost:
        yield f"B has no figure of {_named(lost)}, which A has"
    if few:
        yield f"no figure of {_named(few)} can be tested: too few trials count, or a value is 0"


def _named(rows: Sequence[SideRow]) -> str:
    """Name the first rows, and state the number of the others."""
    named = [printable(f"{row.name} {row.place_in_words}".strip()) for row in rows[:MOST_NAMED]]
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    return f"{', '.join(named)}{more}"


def _side(name: str, location: Path | str) -> Side:
    """Return one side of a comparison, a run or reference, by its name. Raises WrongInput if there is none."""
    noun, colon, rest = name.partition(":")
    if colon and noun == "reference":
        return side_of_reference(read_reference(rest))
    if not colon and name in reference_names():
        return side_of_reference(read_reference(name))
    wanted, hash_sign, tunnel = (rest if colon and noun == "run" else name).partition("#")
    if wanted.endswith(EXPORTED_SUFFIX):
        found = read_exported(wanted)
        side = side_of_run(found.run, found.records)
        return _one_tunnel(side, tunnel) if hash_sign else side
    if wanted in reference_names() and not colon:
        raise WrongInput(f"{quoted(wanted)} is a reference: RUN#TUNNEL needs a run", f"compare {quoted(wanted)} itself")
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
    """Return the side with one tunnel: that of the name, else the first one of the kind or with such a beginning.

    An encrypted tunnel is preferred, and a remark of the side states which of several tunnels it is.
    """
    names = side.tunnels_like(name)
    if not side.rows:
        raise WrongInput(f"run {side.name} has no tunnel with figures to compare", "; ".join(side.remarks))
    if not names:
        known = dict.fromkeys(quoted(printable(row.name)) for row in side.rows)
        raise WrongInput(f"run {side.name} has no tunnel {quoted(printable(name))}", f"it has {', '.join(known)}")
    found = side.only(names[0])
    if len(names) == 1:
        return found
    text = f"{quoted(printable(name))} fits {len(names)} tunnels, and this is {quoted(printable(names[0]))}"
    return replace(found, remarks=(*found.remarks, text))
