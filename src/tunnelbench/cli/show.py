"""`tunnelbench show`: show a tunnel, plan, testbed, reference or run in full."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import click

from tunnelbench.cli.availability import kinds
from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import is_store_missing, json_option, open_store, read_store_option
from tunnelbench.cli.completion import any_names
from tunnelbench.cli.details import plan as plan_details
from tunnelbench.cli.details import reference as reference_details
from tunnelbench.cli.details import run as run_details
from tunnelbench.cli.details import testbed as testbed_details
from tunnelbench.cli.details import tunnel as tunnel_details
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.plan import FileErrors, check_file, shipped_plans, shipped_testbeds
from tunnelbench.plan.files import read_path
from tunnelbench.plan.messages import quoted, similar
from tunnelbench.reference import reference_names
from tunnelbench.store.location import default_path
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas

NOUNS = ("tunnel", "plan", "testbed", "reference", "run")


@click.command()
@click.argument("name", shell_complete=any_names)
@click.option("--trial", type=int, metavar="N", help="Show only this trial of a run, with the output of its programs.")
@log_options
@json_option
@read_store_option
def command(name: str, trial: int | None, as_json: bool, store_location: str | None) -> None:
    """Show a tunnel, a plan, a testbed, a reference or a run in full.

    NAME is a kind of tunnel, a shipped plan, testbed or reference, a file of your own, `last`, a run's id or the
    beginning of one. If several things have that name, write tunnel:NAME, plan:NAME, testbed:NAME, reference:NAME or
    run:NAME.
    """
    location = store_location or default_path()
    noun, name = meant(name, location)
    if trial is not None and noun != "run":
        raise WrongInput(f"--trial is for runs, and {quoted(printable(name))} is a {noun}", "leave it out")
    match noun:
        case "tunnel":
            tunnel_details.show(name, as_json=as_json)
        case "plan":
            plan_details.show(name, as_json=as_json)
        case "testbed":
            testbed_details.show(name, as_json=as_json)
        case "reference":
            reference_details.show(name, as_json=as_json)
        case _:
            with open_store(location) as store:
                run_details.show(store, name, trial, as_json=as_json)


def meant(name: str, location: Path | str) -> tuple[str, str]:
    """Return the noun of a name, such as `plan`, and the bare name. Raises WrongInput if none or several fit."""
    known = {
        "tunnel": list(kinds()),
        "plan": shipped_plans(),
        "testbed": shipped_testbeds(),
        "reference": reference_names(),
    }
    noun, colon, rest = name.partition(":")
    if colon and noun in NOUNS:
        if noun == "tunnel" and rest not in known[noun]:
            raise unknown(noun, rest, known[noun])
        return noun, rest
    if "/" in name or name.endswith(".toml"):
        return noun_of_file(name), name
    nouns = [noun for noun, names in known.items() if name in names]
    if len(nouns) > 1:
        choices = ", ".join(f"{noun}:{name}" for noun in nouns)
        raise WrongInput(f"{name} is the name of a {' and of a '.join(nouns)}", f"say which one: {choices}")
    if nouns:
        return nouns[0], name
    # Runs come last: no other name begins with a date as their ids do, and only runs need the store.
    run_ids = ids_of_runs(location)
    if name == "last" or any(run_id.startswith(name) for run_id in run_ids if name):
        return "run", name
    everything = ["last", *(each for names in known.values() for each in names), *run_ids]
    raise unknown("tunnel, plan, testbed, reference or run", name, everything)


def unknown(noun: str, name: str, known: Iterable[str]) -> WrongInput:
    """Return the error for an unknown name, with similar names as a hint."""
    near = similar(name, known)
    meant_perhaps = f"; did you mean {' or '.join(near)}?" if near else ""
    message = f"there is no {noun} {quoted(printable(name))}{meant_perhaps}"
    return WrongInput(message, "tunnelbench list tunnels|plans|testbeds|references|runs lists the names")


def noun_of_file(path: str) -> str:
    """Return `plan` or `testbed`. Raises FileErrors with all errors of the file."""
    if errors := check_file(path, option_schemas(), KINDS, PLANNED):
        raise FileErrors(errors)
    return "plan" if "tunnel" in tomllib.loads(read_path(path).text) else "testbed"


def ids_of_runs(location: Path | str) -> list[str]:
    """Return the ids of all runs, newest first; none if there is no store yet."""
    if is_store_missing(location):
        return []
    with open_store(location) as store:
        return [run.run_id for run in store.runs()]
