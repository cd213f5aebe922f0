"""Reading of plan and testbed files.

`files` reads a file, `parse` and `key_positions` turn its text into values and positions, `overrides` applies `--set`.
`schema`, `testbed_schema` and `check` hold the rules, `tunnels` and `expand` make the tunnels, `load` joins the steps.
"""

from __future__ import annotations

from tunnelbench.model.shipped import shipped_plans, shipped_testbeds
from tunnelbench.plan.errors import FileError, FileErrors
from tunnelbench.plan.load import (
    LoadedPlan,
    LoadedTestbed,
    check_file,
    override_target,
    read_plan,
    read_testbed,
    stored_plan,
    stored_testbed,
)

__all__ = [
    "FileError",
    "FileErrors",
    "LoadedPlan",
    "LoadedTestbed",
    "check_file",
    "override_target",
    "read_plan",
    "read_testbed",
    "shipped_plans",
    "shipped_testbeds",
    "stored_plan",
    "stored_testbed",
]
