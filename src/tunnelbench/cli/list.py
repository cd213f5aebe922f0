"""`tunnelbench list`: the plans, testbeds, tunnels, references and runs that there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from tunnelbench.cli.drawing import columns, drawn, reasoned, word
from tunnelbench.cli.needs import availability, kinds
from tunnelbench.cli.output import (
    duration_text,
    emit,
    emit_json,
    is_store_missing,
    json_option,
    link_text,
    open_store,
    store_option,
)
from tunnelbench.host.readiness import probing_host
from tunnelbench.model.result import RunRecord
from tunnelbench.plan import read_plan, read_testbed, shipped_plans, shipped_testbeds
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.store import default_path
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas


@dataclass(frozen=True)
class Listing:
    """What is listed, for programs and for people."""

    entries: Sequence[Mapping[str, Any]]
    header: Sequence[str]
    rows: Sequence[Sequence[str | int | Text]]
    numbers: Collection[int] = ()
    """Columns of numbers, by their position."""


def plans() -> Listing:
    """The shipped plans."""
    loaded = [read_plan(name, option_schemas(), (), PLANNED).plan for name in shipped_plans()]
    entries = [
        {
            "name": plan.name,
            "title": plan.title,
            "trials": len(plan.calibrations()) + len(plan.trials()),
            "expected_duration_s": plan.expected_duration_s(),
        }
        for plan in loaded
    ]
    rows = [
        (
            plan.name,
            len(plan.calibrations()) + len(plan.trials()),
            duration_text(plan.expected_duration_s()),
            plan.title,
        )
        for plan in loaded
    ]
    return Listing(entries, ("plan", "trials", "takes about", "title"), rows, numbers=(1, 2))


def testbeds() -> Listing:
    """The shipped testbeds."""
    loaded = [read_testbed(name, (), KINDS).testbed for name in shipped_testbeds()]
    entries = [{"name": each.name, "kind": each.kind, "title": each.title, "link": each.link} for each in loaded]
    rows = [(each.name, each.kind, link_text(each.link), each.title) for each in loaded]
    return Listing(entries, ("testbed", "kind", "link", "title"), rows)


def tunnels() -> Listing:
    """Every kind of tunnel that a plan may name, and whether it can come up here."""
    with probing_host() as host:
        found = {kind: availability(kind, host) for kind in kinds()}
    entries = [
        {"kind": kind, "title": title, "available": found[kind].answer, "reason": found[kind].reason}
        for kind, title in kinds().items()
    ]
    rows = [(each["kind"], word(each["available"]), reasoned(each["title"], each["reason"])) for each in entries]
    return Listing(entries, ("kind", "available", "title"), rows)


def runs(location: Path | str) -> Listing:
    """The runs of a store, newest first; none where there is no store yet."""
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


def references() -> Listing:
    """The published results that ship."""
    loaded = [read_reference(name) for name in reference_names()]
    entries = [
        {
            "name": each.name,
            "title": each.title,
            "source": each.source,
            "url": each.url,
            "date": each.date,
            "method": each.method,
            "comparability": each.comparability,
            "rows": len(each.rows),
        }
        for each in loaded
    ]
    rows = [(each.name, len(each.rows), each.date, reasoned(each.title, each.comparability.label)) for each in loaded]
    return Listing(entries, ("reference", "rows", "date", "title"), rows, numbers=(1,))


LISTINGS: Mapping[str, Callable[[], Listing]] = {
    "plans": plans,
    "testbeds": testbeds,
    "tunnels": tunnels,
    "references": references,
}


@click.command()
@click.argument("noun", type=click.Choice((*LISTINGS, "runs")))
@json_option
@store_option
def command(noun: str, as_json: bool, store_location: str | None) -> None:
    """List the shipped plans, testbeds or references, the kinds of tunnels, or the stored runs, newest first."""
    listing = runs(store_location or default_path()) if noun == "runs" else LISTINGS[noun]()
    if as_json:
        emit_json(listing.entries)
    elif listing.rows:
        emit(drawn(columns(listing.rows, listing.header, numbers=listing.numbers)))
    else:
        click.echo("There are no runs yet. Measure: tunnelbench run", err=True)
