"""Whether a tunnel can come up on this machine, and what it lacks."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tunnelbench.guest.kernel import cached_kernel
from tunnelbench.host.host import Host
from tunnelbench.host.readiness import Finding, Status, Wanted, met
from tunnelbench.model.plan import OptionValue
from tunnelbench.tunnel import PLANNED, adapter, adapters
from tunnelbench.tunnel.base import Requirement

NO_OPTIONS: Mapping[str, OptionValue] = {}


@dataclass(frozen=True)
class Availability:
    """How a kind of tunnel stands on this machine."""

    answer: str
    """`yes`, `no`, `unknown` or `no adapter yet`."""
    needs: tuple[Finding, ...] = ()

    @property
    def reason(self) -> str:
        """Why the answer is not yes; empty where it is."""
        lacking = [need for need in self.needs if need.status is not Status.OK]
        return "; ".join(f"{need.name}: {need.status} ({need.remedy or need.found})" for need in lacking)


def carried_by(kind: str, here: Availability) -> str:
    """Which kernel would carry it, in words: this machine's, Debian's in a guest, or none that is known."""
    if here.answer in ("yes", "unknown"):
        return f"this machine's, {platform.release()}" if here.answer == "yes" else "not known: it could not be tried"
    if kind in PLANNED:
        return "none: there is no adapter yet"
    lacking = {need.name for need in here.needs if need.status is Status.MISSING}
    wanting = [requirement for requirement in requirements(kind) if requirement.what in lacking]
    if not all(requirement.modules for requirement in wanting):
        return "this machine's, or another, once the rest is here"
    if (debian := cached_kernel()) is None:
        return "perhaps Debian's: run on the testbed netns-debian, which fetches it, and see"
    if all(debian.has_module(name) for requirement in wanting for name in requirement.modules):
        return f"Debian's, {debian.version}, inside a guest: run on the testbed netns-debian"
    return f"neither this machine's nor Debian's, {debian.version}"


def kinds() -> Mapping[str, str]:
    """Every kind that a plan may name, with its title: those that have an adapter first."""
    return {**{kind: tunnel.title for kind, tunnel in adapters().items()}, **PLANNED}


def availability(kind: str, host: Host, options: Mapping[str, OptionValue] = NO_OPTIONS) -> Availability:
    """Whether a tunnel can come up; `host` is the probing one, options that are left out have their defaults."""
    if kind in PLANNED:
        return Availability("no adapter yet")
    needs = tuple(
        met(Wanted(requirement.what, f"for {kind}", requirement.remedy), partial(requirement.is_met, host))
        for requirement in requirements(kind, options)
    )
    statuses = {need.status for need in needs}
    if Status.MISSING in statuses:
        return Availability("no", needs)
    return Availability("unknown" if Status.UNKNOWN in statuses else "yes", needs)


def requirements(kind: str, options: Mapping[str, OptionValue] = NO_OPTIONS) -> tuple[Requirement, ...]:
    """What a tunnel with these options needs at each end."""
    tunnel = adapter(kind)
    return tunnel.requirements(tunnel.options_type.model_validate(dict(options)))
