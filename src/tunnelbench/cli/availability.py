"""Finds out which tunnels can come up on this machine, and lists their requirements."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from shutil import which
from typing import Literal

from tunnelbench.guest.kernel import cached_kernel
from tunnelbench.host.host import Host
from tunnelbench.host.preflight import PreflightResult, Status, Wanted, met
from tunnelbench.host.trust import require_trusted
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import OptionValue, TunnelSpec
from tunnelbench.tunnel import PLANNED, adapter, adapters
from tunnelbench.tunnel.requirements import Requirement

NO_OPTIONS: Mapping[str, OptionValue] = {}


@dataclass(frozen=True)
class Availability:
    """The answer to the question if a kind of tunnel can come up on this machine, with its requirements."""

    answer: str
    """`yes`, `no`, `unknown` or `no adapter yet`."""
    needs: tuple[PreflightResult, ...] = ()

    @property
    def reason(self) -> str:
        """Reason why the answer is not `yes`; empty if it is `yes`."""
        lacking = [need for need in self.needs if need.status is not Status.OK]
        return "; ".join(f"{need.name}: {need.status} ({need.remedy or need.found})" for need in lacking)

    @property
    def shortfall(self) -> str:
        """The reason without the commands of the fix, which a table's column could fold in two."""
        lacking = [need for need in self.needs if need.status is not Status.OK]
        return "; ".join(f"{need.name}: {need.status}{f' ({need.found})' * bool(need.found)}" for need in lacking)


def carried_by(kind: str, here: Availability) -> str:
    """Return in words which kernel supports the tunnel: this machine's, Debian's in a guest, or none that is known."""
    if here.answer in ("yes", "unknown"):
        return f"this machine's, {platform.release()}" if here.answer == "yes" else "unknown: not testable here"
    if kind in PLANNED:
        return "none: there is no adapter yet"
    lacking = {need.name for need in here.needs if need.status is Status.MISSING}
    wanting = [requirement for requirement in requirements(kind) if requirement.what in lacking]
    if not all(requirement.modules for requirement in wanting):
        return "unknown until the other requirements are installed"
    if (debian := cached_kernel()) is None:
        return "perhaps Debian's: a run on the testbed netns-debian fetches that kernel and shows it"
    if all(debian.has_module(name) for requirement in wanting for name in requirement.modules):
        return f"Debian's, {debian.version}, inside a guest: run on the testbed netns-debian"
    return f"neither this machine's nor Debian's, {debian.version}"


STARTED_BY_A_RUN = "only a run starts the program that the plan names"
"""Reason for which a program's state is unknown: the plan may come from another person."""


def kinds() -> Mapping[str, str]:
    """Return every kind that a plan may name, with its title; kinds with an adapter come first."""
    return {**{kind: tunnel.title for kind, tunnel in adapters().items()}, **PLANNED}


def availability(kind: str, host: Host, options: Mapping[str, OptionValue] = NO_OPTIONS) -> Availability:
    """Return if a tunnel can come up; `host` comes from `probing_host`, and missing options have their defaults.

    The function starts no program that the options name, because a plan may come from another person.
    """
    if kind in PLANNED:
        return Availability("no adapter yet")

    def looked_at(requirement: Requirement) -> PreflightResult:
        wanted = Wanted(requirement.what, f"for {kind}", requirement.remedy)
        if requirement.starts_program:
            return wanted.found(Status.UNKNOWN, STARTED_BY_A_RUN)
        return met(wanted, partial(requirement.is_met, host))

    needs = tuple(map(looked_at, requirements(kind, options)))
    statuses = {need.status for need in needs}
    if Status.MISSING in statuses:
        return Availability("no", needs)
    return Availability("unknown" if Status.UNKNOWN in statuses else "yes", needs)


def requirements(kind: str, options: Mapping[str, OptionValue] = NO_OPTIONS) -> tuple[Requirement, ...]:
    """Return the programs and kernel features that a tunnel with these options needs at each end."""
    tunnel = adapter(kind)
    return tunnel.requirements(tunnel.options_type.model_validate(dict(options)))


def require_trusted_programs(tunnels: Iterable[TunnelSpec]) -> None:
    """Raises CannotHere if this is root, and another user could change a program of these tunnels on this machine."""
    for tunnel in tunnels:
        for each in requirements(tunnel.kind, tunnel.options) if tunnel.kind not in PLANNED else ():
            if each.is_program and (path := which(each.name)):
                require_trusted(path, f"the program of the tunnel {tunnel.name},")


def distrust(program: str) -> str:
    """Return why a run of root would refuse a program of this machine; empty if it would not."""
    try:
        require_trusted(which(program) or program, "the program")
    except CannotHere as error:
        return error.message
    return ""


def packages(tunnels: Iterable[TunnelSpec], source: Literal["debian", "crate"]) -> list[str]:
    """Return the Debian packages, or the Rust crates as `NAME@VERSION`, that provide what tunnels require, sorted."""
    wanted = (
        each for tunnel in tunnels if tunnel.kind not in PLANNED for each in requirements(tunnel.kind, tunnel.options)
    )
    return sorted({name for requirement in wanted for name in getattr(requirement, source).split()})


def needs(*, is_controller: bool) -> list[tuple[Requirement, str]]:
    """Return the requirements of all tunnels with default options, each once, with why it is needed.

    Programs that only make keys are left out unless the host is the controller's machine.
    """
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for kind in adapters():
        for requirement in requirements(kind):
            if is_controller or not requirement.makes_keys:
                found.setdefault(requirement.what, (requirement, []))[1].append(kind)
    return [(requirement, f"for {', '.join(users)}") for requirement, users in found.values()]
