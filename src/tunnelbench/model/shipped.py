"""Names of the plans and testbeds that come with the package."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

DEFAULT_TESTBED = "netns"
"""Testbed of a run that names none."""

VIRTUAL_ROUTER = "malta"
"""Name of the testbed with a virtual router; its figures apply to that virtual router only."""

ROAD_WARRIOR_VIRTUAL_ROUTER = "malta-road-warrior"
"""Name of the testbed with a virtual router that is a server of clients."""

OTHER_KERNEL = "netns-debian"
"""Name of the testbed that boots a kernel with every tunnel of the kernel."""

FIRST_PLAN = "quick"
"""Plan of a run that names none."""


def other_kernel_options(testbed_name: str) -> tuple[str, ...]:
    """Return the options of `run` that repeat a run in namespaces on a kernel with every tunnel of the kernel."""
    if testbed_name == DEFAULT_TESTBED or testbed_name not in shipped_testbeds():
        return "--on", OTHER_KERNEL
    return "--on", testbed_name, *(() if testbed_name == OTHER_KERNEL else ("--set", "kernel=debian"))


def shipped_plans() -> list[str]:
    """Return the names of the plans that come with the package, sorted."""
    return shipped_names("plans")


def shipped_testbeds() -> list[str]:
    """Return the names of the testbeds that come with the package, sorted."""
    return shipped_names("testbeds")


def shipped_names(kind: str) -> list[str]:
    """Return the names of all shipped files of a kind, `plans` or `testbeds`, sorted."""
    names = (entry.name for entry in shipped_folder(kind).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def shipped_folder(kind: str) -> Traversable:
    """Return the folder of the shipped files of a kind."""
    return files("tunnelbench") / "data" / kind
