"""Command lines that an answer advises."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.model.conditions import CPUS_OPTION, WINDOW_OPTION
from tunnelbench.model.lines import LINE_OPTION
from tunnelbench.model.plan import BRIDGED_OPTION, GATEWAY_NEEDED
from tunnelbench.model.result import IMPORTED, RunRecord
from tunnelbench.model.shipped import (
    DEFAULT_TESTBED,
    FIRST_PLAN,
    OTHER_KERNEL,
    ROAD_WARRIOR_VIRTUAL_ROUTER,
    VIRTUAL_ROUTER,
    other_kernel_options,
    shipped_folder,
    shipped_names,
    shipped_plans,
    shipped_testbeds,
)
from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.model.toml_text import known_values

OWN_ROUTER = "root@192.168.1.1"
"""Example of a router's address; most routers have it when they are new."""


@dataclass(frozen=True)
class SuggestedCommand:
    """A command line that an answer advises."""

    purpose: str
    """Name in one or two words, such as `Next`."""
    command: str
    aim: str = ""
    """Effect of the command, such as `measure the missing trials`; empty if the purpose says enough."""
    note: str = ""
    """Sentence on a part that the reader must replace, or on another way; may be empty."""


@dataclass(frozen=True)
class Change:
    """Options that make a second run of a plan answer more."""

    options: tuple[str, ...]
    aim: str
    """Effect of the options, such as `show small differences`."""
    is_alone: bool = False
    """True if other changes do not go with it."""
    is_elsewhere: bool = False
    """True if the options name another testbed."""
    note: str = ""
    """Sentence on a part that the reader must replace, or on another way; may be empty."""


AIM = "find the router's own limit"
ROUTER = Change(("--router", OWN_ROUTER), AIM, is_elsewhere=True, note="Use your router's address.")


NO_ROUTER_HAS = frozenset({LINE_OPTION, BRIDGED_OPTION, GATEWAY_NEEDED, "soak"})
"""Keys of plans that of the shipped testbeds and of `--router` only namespaces can carry out."""
LINK_MTU = "link.mtu_bytes"
LONGEST_OPTIONS = 500
"""Largest number of characters of the options of an advised run."""


def router_of(run: RunRecord) -> Change | None:
    """Return the change that finds a router's own limit: for a run in namespaces, a virtual router of fixed speed.

    None: only a router in namespaces can do what the plan asks for, or have the cables of the run.
    """
    keys = _keys_of_plan(run)
    is_server = known_values(run.testbed_text).get("topology") == ROAD_WARRIOR
    cables = {key for key in _testbed_changes(run) if key.startswith("link.")}
    if keys & NO_ROUTER_HAS or cables - {LINK_MTU}:
        return None
    if not run.testbed_name.startswith(DEFAULT_TESTBED) or keys & {CPUS_OPTION, WINDOW_OPTION}:
        return None if is_server else ROUTER
    name = ROAD_WARRIOR_VIRTUAL_ROUTER if is_server else VIRTUAL_ROUTER
    own = "" if is_server else f" Or your own: {shlex.join(ROUTER.options)}"
    return Change(("--on", name), AIM, is_elsewhere=True, note=f"{name}: a virtual router of fixed speed.{own}")


def _keys_of_plan(run: RunRecord) -> set[str]:
    """Return the names of the tables of a run's plan, and of the options that it gives to any tunnel or to TCP."""
    plan = known_values(run.plan_text)
    tunnels, tcp = plan.get("tunnel"), plan.get("tcp")
    tables = [*(tunnels if isinstance(tunnels, list) else []), tcp]
    return {*plan, *(option for each in tables if isinstance(each, dict) for option in each)}


def _plan_changes(run: RunRecord) -> dict[str, str]:
    return _changes("plans", run.plan_name, run.plan_text)


def _testbed_changes(run: RunRecord) -> dict[str, str]:
    return _changes("testbeds", run.testbed_name, run.testbed_text)


def _changes(kind: str, name: str, text: str) -> dict[str, str]:
    """Return the values by their keys, as `--set` takes them, that a stored text has other than the shipped file."""
    if name not in shipped_names(kind):
        return {}
    shipped = dict(_settings(known_values((shipped_folder(kind) / f"{name}.toml").read_text("utf-8"))))
    return {key: _as_set(value) for key, value in _settings(known_values(text)) if shipped.get(key) != value}


def _settings(values: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key that `--set` can change, such as `tcp.duration_s`, and its value; a title changes no figure."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{table}{key}.")
        elif re.fullmatch(r"[A-Za-z0-9_-]+", key) and f"{table}{key}" not in ("title", "tunnel"):
            yield f"{table}{key}", value


def _as_set(value: object) -> str:
    """Return a value as `--set` takes it: a word needs no quotes, and JSON's other values are TOML's as well."""
    is_word = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value)
    return str(value) if is_word and value not in ("true", "false", "inf", "nan") else json.dumps(value, default=str)


def slower_router(speed_mips: float) -> Change:
    """Return the change that halves the speed of a virtual router [million instructions per second]."""
    return Change(("--set", f"speed_mips={speed_mips / 2:g}"), "measure a slower router", is_alone=True)


def run_again(run: RunRecord, changes: Sequence[Change], purpose: str) -> SuggestedCommand:
    """Return the command that measures the plan of a run again with all changes, and with its own values of `--set`.

    On another testbed, only the MTU of the cables is still that of the run. If the values are too many for a command
    line, as in a file that another person has made, the command is the one for every figure.
    """
    is_elsewhere = any(change.is_elsewhere for change in changes)
    on = [] if is_elsewhere or run.testbed_name == DEFAULT_TESTBED else ["--on", run.testbed_name]
    words = [word for change in changes for word in change.options]
    new = {word.partition("=")[0] for word in words}
    of_testbed = {key: each for key, each in _testbed_changes(run).items() if key == LINK_MTU or not is_elsewhere}
    words += _set_options({key: each for key, each in (_plan_changes(run) | of_testbed).items() if key not in new})
    if len(shlex.join(words)) > LONGEST_OPTIONS:
        return every_figure(run)
    aim = " and to ".join(change.aim for change in changes)
    notes = [change.note for change in changes if change.note]
    if not has_plan(run):
        notes.append(f"{run.plan_name}: give the path of your plan.")
    note = " ".join(notes)
    return SuggestedCommand(purpose, _joined("run", run.plan_name, *on, *words), aim, note)


def _set_options(values: Mapping[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def resume(run: RunRecord) -> SuggestedCommand:
    return SuggestedCommand("Next", _joined("run", "--resume", run.run_id), "measure the missing trials")


def every_figure(run: RunRecord) -> SuggestedCommand:
    return SuggestedCommand("All figures", _joined("report", run.run_id, "--full"))


def charts(run: RunRecord) -> SuggestedCommand:
    return SuggestedCommand("Charts", _joined("report", run.run_id, "--format", "html", "-o", "run.html"))


def on_other_kernel(run: RunRecord, *, is_planned: bool) -> SuggestedCommand:
    """Return the command that measures a tunnel of the kernel on a kernel that has it.

    Unless the tunnel `is_planned` in a plan that this machine has, the command names the first plan, which has it.
    """
    if not (is_planned and has_plan(run)):
        return SuggestedCommand("", _joined("run", FIRST_PLAN, "--on", OTHER_KERNEL))
    own = {key: value for key, value in (_plan_changes(run) | _testbed_changes(run)).items() if key != "kernel"}
    words = (*other_kernel_options(run.testbed_name), *_set_options(own))
    if len(shlex.join(words)) > LONGEST_OPTIONS:
        return every_figure(run)
    return SuggestedCommand("", _joined("run", run.plan_name, *words))


def doctor(run: RunRecord) -> SuggestedCommand:
    """Return the command that lists what is missing for the plan and testbed of a run.

    `doctor` knows shipped and saved files only: for another run, the command is the one for every figure.
    """
    if not (is_resumable(run) and is_shipped(run)) or _testbed_changes(run):
        return every_figure(run)
    on = [] if run.testbed_name == DEFAULT_TESTBED else ["--on", run.testbed_name]
    return SuggestedCommand("Next", _joined("doctor", run.plan_name, *on), "list what is missing")


def is_resumable(run: RunRecord) -> bool:
    """Return True if the run was made on this machine."""
    return run.status != IMPORTED


def is_repeatable(run: RunRecord) -> bool:
    """Return True if the run was made on this machine, on a testbed that is found by its name."""
    return is_resumable(run) and run.testbed_name in shipped_testbeds()


def is_shipped(run: RunRecord) -> bool:
    """Return True if the plan and the testbed of the run come with the package."""
    return has_plan(run) and run.testbed_name in shipped_testbeds()


def has_plan(run: RunRecord) -> bool:
    """Return True if this machine has the plan of the run under its name: the path of another plan is not stored."""
    return run.plan_name in shipped_plans()


def _joined(*words: str) -> str:
    return shlex.join(("tunnelbench", *words))
