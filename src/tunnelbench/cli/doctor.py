"""`tunnelbench doctor`: lists the requirements of a run, shows which are missing here, and how to install them."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from tunnelbench.cli.availability import STARTED_BY_A_RUN, distrust, needs, requirements
from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import emit_json, emit_long, json_option
from tunnelbench.cli.completion import plan_names, testbed_names
from tunnelbench.cli.layout import cell, drawn, findings, heading, title, unfolded, word
from tunnelbench.cli.plans import load_plan
from tunnelbench.guest.machine import GUEST_PROGRAMS
from tunnelbench.host import preflight
from tunnelbench.host.command import run_command
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import Host
from tunnelbench.host.preflight import PreflightResult, Status, Wanted
from tunnelbench.host.python_packages import GUEST, install_hint
from tunnelbench.host.trust import require_trusted
from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.model.errors import CannotHere, ExitCode, TrialFailed
from tunnelbench.model.plan import Plan
from tunnelbench.model.shipped import DEFAULT_TESTBED, FIRST_PLAN, other_kernel_options
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.model.text import counted
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.boards import BOARDS, Board
from tunnelbench.qemu.image import (
    BASE_PACKAGES,
    BUILD_PROGRAMS,
    MORE_ROOM,
    NEEDED_ROOM,
    current_image,
    images_folder,
    room_in_cache,
)
from tunnelbench.qemu.machine import SSH_PROGRAMS
from tunnelbench.qemu.packages import KEYRING, KEYRING_PACKAGE, MIRROR
from tunnelbench.store.location import default_path
from tunnelbench.testbed import KINDS
from tunnelbench.testbed.netns import share_cpus
from tunnelbench.traffic import engine
from tunnelbench.tunnel import PLANNED, virtual_router_packages
from tunnelbench.tunnel.requirements import Requirement

LOAD_WINDOW_S = 1.0

IMAGES_ARE_BUILT = (
    "The run builds the images of its virtual machines first, which takes about two minutes. It downloads 60 to 90 MB "
    f"for each image from {MIRROR}. This command builds them without a run:"
)

APT_INSTALL = "apt-get install "

OWN_PROGRAMS = (
    "put programs for the boards into folders, and name these in `programs` and `far_programs` of the testbed"
)


@click.command()
@click.argument("plan", default=FIRST_PLAN, shell_complete=plan_names)
@click.option(
    "--on",
    "testbed",
    metavar="TESTBED",
    shell_complete=testbed_names,
    help="Testbed of the run, and examine its hosts.  [default: netns]",
)
@click.option("--all", "shows_all", is_flag=True, help="List what is met, and what only other plans need, too.")
@log_options
@json_option
def command(plan: str, testbed: str | None, shows_all: bool, as_json: bool) -> None:
    """List what a run of PLAN (default: quick) needs and lacks on a testbed, and how to install it.

    The exit status is 0 if the run can start, else 3. A tunnel that only this kernel lacks is a warning.
    """
    spec = read_testbed(testbed or DEFAULT_TESTBED, KINDS).testbed
    wanted = load_plan(plan, (), spec).plan
    sections = examine(wanted, spec)
    unbuilt = [board for board in boards_of(spec) if not is_built(board)]
    if testbed and not lacking(sections):
        from tunnelbench.cli import doctor_remote  # noqa: PLC0415 # needed with --on alone

        sections |= doctor_remote.examine(spec)
    is_ready = not lacking(sections)
    run = shlex.join(["tunnelbench", "run", plan, *(["--on", testbed] if testbed else [])])
    build = shlex.join(["tunnelbench", "testbed", "build", testbed or spec.name]) if unbuilt else ""
    if as_json:
        emit_json({"ready": is_ready, "run": run, "facts": machine_facts(), **sections})
    else:
        emit_long(drawn(*picture(machine_facts(), sections, run, build, shows_all=shows_all)))
    if not is_ready:
        sys.exit(ExitCode.CANNOT)


def lacking(sections: Mapping[str, Sequence[PreflightResult]]) -> list[PreflightResult]:
    """Return the results of failed checks: because of them, the run is not possible or not complete."""
    return [each for found in sections.values() for each in found if each.status is Status.MISSING]


def examine(plan: Plan, spec: TestbedSpec) -> dict[str, list[PreflightResult]]:
    """Return the results of all checks of this machine, by section."""
    cpus = sorted(os.sched_getaffinity(0))
    with preflight.probing_host() as host:
        machine = [
            preflight.root(),
            preflight.namespaces(host),
            preflight.tun_device(host),
            *(() if KINDS[spec.kind].has_own_router else (cpu_sharing(cpus),)),
            preflight.governor(),
            preflight.schedstat(),
            preflight.foreign_load(cpus, LOAD_WINDOW_S, FOREIGN_LIMIT_SHARE),
            preflight.writable(default_path()),
        ]
        programs = [
            *preflight.required_programs(),
            packet_engine(is_needed=bool(plan.udp or plan.soak or plan.connections)),
            *guest_programs(spec),
        ]
        kernel = preflight.base_features(host)
        for section, finding in tunnel_findings(host, plan, spec):
            (programs if section == "programs" else kernel).append(finding)
    return {"machine": machine, "programs": programs, "kernel": kernel}


def guest_programs(spec: TestbedSpec) -> Iterator[PreflightResult]:
    """List the programs that testbeds with another kernel, a virtual router or a router behind SSH need."""
    boards = boards_of(spec)
    needed = set(GUEST_PROGRAMS) if spec.needs_guest else set()
    needed |= {board.program for board in boards}
    needed |= set(SSH_PROGRAMS) if boards else {"ssh"} if KINDS[spec.kind].has_own_router else set()
    unbuilt = [board for board in boards if not is_built(board)]
    needed |= set(BUILD_PROGRAMS) if unbuilt else set()
    every = {board.program: board.package for board in BOARDS.values()} | BUILD_PROGRAMS | SSH_PROGRAMS
    for name, package in (GUEST_PROGRAMS | every).items():
        why = "for a virtual router" if name in every else "for testbeds with a kernel of their own"
        why = "for a router behind SSH, or a virtual one" if name in SSH_PROGRAMS else why
        status = Status.MISSING if name in needed else Status.ABSENT
        yield preflight.program(Wanted(name, why, f"{APT_INSTALL}{package}", status))
    if unbuilt:
        yield from build_conditions()
    if spec.needs_guest:
        wanted = Wanted(GUEST, "boots the testbed's kernel", install_hint(GUEST))
        yield wanted.found(Status.OK if find_spec("virtme") else Status.MISSING)


def boards_of(spec: TestbedSpec) -> list[Board]:
    """Return the boards of a testbed's virtual machines, each once."""
    return [BOARDS[name] for name in dict.fromkeys(spec.boards)]


def is_built(board: Board) -> bool:
    return current_image(board, virtual_router_packages()) is not None


def build_conditions() -> Iterator[PreflightResult]:
    """Check what a build of an image needs, except its programs."""
    status = Status.OK if KEYRING.exists() else Status.MISSING
    yield Wanted(KEYRING_PACKAGE, "verifies the packages of an image", f"{APT_INSTALL}{KEYRING_PACKAGE}").found(status)
    has_room, free = room_in_cache()
    wanted = Wanted("disk space", f"the build of an image needs {NEEDED_ROOM}", MORE_ROOM)
    yield wanted.found(Status.OK if has_room else Status.MISSING, f"{free} in {images_folder()}")


def tunnel_findings(host: Host, plan: Plan, spec: TestbedSpec) -> Iterator[tuple[str, PreflightResult]]:
    """List the requirements of all tunnels, each once, with its section; those of the plan's tunnels are needed.

    A guest has a kernel of its own. A feature that this machine's kernel lacks is therefore not reported as missing. If
    both ends of the tunnel are virtual machines, this machine needs only the programs that make keys, and a program
    that their images lack is a warning. A run without a guest leaves out a tunnel whose feature the kernel lacks, if
    the plan has other tunnels.
    """
    own = {
        each.what: each
        for tunnel in plan.tunnels
        if tunnel.kind not in PLANNED
        for each in requirements(tunnel.kind, tunnel.options)
    }
    every = {each.what: (each, why) for each, why in needs(is_controller=True)}
    usual = set(every)
    every |= {what: (each, f"for the plan {plan.name}") for what, each in own.items() if what not in every}
    for requirement, why in every.values():
        is_elsewhere = (spec.needs_guest and bool(requirement.modules)) or (
            bool(spec.far_board) and not requirement.makes_keys
        )
        status = Status.MISSING if requirement.what in own and not is_elsewhere else Status.ABSENT
        use = why
        if status is Status.MISSING and requirement.modules and plan_has_others(plan, requirement):
            other = " ".join(other_kernel_options(spec.name))
            status, use = Status.WARNING, f"{why}; the run leaves out what needs it, and {other} has it"
        wanted = Wanted(requirement.name or requirement.what, use, requirement.remedy, status)
        if requirement.what in own and is_lacking_in_image(requirement, spec):
            use = f"{why}; the run leaves out what needs it"
            yield "programs", replace(wanted, why=use, remedy=OWN_PROGRAMS).found(Status.WARNING, "not in the image")
            continue
        is_named_by_plan = requirement.is_program and requirement.what not in usual
        if is_named_by_plan and (fault := distrust(requirement.name)):
            yield "programs", replace(wanted, remedy=fault).found(Status.MISSING)
        elif requirement.starts_program or (is_named_by_plan and requirement.is_met(host)):
            yield "programs", wanted.found(Status.UNKNOWN, STARTED_BY_A_RUN)
        elif is_named_by_plan:
            yield "programs", wanted.found(status)
        elif requirement.is_program:
            yield "programs", preflight.program(wanted)
        else:
            yield "kernel", preflight.met(wanted, partial(requirement.is_met, host))


def is_lacking_in_image(requirement: Requirement, spec: TestbedSpec) -> bool:
    """Return True if no package in the image of a virtual router brings a program, and no folder of the user can."""
    if not spec.far_board or spec.programs or not requirement.is_program or requirement.makes_keys:
        return False
    return not set(requirement.debian.split()) & {*BASE_PACKAGES, *virtual_router_packages()}


def plan_has_others(plan: Plan, requirement: Requirement) -> bool:
    """Return True if the plan has a tunnel that does not need a feature of the kernel."""
    return any(
        requirement.what not in {each.what for each in requirements(tunnel.kind, tunnel.options)}
        for tunnel in plan.tunnels
        if tunnel.has_tunnel and tunnel.kind not in PLANNED
    )


def packet_engine(*, is_needed: bool = False) -> PreflightResult:
    """Find the engine that a run with `[udp]` or `[soak]` would start, and start it.

    The engine listens on the loopback device until it has reported its version.
    """
    status = Status.MISSING if is_needed else Status.ABSENT
    wanted = Wanted(engine.ENGINE_PROGRAM, "for plans with [udp] or [soak]", "", status)
    try:
        path = engine.locate()
    except CannotHere as error:
        return replace(wanted.found(status), remedy=error.hint)
    wanted = replace(wanted, remedy="reinstall TunnelBench: it brings its own engine")
    argv = [path, "reflect", "--bind", "127.0.0.1:0", "--session", secrets.token_hex(7)]
    try:
        require_trusted(path, "the packet engine")
        completed = run_command(argv, timeout_s=preflight.VERSION_TIMEOUT_S)
        hello = engine.parse_lines(completed.stdout).hello
    except (CannotHere, TrialFailed, OSError) as error:
        return wanted.found(status, f"{path} does not work: {error}")
    if hello is None:
        return wanted.found(status, f"{path} does not report its version")
    return wanted.found(Status.OK, f"{hello.get('version')}, protocol {hello.get('protocol')}, {path}")


def cpu_sharing(cpus: Sequence[int]) -> PreflightResult:
    """Return the result that names the CPU of the router and those of the testers."""
    router_cpu, tester_cpus, notes = share_cpus(cpus, None)
    shares = f"router on CPU {router_cpu}, testers on {', '.join(map(str, tester_cpus))}"
    if notes:
        return PreflightResult("CPUs", Status.WARNING, shares, notes[0], "a machine with 4 CPUs or more")
    return PreflightResult("CPUs", Status.OK, shares, "the router has one CPU for itself")


def picture(
    facts: Mapping[str, Any],
    sections: Mapping[str, Sequence[PreflightResult]],
    run: str,
    build: str = "",
    *,
    shows_all: bool = False,
) -> Iterator[RenderableType]:
    """Yield the report for people. Missing requirements come first.

    The requirements that are met are listed only if `shows_all` is set; otherwise their number is shown.
    """
    yield title(f"{facts.get('system', 'Linux')}, kernel {facts['kernel']}, {facts['architecture']}")
    yield cell(", ".join(processor(facts)))
    every = [finding for findings in sections.values() for finding in findings]
    first = {heading: [each for each in every if each.status is status] for heading, status in FIRST.items()}
    rest = {name.capitalize(): findings for name, findings in sections.items()} if shows_all else {}
    shown = [each for findings in (*first.values(), *rest.values()) for each in findings]
    widths = {
        0: max((len(each.status) for each in shown), default=0),
        1: max((len(each.name) for each in shown), default=0),
    }
    for name, results in (*first.items(), *rest.items()):
        if results:
            yield heading(name)
            yield from findings([account(each) for each in results], widths)
    if not shows_all:
        met = sum(each.status is Status.OK for each in every)
        absent = sum(each.status is Status.ABSENT for each in every)
        others = f", and {absent} that only other plans and testbeds need are not" if absent else ""
        yield Text()
        yield cell(f"{counted(met, 'requirement')} met{others}; --all lists them.")
    yield Text()
    yield from verdict(every, run, build)


FIRST = {
    "Missing": Status.MISSING,
    "The run is possible, but less accurate or less complete": Status.WARNING,
    "Could not be checked": Status.UNKNOWN,
}
"""Results that are always shown, by their heading."""


def processor(facts: Mapping[str, Any]) -> Iterator[str]:
    """List the CPU, its instructions and the memory, as far as they are known."""
    yield str(facts.get("cpu_model", "unknown CPU"))
    yield counted(facts["cpus"], "CPU")
    if "crypto_instructions" in facts:
        yield f"with {facts['crypto_instructions']}"
    yield f"{facts['memory_mib']} MiB of memory"
    if facts["virtual"] == "yes":
        yield "a virtual machine"


def account(result: PreflightResult) -> tuple[Text, str, str, str]:
    """Return the result of one check: status, name, what was found with its use, and the fix."""
    text = f"{result.found}; {result.why}" if result.found else result.why
    return word(result.status), result.name, text, f"fix: {result.remedy}" if result.remedy else ""


def verdict(findings: Iterable[PreflightResult], run: str, build: str = "") -> Iterator[RenderableType]:
    """Yield the conclusion: if the run is possible, and one command that installs the missing packages.

    `build` is the command that builds the images of virtual machines; empty if the run needs none.
    """
    missing = [finding for finding in findings if finding.status is Status.MISSING]
    if not missing:
        if not build:
            yield unfolded(f"Ready: {run}")
            return
        yield unfolded(f"Ready when the images are built: {run}")
        yield cell(IMAGES_ARE_BUILT)
        yield unfolded(build)
        return
    yield unfolded(f"Not ready for {run}")
    yield cell(f"Missing: {', '.join(each.name for each in missing)}")
    found = [each.remedy.removeprefix(APT_INSTALL).split() for each in missing if each.remedy.startswith(APT_INSTALL)]
    if packages := {name for names in found for name in names}:
        yield unfolded(f"{APT_INSTALL}{' '.join(sorted(packages))}")
