"""`tunnelbench doctor`: what a run needs, what is missing here, and what mends it."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from tunnelbench.cli.drawing import cell, columns, drawn, heading, reasoned, title, word
from tunnelbench.cli.needs import requirements
from tunnelbench.cli.output import emit, emit_json, json_option
from tunnelbench.guest.machine import PROGRAMS
from tunnelbench.host import readiness
from tunnelbench.host.command import run_command
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import Host
from tunnelbench.host.readiness import Finding, Status, Wanted
from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.model.errors import CannotHere, ExitCode, TrialFailed
from tunnelbench.plan import read_plan, read_testbed
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import PROGRAMS as IMAGE_PROGRAMS
from tunnelbench.qemu.machine import PROGRAMS as MACHINE_PROGRAMS
from tunnelbench.store import default_path
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus
from tunnelbench.traffic import engine
from tunnelbench.tunnel import PLANNED, adapters, option_schemas
from tunnelbench.tunnel.base import Requirement

FIRST_PLAN = "quick"
"""The plan whose whole run decides between ready and not."""

LOAD_WINDOW_S = 1.0

PROGRAM = "the program "
KERNEL = "the kernel's "
"""How a tunnel's requirement begins that is a program or a kernel feature."""

INSTALL = "apt-get install "


@click.command()
@click.option("--on", "testbed", metavar="TESTBED", help="Also examine the hosts of this testbed.")
@json_option
def command(testbed: str | None, as_json: bool) -> None:
    """Say what a run needs, what of it is here, and what mends the rest.

    Ends with status 0 where the shipped plan `quick` can be run as a whole, else 3.
    """
    spec = read_testbed(testbed, (), KINDS).testbed if testbed else None
    sections = examine(has_own_router=spec is not None and KINDS[spec.kind].has_own_router)
    if spec:
        from tunnelbench.cli import elsewhere  # noqa: PLC0415 # only this one way needs it

        sections |= elsewhere.examine(spec)
    is_ready = not any(finding.status is Status.MISSING for found in sections.values() for finding in found)
    if as_json:
        emit_json({"ready": is_ready, "facts": machine_facts(), **sections})
    else:
        emit(drawn(*picture(machine_facts(), sections, testbed or "")))
    if not is_ready:
        sys.exit(ExitCode.CANNOT)


def examine(*, has_own_router: bool = False) -> dict[str, list[Finding]]:
    """Everything that a run may need, by section; a router of its own takes none of this machine's CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    with readiness.probing_host() as host:
        machine = [
            readiness.root(),
            readiness.namespaces(host),
            readiness.tun_device(host),
            *(() if has_own_router else (cpu_sharing(cpus),)),
            readiness.governor(),
            readiness.schedstat(),
            readiness.foreign_load(cpus, LOAD_WINDOW_S, FOREIGN_LIMIT_SHARE),
            readiness.writable(default_path()),
        ]
        programs = [*readiness.required_programs(), packet_engine(), *guest_programs()]
        kernel = readiness.base_features(host)
        for section, finding in tunnel_findings(host):
            (programs if section == "programs" else kernel).append(finding)
    return {"machine": machine, "programs": programs, "kernel": kernel}


def guest_programs() -> Iterator[Finding]:
    """What a testbed with a kernel of its own needs beyond that."""
    why = "for testbeds with a kernel of their own"
    for name, package in PROGRAMS.items():
        yield readiness.program(Wanted(name, why, f"{INSTALL}{package}", Status.ABSENT))
    boards = {board.program: board.package for board in BOARDS.values()}
    for name, package in {**boards, **IMAGE_PROGRAMS, **MACHINE_PROGRAMS}.items():
        if name not in PROGRAMS:
            is_ssh = MACHINE_PROGRAMS.get(name)
            why = (
                "for testbeds with a router behind SSH, or a virtual one"
                if is_ssh
                else "for testbeds with a virtual router"
            )
            yield readiness.program(Wanted(name, why, f"{INSTALL}{package}", Status.ABSENT))


def tunnel_findings(host: Host) -> Iterator[tuple[str, Finding]]:
    """What the tunnels need beyond that, each thing once, with its section."""
    planned = read_plan(FIRST_PLAN, option_schemas(), (), PLANNED).plan.tunnels
    specs = [spec for spec in planned if spec.kind not in PLANNED]
    first = {requirement.what for spec in specs for requirement in requirements(spec.kind, spec.options)}
    users: dict[str, list[str]] = {}
    needed: dict[str, Requirement] = {}
    for kind in adapters():
        for requirement in requirements(kind):
            users.setdefault(requirement.what, []).append(kind)
            needed[requirement.what] = requirement
    for what, requirement in needed.items():
        name = what.removeprefix(PROGRAM).removeprefix(KERNEL)
        lacking = Status.MISSING if what in first else Status.ABSENT
        wanted = Wanted(name, f"for {', '.join(users[what])}", requirement.remedy, lacking)
        if what.startswith(PROGRAM):
            yield "programs", readiness.program(wanted)
        else:
            yield "kernel", readiness.met(wanted, partial(requirement.is_met, host))


def packet_engine() -> Finding:
    """The engine that a run with `[udp]` or `[soak]` would start: where it is, and whether it answers as it should.

    It listens on the loopback device for as long as it takes to say so.
    """
    wanted = Wanted(engine.PROGRAM, "for plans with [udp] or [soak]", "", Status.ABSENT)
    try:
        path = engine.locate()
    except CannotHere as error:
        return replace(wanted.found(Status.ABSENT), remedy=error.hint)
    wanted = replace(wanted, remedy="install TunnelBench anew: it brings its own engine")
    argv = [path, "reflect", "--bind", "127.0.0.1:0", "--session", secrets.token_hex(7)]
    try:
        completed = run_command(argv, timeout_s=readiness.VERSION_TIMEOUT_S)
        hello = engine.parse_lines(completed.stdout).hello
    except (CannotHere, TrialFailed, OSError) as error:
        return wanted.found(Status.ABSENT, f"{path} does not work: {error}")
    if hello is None:
        return wanted.found(Status.ABSENT, f"{path} does not say what it is")
    return wanted.found(Status.OK, f"{hello.get('version')}, protocol {hello.get('protocol')}, {path}")


def cpu_sharing(cpus: Sequence[int]) -> Finding:
    """How router and testers would share the CPUs."""
    router_cpu, tester_cpus, notes = share_cpus(cpus, None)
    shares = f"router on CPU {router_cpu}, testers on {', '.join(map(str, tester_cpus))}"
    if notes:
        return Finding("CPUs", Status.WARNING, shares, notes[0], "a machine with 4 CPUs or more")
    return Finding("CPUs", Status.OK, shares, "the router has one for itself")


def picture(
    facts: Mapping[str, Any], sections: Mapping[str, Sequence[Finding]], testbed: str = ""
) -> Iterator[RenderableType]:
    """All of it, for people; `testbed` is the one that was asked for."""
    yield title(f"{facts.get('system', 'Linux')}, kernel {facts['kernel']}, {facts['architecture']}")
    yield cell(", ".join(processor(facts)))
    every = [finding for findings in sections.values() for finding in findings]
    widths = {0: max(len(each.status) for each in every), 1: max(len(each.name) for each in every)}
    for name, findings in sections.items():
        yield heading(name.capitalize())
        yield columns([(word(each.status), each.name, account(each)) for each in findings], least=widths)
    yield Text()
    yield from verdict(every, testbed)


def processor(facts: Mapping[str, Any]) -> Iterator[str]:
    """What the machine computes with, as far as it tells."""
    yield str(facts.get("cpu_model", "unknown CPU"))
    yield f"{facts['cpus']} CPU{'s' * (facts['cpus'] != 1)}"
    if "crypto_instructions" in facts:
        yield f"with {facts['crypto_instructions']}"
    yield f"{facts['memory_mib']} MiB of memory"
    if facts["virtual"] == "yes":
        yield "a virtual machine"


def account(finding: Finding) -> Text:
    """What there is and why it matters, and below that what mends it."""
    text = f"{finding.found}; {finding.why}" if finding.found else finding.why
    return reasoned(text, f"mend: {finding.remedy}" if finding.remedy else "")


def verdict(findings: Iterable[Finding], testbed: str) -> Iterator[RenderableType]:
    """Whether a run is possible, and the shortest way to it."""
    missing = [finding for finding in findings if finding.status is Status.MISSING]
    if not missing:
        words = f"tunnelbench run {FIRST_PLAN} --on {testbed}" if testbed else "tunnelbench run"
        yield title(f"Ready for a run of the plan {FIRST_PLAN}: {words}")
        return
    yield title(f"Not ready for a run of the plan {FIRST_PLAN}; missing: {', '.join(each.name for each in missing)}")
    if packages := {each.remedy.removeprefix(INSTALL) for each in missing if each.remedy.startswith(INSTALL)}:
        yield cell(f"mend: {INSTALL}{' '.join(sorted(packages))}")
