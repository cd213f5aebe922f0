"""Loads plans by name or path, with the schemas of all tunnel adapters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tunnelbench.model.plan import VIRTUAL_ROUTER_TRIAL_S, TrialSpec
from tunnelbench.model.result import RunRecord
from tunnelbench.model.shipped import ROAD_WARRIOR_VIRTUAL_ROUTER, VIRTUAL_ROUTER
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import FileErrors, LoadedPlan, read_plan, read_testbed, stored_plan
from tunnelbench.testbed import KINDS, refused_in_plans
from tunnelbench.tunnel import PLANNED, option_schemas, plan_entries


def load_plan(reference: str, overrides: Sequence[str] = (), testbed: TestbedSpec | None = None) -> LoadedPlan:
    """Read a plan by its shipped name or its path, for a testbed if one is given. Raises as `read_plan`."""
    refused = refused_in_plans(testbed) if testbed else {}
    return read_plan(reference, option_schemas(), overrides, PLANNED, plan_entries(), refused=refused)


def on_virtual_router(reference: str) -> tuple[str, float] | None:
    """Return the shipped virtual router that can run a plan, and about how long that takes with all tunnels [s].

    None: no virtual router can. Without its image it is unknown which tunnels it has.
    """
    for name in (VIRTUAL_ROUTER, ROAD_WARRIOR_VIRTUAL_ROUTER):
        with suppress(FileErrors):
            plan = load_plan(reference, (), read_testbed(name, KINDS).testbed).plan
            return name, plan.expected_duration_s() + VIRTUAL_ROUTER_TRIAL_S * len(plan.every_trial())
    return None


def plan_of_run(run: RunRecord) -> LoadedPlan:
    """Return the plan that is stored with a run. Raises as `read_plan`."""
    return stored_plan(run.plan_name, run.plan_text, option_schemas(), PLANNED)


def planned_trials(run: RunRecord) -> tuple[TrialSpec, ...]:
    """Return all trials of the plan that is stored with a run, calibrations first. Raises as `read_plan`."""
    return plan_of_run(run).plan.every_trial()
