"""Plan and testbed files: read, checked as a whole, expanded into tunnels and trials.

`files` reads, `locate` and `parse` turn text into values and positions, `overrides` applies `--set`, `schema` and
`check` say what is allowed, `expand` multiplies and names the tunnels, `load` joins them.
"""

from __future__ import annotations

from tunnelbench.plan.errors import FileError, FileErrors
from tunnelbench.plan.files import shipped_plans, shipped_testbeds
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
