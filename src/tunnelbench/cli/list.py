"""`tunnelbench list`: list plans, testbeds, tunnels, references or runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit, emit_json, is_store_missing, json_option, open_store, read_store_option
from tunnelbench.cli.layout import columns, drawn, word
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.result import RunRecord
from tunnelbench.model.text import counted
from tunnelbench.store.location import default_path


@dataclass(frozen=True)
class Listing:
    """The content of a list, for programs (`entries`) and for people (`rows`)."""

    entries: Sequence[Mapping[str, Any]]
    header: Sequence[str]
    rows: Sequence[Sequence[str | int | Text]]
    numbers: Collection[int] = ()
    """Positions of the columns that hold numbers and are aligned right."""
    left_out: int = 0
    """Number of runs that are not in the list."""


SHOWN_RUNS = 200
"""Number of runs that the table has by default."""


def runs(location: Path | str, newest: int | None) -> Listing:
    """Return the newest runs of a store, or all of them, newest first; none if there is no store yet."""
    found: Sequence[RunRecord] = ()
    older = 0
    if not is_store_missing(location):
        with open_store(location) as store:
            found = store.runs(newest=newest)
            older = store.count_runs() - len(found) if len(found) == newest else 0
    fields = ("run_id", "started_at", "ended_at", "status", "plan_name", "plan_title", "testbed_name",
              "trials_recorded", "trials_planned", "tunnelbench_version")  # fmt: skip
    entries = [{**{field: getattr(run, field) for field in fields}, "is_simulated": run.is_simulated} for run in found]
    rows = [
        (
            run.run_id,
            run.started_at[:16].replace("T", " "),
            word(run.status),
            f"{run.trials_recorded}/{run.trials_planned}",
            run.plan_name,
            run.testbed_name + " (simulated)" * run.is_simulated,
        )
        for run in found
    ]
    return Listing(entries, ("run", "started (UTC)", "status", "trials", "plan", "testbed"), rows, (3,), older)


SHIPPED = ("plans", "testbeds", "tunnels", "references")
"""Nouns that `list` accepts for shipped items; each is a function of `tunnelbench.cli.catalog`."""


@click.command()
@click.argument("noun", type=click.Choice((*SHIPPED, "runs")))
@click.option(
    "--newest", type=click.IntRange(1, 2**31), metavar="N", help=f"So many runs.  [default: {SHOWN_RUNS}; in JSON all]"
)
@log_options
@json_option
@read_store_option
def command(noun: str, newest: int | None, as_json: bool, store_location: str | None) -> None:
    """List the shipped plans, testbeds or references, the kinds of tunnels, or the stored runs, newest first."""
    if noun == "runs":
        listing = runs(store_location or default_path(), newest or (None if as_json else SHOWN_RUNS))
    else:
        listing = getattr(import_module("tunnelbench.cli.catalog"), noun)()
    if as_json:
        emit_json(listing.entries)
    elif listing.rows:
        emit(drawn(columns(listing.rows, listing.header, numbers=listing.numbers)))
        if listing.left_out:
            say(f"and {counted(listing.left_out, 'older run')}: add --newest {listing.left_out + len(listing.rows)}")
    else:
        say("There are no runs yet. Measure: tunnelbench run")
