"""Command lines that an answer advises."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.model.conditions import CPUS_OPTION
from tunnelbench.model.lines import LINE_OPTION
from tunnelbench.model.plan import BRIDGED_OPTION
from tunnelbench.model.result import IMPORTED, RunRecord
from tunnelbench.model.shipped import (
    DEFAULT_TESTBED,
    FIRST_PLAN,
    OTHER_KERNEL,
    ROAD_WARRIOR_TESTBED,
    ROAD_WARRIOR_VIRTUAL_ROUTER,
    VIRTUAL_ROUTER,
    other_kernel_options,
    shipped_plans,
    shipped_testbeds,
)
from tunnelbench.model.toml_text import toml_values

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


def router_of(run: RunRecord) -> Change | None:
    """Return the change that finds a router's own limit: for a run in namespaces, a virtual router of fixed speed.

    None: only a router in namespaces can do what the plan asks for.
    """
    options = _options_of(run)
    if options & {LINE_OPTION, BRIDGED_OPTION}:
        return None
    if not run.testbed_name.startswith(DEFAULT_TESTBED) or CPUS_OPTION in options:
        return ROUTER
    is_server = run.testbed_name == ROAD_WARRIOR_TESTBED
    name = ROAD_WARRIOR_VIRTUAL_ROUTER if is_server else VIRTUAL_ROUTER
    own = "" if is_server else f" Or your own: {shlex.join(ROUTER.options)}"
    return Change(("--on", name), AIM, is_elsewhere=True, note=f"{name}: a virtual router of fixed speed.{own}")


def _options_of(run: RunRecord) -> set[str]:
    """Return the names of all options that a run's plan gives to any tunnel."""
    try:
        tunnels = toml_values(run.plan_text).get("tunnel")
    except ValueError:
        return set()
    blocks = tunnels if isinstance(tunnels, list) else []
    return {option for each in blocks if isinstance(each, dict) for option in each}


def slower_router(speed_mips: float) -> Change:
    """Return the change that halves the speed of a virtual router [million instructions per second]."""
    return Change(("--set", f"speed_mips={speed_mips / 2:g}"), "measure a slower router", is_alone=True)


def run_again(run: RunRecord, changes: Sequence[Change], purpose: str) -> SuggestedCommand:
    """Return the command that measures the plan of a run again with all changes."""
    is_elsewhere = any(change.is_elsewhere for change in changes)
    on = [] if is_elsewhere or run.testbed_name == DEFAULT_TESTBED else ["--on", run.testbed_name]
    words = [word for change in changes for word in change.options]
    aim = " and to ".join(change.aim for change in changes)
    notes = [change.note for change in changes if change.note]
    if not has_plan(run):
        notes.append(f"{run.plan_name}: give the path of your plan.")
    note = " ".join(notes)
    return SuggestedCommand(purpose, _joined("run", run.plan_name, *on, *words), aim, note)


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
    return SuggestedCommand("", _joined("run", run.plan_name, *other_kernel_options(run.testbed_name)))


def doctor(run: RunRecord) -> SuggestedCommand:
    """Return the command that lists what is missing for the plan and testbed of a run."""
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
