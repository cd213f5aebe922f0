"""`tunnelbench doctor --on TESTBED`: examines the hosts that are reached by SSH, and changes nothing there."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tunnelbench.cli.availability import needs
from tunnelbench.host.command import run_command
from tunnelbench.host.host import RUN_FOLDER, make_private
from tunnelbench.host.labgrid import PlaceUnavailable
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.preflight import PURPOSES, PreflightResult, Status, Wanted, met
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.measure.engine_setup import find_engine
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import Image, current_image
from tunnelbench.qemu.machine import ALIAS, VirtualMachine
from tunnelbench.qemu.speed_trial import WORK_IN_BACKGROUND, try_speed
from tunnelbench.testbed import firewall, open_testbed
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.netns import share_cpus
from tunnelbench.testbed.place import place_held
from tunnelbench.testbed.ssh import NO_IW_NOTE
from tunnelbench.traffic import engine
from tunnelbench.tunnel import virtual_router_packages

INSTALLERS = {
    "opkg": "opkg update && opkg install",
    "apk": "apk add",
    "apt-get": "apt-get install",
}
"""Commands that install a package, by package manager; the first manager that a host has is used."""

LABGRID_SECTION = "labgrid"
PLACE_USE = "the testbed's place gives the router's address and its power switch"

FACT_NAMES = {
    "board": "board",
    "soc": "SoC",
    "memory_mib": "memory [MiB]",
    "memory_available_kib": "of it free [KiB]",
    "tmp_free_kib": "room in /tmp [KiB]",
    "kernel": "kernel",
    "system": "system",
    "openwrt_target": "OpenWrt target",
    "busybox": "BusyBox",
    "flow_offloading": "flow offloading",
    "flow_offloading_hw": "the same in hardware",
    "flowtables": "flow tables in the kernel",
    "packet_steering": "packet steering",
    "gro": "GRO",
    "rps_cpus": "RPS",
    "governor": "governor",
    "schedstat": "schedstat",
}
"""Labels of a host's facts that need no conversion, by the fact's name."""


def examine(spec: TestbedSpec) -> dict[str, list[PreflightResult]]:
    """Return the results of the checks of a testbed's hosts behind SSH, by host."""
    name = f"doctor-{secrets.token_hex(3)}"
    folder = RUN_FOLDER / name
    make_private(RUN_FOLDER)
    sections: dict[str, list[PreflightResult]] = {}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            spec = stack.enter_context(place_held(spec, name, folder))
        except PlaceUnavailable as error:
            return {LABGRID_SECTION: [PreflightResult("place", Status.MISSING, error.message, PLACE_USE, error.hint)]}
        if spec.place:
            sections[LABGRID_SECTION] = [
                PreflightResult("place", Status.OK, f"{spec.place.name} can be acquired", PLACE_USE)
            ]
        testbed = open_testbed(replace(spec, place=None), name, folder)  # a check switches no power
        if spec.speed_mips is not None and (image := current_image(BOARDS[spec.board], virtual_router_packages())):
            sections["virtual router"] = [speed(spec, image, folder)]
        for host in testbed.permanent_hosts:
            visit = host.visit(f"{name}-{host.name}", testbed.local)
            sections[f"{host.name}, {host.access.host}"] = list(of_host(visit, testbed))
        if sections and not any(each.status is Status.MISSING for found in sections.values() for each in found):
            sections["cables"] = list(cables(testbed))
    return sections


def of_host(host: LeasedHost, testbed: Testbed) -> Iterator[PreflightResult]:
    """List the SSH connection of a host of a testbed, its facts, whether another run has reserved it, and the
    requirements of a run."""
    with ExitStack() as stack:
        stack.callback(host.close)
        try:
            host.connect()
        except CannotHere as error:
            yield PreflightResult("SSH", Status.MISSING, error.message, "carries all commands of a run", error.hint)
            return
        stack.callback(host.forget)
        yield PreflightResult("SSH", Status.OK, "", "logs in without a question")
        facts = host.facts()
        yield processor(facts)
        for key, called in FACT_NAMES.items():
            if key in facts:
                yield PreflightResult(called, Status.OK, fact_text(facts[key]), "as the host reports")
        yield PreflightResult("firewall", Status.OK, firewall.kind(host), "rules are added for a run and removed")
        yield lease(host)
        manager = next((each for each in INSTALLERS if host.has_program(each)), "")
        if host.name in (testbed.client.name, testbed.server.name):
            yield from programs(host, manager, REQUIRED_PROGRAMS)
            yield packet_engine(host)
        elif host.name == testbed.far_host.name:
            yield from programs(host, manager, {name: REQUIRED_PROGRAMS[name] for name in ("nft", "tcpdump")})
        if host.name in (testbed.router.name, testbed.tunnel_cable[0].name):  # the ends of the tunnel
            yield from tunnels(host, manager)


def speed(spec: TestbedSpec, image: Image, folder: Path) -> PreflightResult:
    """Boot the virtual router, and keep it busy for some seconds to find if this machine emulates its fixed speed."""
    mips = spec.speed_mips or 0.0
    purpose = "a router of fixed speed needs a machine that emulates so many instructions"
    try:
        router_cpu, _, _ = share_cpus(sorted(os.sched_getaffinity(0)), spec.router_cpu)
        machine = VirtualMachine(
            BOARDS[spec.board],
            image,
            folder.name,
            folder / "machine",
            cpus=(router_cpu,),
            speed_mips=mips,
            is_first=len(os.sched_getaffinity(0)) > 1,
        )
        try:
            machine.wait_until_up()
            run_command(["ssh", "-F", str(machine.ssh_config), ALIAS, WORK_IN_BACKGROUND])
            found = try_speed(machine.work, machine.cpu_s, mips)
        finally:
            machine.stop()
    except (CannotHere, OSError) as error:
        return PreflightResult("speed_mips", Status.UNKNOWN, str(error), purpose)
    status = Status.OK if found.is_held and not found.is_scarce else Status.WARNING
    advice = found.advice(f"tunnelbench run PLAN --on {spec.name}")
    return PreflightResult("speed_mips", status, found.result(), purpose, advice)


def processor(facts: Mapping[str, Any]) -> PreflightResult:
    parts = [str(facts.get("cpu_model", facts.get("architecture", "unknown"))), f"{facts.get('cpus', '?')} CPUs"]
    if "cpu_mhz" in facts:
        parts.append(f"{facts['cpu_mhz']} MHz ({facts.get('cpu_mhz_from', 'source unknown')})")
    crypto = facts.get("crypto_instructions")
    return PreflightResult(
        "CPU", Status.OK, ", ".join(parts), f"with {crypto}" if crypto else "crypto instructions unknown"
    )


def fact_text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return str(value)


def lease(host: LeasedHost) -> PreflightResult:
    found = host.lease()
    why = "one controller at a time"
    if found["state"] == "free":
        return PreflightResult("lease", Status.OK, "free", why)
    who = f"{found['state']}: {found.get('owner', 'unknown')}"
    return PreflightResult("lease", Status.WARNING, who, why, "wait, or tunnelbench clean --on TESTBED")


def tunnels(host: LeasedHost, manager: str) -> Iterator[PreflightResult]:
    """Check the requirements of all tunnels on the host, each once."""
    for requirement, why in needs(is_controller=False):
        remedy = requirement.remedy
        if manager in ("opkg", "apk"):
            packages = requirement.openwrt
            remedy = f"{INSTALLERS[manager]} {packages}" if packages else "no OpenWrt package with it is known"
        wanted = Wanted(requirement.what, why, remedy, Status.ABSENT)
        yield met(wanted, partial(requirement.is_met, host))


def programs(host: LeasedHost, manager: str, wanted_programs: Mapping[str, str]) -> Iterator[PreflightResult]:
    """Check the programs that every run needs on a host, each with its Debian package."""
    for program, package in wanted_programs.items():
        remedy = f"{INSTALLERS.get(manager, 'install')} {package}"
        yield met(Wanted(program, PURPOSES[program], remedy), partial(host.has_program, program))


def packet_engine(host: LeasedHost) -> PreflightResult:
    """Check that a run with [udp] has an engine for the tester: an installed one, or a copy of this machine's."""
    wanted = Wanted(engine.ENGINE_PROGRAM, "for plans with [udp]", "install TunnelBench there", Status.ABSENT)
    architecture, found = find_engine(host)
    if found:
        return wanted.found(Status.OK, found)
    if architecture == platform.machine():
        return wanted.found(Status.OK, "this machine's is copied for a run")
    return wanted.found(
        Status.ABSENT, f"none there, and this machine's is for {platform.machine()}, not {architecture}"
    )


def cables(testbed: Testbed) -> Iterator[PreflightResult]:
    """Check that the devices at both ends of each cable can be found."""
    why = "cables join client, router and server"
    try:
        testbed.look()
    except CannotHere as error:
        yield PreflightResult("cables", Status.MISSING, error.message, why, error.hint)
        return
    found = testbed.cable_ends
    if found is None:
        yield PreflightResult("cables", Status.UNKNOWN, "", why)
        return
    cables_text = "; ".join(f"{name} {near} - {far}" for name, near, far in found.cables)
    yield PreflightResult("cables", Status.OK, cables_text, why)
    if NO_IW_NOTE in testbed.notes:
        why = "reports band, rate and signal of the LAN, which is wireless"
        yield PreflightResult("iw", Status.ABSENT, "", why, f"{INSTALLERS['apt-get']} iw")
