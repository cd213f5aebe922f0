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
from tunnelbench.store.location import default_path


@dataclass(frozen=True)
class Listing:
    """The content of a list, for programs (`entries`) and for people (`rows`)."""

    entries: Sequence[Mapping[str, Any]]
    header: Sequence[str]
    rows: Sequence[Sequence[str | int | Text]]
    numbers: Collection[int] = ()
    """Positions of the columns that hold numbers and are aligned right."""


def runs(location: Path | str) -> Listing:
    """Return the runs of a store, newest first; none if there is no store yet."""
    found: Sequence[RunRecord] = ()
    if not is_store_missing(location):
        with open_store(location) as store:
            found = store.runs()
    fields = ("run_id", "started_at", "ended_at", "status", "plan_name", "plan_title", "testbed_name",
              "trials_recorded", "trials_planned", "tunnelbench_version")  # fmt: skip
    entries = [{field: getattr(run, field) for field in fields} for run in found]
    rows = [
        (
            run.run_id,
            run.started_at[:16].replace("T", " "),
            word(run.status),
            f"{run.trials_recorded}/{run.trials_planned}",
            run.plan_name,
            run.testbed_name,
        )
        for run in found
    ]
    return Listing(entries, ("run", "started (UTC)", "status", "trials", "plan", "testbed"), rows, numbers=(3,))


SHIPPED = ("plans", "testbeds", "tunnels", "references")
"""Nouns that `list` accepts for shipped items; each is a function of `tunnelbench.cli.catalog`."""


@click.command()
@click.argument("noun", type=click.Choice((*SHIPPED, "runs")))
@log_options
@json_option
@read_store_option
def command(noun: str, as_json: bool, store_location: str | None) -> None:
    """List the shipped plans, testbeds or references, the kinds of tunnels, or the stored runs, newest first."""
    if noun == "runs":
        listing = runs(store_location or default_path())
    else:
        listing = getattr(import_module("tunnelbench.cli.catalog"), noun)()
    if as_json:
        emit_json(listing.entries)
    elif listing.rows:
        emit(drawn(columns(listing.rows, listing.header, numbers=listing.numbers)))
    else:
        say("There are no runs yet. Measure: tunnelbench run")
