"""Whether a tunnel can come up on this machine, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunnelbench.host.host import Host
from tunnelbench.host.readiness import Status
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import OptionValue
from tunnelbench.tunnel import PLANNED, adapter
from tunnelbench.tunnel.base import Requirement

NO_OPTIONS: Mapping[str, OptionValue] = {}


@dataclass(frozen=True)
class Need:
    """One thing that a tunnel needs, and how it stands here."""

    what: str
    status: Status
    """`ok`, `missing`, or `unknown`: it could not be tried."""
    remedy: str
    """What mends it; why it could not be tried; empty where it is ok."""


@dataclass(frozen=True)
class Availability:
    """How a kind of tunnel stands on this machine."""

    answer: str
    """`yes`, `no`, `unknown` or `no adapter yet`."""
    needs: tuple[Need, ...] = ()

    @property
    def reason(self) -> str:
        """Why the answer is not yes; empty where it is."""
        return "; ".join(f"{need.what}: {need.status} ({need.remedy})" for need in self.needs if need.remedy)


def availability(kind: str, host: Host) -> Availability:
    """Whether a kind can come up with its default options; `host` is the probing one."""
    if kind in PLANNED:
        return Availability("no adapter yet")
    needs = tuple(need(requirement, host) for requirement in requirements(kind))
    statuses = {each.status for each in needs}
    if Status.MISSING in statuses:
        return Availability("no", needs)
    return Availability("unknown" if Status.UNKNOWN in statuses else "yes", needs)


def requirements(kind: str, options: Mapping[str, OptionValue] = NO_OPTIONS) -> tuple[Requirement, ...]:
    """What a tunnel with these options needs at each end."""
    tunnel = adapter(kind)
    return tunnel.requirements(tunnel.options_type.model_validate(dict(options)))


def need(requirement: Requirement, host: Host) -> Need:
    """How a requirement stands on a host."""
    try:
        is_met = requirement.is_met(host)
    except CannotHere as error:
        return Need(requirement.what, Status.UNKNOWN, error.message)
    if is_met:
        return Need(requirement.what, Status.OK, "")
    return Need(requirement.what, Status.MISSING, requirement.remedy)
