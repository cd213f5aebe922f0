"""Checks the name of a contributed run's device: that of a router of its own, or of the board of a virtual router."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunnelbench.measure.checks import OWN_CPU
from tunnelbench.model.plan import CALIBRATION_KIND
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.qemu.boards import BOARDS, EMULATED
from tunnelbench.report.facts import OWN_ROUTER_KINDS, testbed_key
from tunnelbench.report.site.device_names import known_facts

VIRTUAL = re.compile(
    r"qemu|\bkvm\b|virtualbox|vmware|virtual machine|dummy-virt|standard pc|malta|\bhvm\b|bochs|firecracker|parallels",
    re.IGNORECASE,
)
"""Part of the name that a virtual machine reports for its board or its CPU."""

FACTS_OF_EACH_ROUTER = ("router_kernel", "router_architecture", "router_memory_mib")
"""Facts that the program on a router reports of each machine (docs/router-script.md)."""
NAMES_OF_LINUX = {"arm": "arm", "arm64": "aarch64|arm", "mips": "mips", "riscv64": "riscv", "x86-64": r"x86_64|i\d86"}
"""Beginning of the name that Linux gives to an architecture in `data/devices/cpus.csv`; 64-bit CPUs run 32-bit kernels,
too."""
MOST_THREADS = 2
"""Largest number of CPUs that Linux counts for one core."""

MEASURE = "measure on the device itself with `run --router`, or with a testbed of kind ssh"


def of_device(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield why a run is none of the device that it names, each as a sentence without a full stop."""
    kind = testbed_key(run, "kind")
    if kind in OWN_ROUTER_KINDS:
        yield from _of_own_router(run.host_facts, records)
    elif kind == "qemu":
        yield from _of_virtual_router(run)
    else:
        yield f"it does not name a device: its router is not a machine of its own ({MEASURE})"


def _of_own_router(facts: Mapping[str, Any], records: Sequence[TrialRecord]) -> Iterator[str]:
    board = str(facts.get("router_board") or "").strip()
    if not board:
        yield "it does not name its device: the board of the router is unknown"
    if lacking := [name for name in FACTS_OF_EACH_ROUTER if not facts.get(name)]:
        yield f"it lacks the fact {lacking[0]}, which each router of its own reports: {MEASURE}"
    if signs := [*_signs_of_virtual_router(facts), *_signs_in_trials(facts, records)]:
        named = f"it names the device {board or 'unknown'}, and its router was not a machine of its own"
        yield f"{named}: {signs[0]}; {MEASURE}"
    yield from _against_known_facts(board, facts)


def _signs_of_virtual_router(facts: Mapping[str, Any]) -> Iterator[str]:
    if guest := [name for name in facts if name.startswith("guest")]:
        yield f"it has the fact {guest[0]} of a virtual machine"
    if facts.get("router_virtual") == "yes":
        yield "its CPU reports a hypervisor"
    for name in ("router_board", "router_soc", "router_cpu_model"):
        text = facts.get(name)
        if isinstance(text, str) and VIRTUAL.search(text):
            yield f"{name} is {text!r}, which is a virtual machine"


def _signs_in_trials(facts: Mapping[str, Any], records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield what only trials in namespaces or on a virtual router have."""
    cpus = facts.get("router_cpus")
    for record in records:
        number, window = record.spec.sequence, record.measurement.window if record.measurement else None
        if any(check.name == "router-cpu" and check.reason == OWN_CPU for check in record.checks):
            yield f"in trial {number} it was a namespace with CPUs of the testers' machine"
        if window is None:
            continue
        if window.router_instructions is not None or window.router_clock_lost_s is not None:
            yield f"trial {number} has the instructions or the clock of an emulated CPU"
        if record.spec.tunnel.kind == CALIBRATION_KIND:
            continue
        counted = len(window.router_cpu.cpus)
        if isinstance(cpus, int) and cpus and counted != cpus:
            yield f"trial {number} has the time of {counted} of its CPUs, and the router reports {cpus}"


def _against_known_facts(board: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of the router that the device of this name cannot have, by the lists that ship."""
    known = known_facts(board)
    architecture, reported = known.get("architecture"), facts.get("router_architecture")
    if architecture and isinstance(reported, str):
        names = NAMES_OF_LINUX.get(architecture.text.split()[0], "")
        if not re.match(names, reported):
            yield (
                f"its router has the architecture {reported}, and {board} has {architecture.text} by "
                f"{architecture.source}: name the device that was measured"
            )
    cores, cpus = known.get("cores"), facts.get("router_cpus")
    if cores and isinstance(cpus, int) and cpus > int(cores.text) * MOST_THREADS:
        yield f"its router has {cpus} CPUs, and {board} has {cores.text}: name the device that was measured"


def _of_virtual_router(run: RunRecord) -> Iterator[str]:
    """Yield why a virtual router does not have the name of its own board."""
    facts, board = run.host_facts, BOARDS.get(testbed_key(run, "board"))
    named = str(facts.get("guest_board") or "").strip()
    if any(name.startswith("router_") for name in facts) or not named:
        yield "it does not name its device: the board of the virtual router is unknown"
    elif board is None or named != board.title or facts.get("guest") != EMULATED:
        own = f"has the board {board.title}" if board else "names no board of a virtual router"
        yield (
            f"it is named {named}, and its testbed {own}: a virtual router has the name of its own board alone; to "
            f"contribute a real device, {MEASURE}"
        )
