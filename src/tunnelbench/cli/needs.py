"""Whether a tunnel can come up on this machine, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

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
