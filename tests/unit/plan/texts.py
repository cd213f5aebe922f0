"""Reads plans from texts, with the options of the real tunnels."""

from __future__ import annotations

from pathlib import Path

from tunnelbench.model.plan import Plan
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import check_file, read_plan
from tunnelbench.testbed import KINDS, refused_in_plans
from tunnelbench.tunnel import option_schemas


def plan_of(folder: Path, text: str) -> Plan:
    """Return the plan of a text."""
    return read_plan(_written(folder, text), option_schemas()).plan


def errors_of(folder: Path, text: str, testbed: TestbedSpec) -> list[str]:
    """Return `LINE: KEY: MESSAGE` for each error of a plan for a testbed."""
    found = check_file(_written(folder, text), option_schemas(), KINDS, refused=refused_in_plans(testbed))
    return [f"{error.line}: {error.key}: {error.message}" for error in found]


def _written(folder: Path, text: str) -> str:
    path = folder / "plan.toml"
    path.write_text(text)
    return str(path)
