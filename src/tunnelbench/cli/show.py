"""`tunnelbench show`: one tunnel, plan, testbed or run in full."""

from __future__ import annotations

import difflib
import inspect
import os
import tomllib
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from tunnelbench.cli import run_details
from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title, word
from tunnelbench.cli.needs import Availability, availability, kinds
from tunnelbench.cli.output import duration_text, emit, emit_json, json_option, link_text, store_option
from tunnelbench.host.readiness import probing_host
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.plan import BLOCK_OVERHEAD_S, TRIAL_OVERHEAD_S, OptionValue, Plan, TrialSpec
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import FileErrors, check_file, read_plan, read_testbed, shipped_plans, shipped_testbeds
from tunnelbench.plan.wording import printable, quoted
from tunnelbench.report.text import one_line
from tunnelbench.store import Store, default_path
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus
from tunnelbench.tunnel import PLANNED, adapter, option_schemas

NOUNS = ("tunnel", "plan", "testbed", "run")


@click.command()
@click.argument("name")
@click.option("--trial", type=int, help="Of a run: this trial alone, with what the programs printed.")
@json_option
@store_option
def command(name: str, trial: int | None, as_json: bool, store_location: str | None) -> None:
    """Show a tunnel, a plan, a testbed or a run in full.

    NAME is a kind of tunnel, a shipped plan or testbed, a file of your own, a run's id or its beginning, or `last`;
    where it is several of them: tunnel:NAME, plan:NAME, testbed:NAME or run:NAME.
    """
    location = store_location or default_path()
    noun, name = meant(name, location)
    if trial is not None and noun != "run":
        raise WrongInput(f"--trial goes with a run, and {quoted(printable(name))} is a {noun}", "leave it out")
    if noun == "run":
        with Store.open(location, create=False) as store:
            run_details.show(store, name, trial, as_json=as_json)
    elif noun == "tunnel":
        show_tunnel(name, as_json=as_json)
    elif noun == "plan":
        show_plan(read_plan(name, option_schemas(), (), PLANNED).plan, as_json=as_json)
    else:
        show_testbed(read_testbed(name, (), KINDS).testbed, as_json=as_json)


# What a name means


def meant(name: str, location: Path | str) -> tuple[str, str]:
    """The noun that a name is of, and the name without it. Raises WrongInput where it is none or several."""
    noun, colon, rest = name.partition(":")
    known = {"tunnel": list(kinds()), "plan": shipped_plans(), "testbed": shipped_testbeds()}
    if colon and noun in NOUNS:
        if noun == "tunnel" and rest not in known[noun]:
            raise unknown(noun, rest, known[noun])
        return noun, rest
    if "/" in name or name.endswith(".toml"):
        return noun_of_file(name), name
    nouns = [noun for noun, names in known.items() if name in names]
    if len(nouns) > 1:
        choices = " or ".join(f"{noun}:{name}" for noun in nouns)
        raise WrongInput(f"{name} is the name of a {' and of a '.join(nouns)}", f"which one: {choices}")
    if nouns:
        return nouns[0], name
    # A run's id begins with its date, so that no other name is one, and the store need not be there for the others.
    run_ids = ids_of_runs(location)
    if name == "last" or (name and any(run_id.startswith(name) for run_id in run_ids)):
        return "run", name
    raise unknown("tunnel, plan, testbed or run", name, ["last", *(each for names in known.values() for each in names), *run_ids])


def unknown(noun: str, name: str, known: list[str]) -> WrongInput:
    """There is nothing of that name; what is near."""
    near = difflib.get_close_matches(name, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return WrongInput(f"there is no {noun} {quoted(printable(name))}{hint}", "names: tunnelbench list tunnels|plans|testbeds|runs")


def noun_of_file(path: str) -> str:
    """Whether a file is a plan or a testbed. Raises FileErrors with all that is wrong in it."""
    if errors := check_file(path, option_schemas(), PLANNED, KINDS):
        raise FileErrors(errors)
    return "plan" if "tunnel" in tomllib.loads(Path(path).read_text(encoding="utf-8-sig")) else "testbed"


def ids_of_runs(location: Path | str) -> list[str]:
    if "://" not in str(location) and not Path(location).expanduser().exists():
        return []
    with Store.open(location, create=False) as store:
        return [run.run_id for run in store.runs()]


# Tunnels


def show_tunnel(kind: str, *, as_json: bool) -> None:
    with probing_host() as host:
        here = availability(kind, host)
    if kind in PLANNED:
        about, tested_with, options = "Plans may name it; its rows say that it has no adapter yet.", "", {}
    else:
        tunnel = adapter(kind)
        about, tested_with = inspect.getdoc(tunnel) or "", tunnel.tested_with
        options = tunnel.options_type.model_json_schema()["properties"]
    if as_json:
        emit_json({
            "kind": kind, "title": kinds()[kind], "about": about, "tested_with": tested_with,
            "available": here.answer, "needs": here.needs, "options": options,
        })  # fmt: skip
        return
    emit(drawn(*tunnel_picture(kind, about, tested_with, here, options)))


def tunnel_picture(
    kind: str, about: str, tested_with: str, here: Availability, options: Mapping[str, Mapping[str, Any]]
) -> Iterator[RenderableType]:
    yield title(f"{kind}: {kinds()[kind]}")
    for paragraph in about.split("\n\n"):
        yield cell(paragraph)
    yield Text()
    yield facts([(label, value) for label, value in (("Available here", word(here.answer)), ("Tested with", tested_with)) if value])
    if here.needs:
        yield heading("Needs")
        yield columns([(word(need.status), need.name, need.remedy or need.found) for need in here.needs])
    if options:
        yield heading("Options")
        rows = [(name, default_text(schema.get("default")), option_text(schema)) for name, schema in options.items()]
        yield columns(rows, ("key", "default", "meaning"))


def default_text(value: OptionValue | None) -> str:
    return "" if value is None else str(value)


def option_text(schema: Mapping[str, Any]) -> Text:
    """What an option means, and below that its type."""
    return cell(schema.get("description", "")).append(f"\n{one_line(type_text(schema))}", style="dim")


def type_text(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words; one that may be left out is described by the rest of it."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return type_text(choice)
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    words = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "string"}
    text = words.get(schema.get("type", ""), "value")
    bounds = [f"from {schema['minimum']}"] * ("minimum" in schema) + [f"to {schema['maximum']}"] * ("maximum" in schema)
    pattern = [f"that matches {schema['pattern']}"] * ("pattern" in schema)
    return " ".join([text, *bounds, *pattern])


# Plans


def starts(plan: Plan) -> Iterator[tuple[float, TrialSpec]]:
    """Every trial in order, the calibration too, and about when it starts [s]."""
    now_s = 0.0
    every = (*plan.calibrations(), *plan.trials())
    for (round_number, _), block in groupby(every, key=lambda spec: (spec.round, spec.tunnel)):
        now_s += BLOCK_OVERHEAD_S if round_number else 0.0
        for spec in block:
            yield now_s, spec
            now_s += plan.tcp.duration_s + TRIAL_OVERHEAD_S


def show_plan(plan: Plan, *, as_json: bool) -> None:
    with probing_host() as host:
        here = {tunnel.name: availability(tunnel.kind, host, tunnel.options) for tunnel in plan.tunnels}
    if as_json:
        emit_json({
            "name": plan.name, "title": plan.title, "rounds": plan.rounds, "tcp": plan.tcp,
            "expected_duration_s": plan.expected_duration_s(),
            "tunnels": [
                {"kind": tunnel.kind, "name": tunnel.name, "options": tunnel.options,
                 "available": here[tunnel.name].answer, "reason": here[tunnel.name].reason}
                for tunnel in plan.tunnels
            ],
            "trials": [
                {"sequence": spec.sequence, "round": spec.round, "tunnel": spec.tunnel.name,
                 "payload_bytes": spec.payload_bytes, "direction": spec.direction, "expected_start_s": start_s}
                for start_s, spec in starts(plan)
            ],
        })  # fmt: skip
        return
    emit(drawn(*plan_picture(plan, here)))


def plan_picture(plan: Plan, here: Mapping[str, Availability]) -> Iterator[RenderableType]:
    tcp = plan.tcp
    yield title(f"{plan.name}: {plan.title}" if plan.title else plan.name)
    payloads, directions = " and ".join(map(str, tcp.payload_bytes)), " and ".join(tcp.direction)
    streams = f"{tcp.streams} streams" if tcp.streams > 1 else "1 stream"
    yield facts([
        ("Traffic", f"TCP, payload {payloads} bytes, {directions}, {tcp.duration_s} s each, {streams}, {tcp.congestion_control}"),
        ("Trials", f"{len(plan.trials())} in {plan.rounds} rounds, and before them {len(plan.calibrations())} of the testers back to back"),
        ("Takes", f"about {duration_text(plan.expected_duration_s())}"),
    ])  # fmt: skip
    yield heading("Tunnels")
    rows = []
    for tunnel in plan.tunnels:
        options = ", ".join(f"{key}={value}" for key, value in tunnel.options.items())
        text = cell(f"{tunnel.kind}: {options}" if options else tunnel.kind)
        if reason := here[tunnel.name].reason:
            text.append(f"\n{one_line(reason)}", style="bold")
        rows.append((tunnel.name, word(here[tunnel.name].answer), text))
    yield columns(rows, ("name", "available", "kind and options"))
    yield heading("Trials")
    trials = [
        (spec.sequence, clock(start_s), spec.round, spec.payload_bytes, spec.direction, spec.tunnel.name)
        for start_s, spec in starts(plan)
    ]
    yield columns(trials, ("trial", "starts at", "round", "payload", "", "tunnel"), numbers=(0, 1, 2, 3))


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


# Testbeds


def show_testbed(testbed: TestbedSpec, *, as_json: bool) -> None:
    try:
        router, testers, notes = share_cpus(sorted(os.sched_getaffinity(0)), testbed.router_cpu)
        cpus, here = {"router": router, "testers": testers}, "; ".join([f"router on {router}, testers on {', '.join(map(str, testers))}", *notes])
    except CannotHere as error:
        cpus, here = None, error.message
    if as_json:
        emit_json({**vars(testbed), "cpus_here": cpus})
        return
    emit(drawn(
        title(f"{testbed.name}: {testbed.title}" if testbed.title else testbed.name),
        facts([
            ("Kind", testbed.kind),
            ("Link", f"{link_text(testbed.link)}; MTU {testbed.link.mtu_bytes} bytes"),
            ("Router's CPU", "the last one" if testbed.router_cpu is None else str(testbed.router_cpu)),
            ("CPUs here", here),
            ("Quiet", f"a trial waits at most {testbed.quiet_wait_s} s for other load to end"),
        ]),
    ))  # fmt: skip
