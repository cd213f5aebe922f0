"""The conditions of trials, which are options of every tunnel: packet filter, IP versions, line, CPUs and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tunnelbench.model.firewall import FILTER_OPTIONS, RouterFilter, filter_of
from tunnelbench.model.ip_versions import (
    INSIDE_OPTION,
    OUTSIDE_OPTION,
    VERSION_OPTIONS,
    IpVersion,
    version_of_option,
)
from tunnelbench.model.lines import LINE_OPTION, LINE_OPTIONS, LineName, line_of

CPUS_OPTION = "cpus"
MOST_ROUTER_CPUS = 2
"""Most CPUs that a plan may give the router."""

CONTENT_OPTION = "content"


class Content(StrEnum):
    """The data of the traffic."""

    RANDOM = "random"
    REPEATING = "repeating"
    """The digits 0 to 9 again and again for TCP, and zeros for UDP."""


CONDITION_OPTIONS: Mapping[str, str | int] = {
    **FILTER_OPTIONS, **VERSION_OPTIONS, **LINE_OPTIONS, CPUS_OPTION: 1, CONTENT_OPTION: Content.RANDOM.value,
}  # fmt: skip
"""The options of conditions, each with the value that a tunnel has without it."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of one tunnel's trials. Trials under different conditions are not compared with each other."""

    packet_filter: RouterFilter = field(default_factory=RouterFilter)
    inside: IpVersion = IpVersion.IPV4
    """IP version of the packets in the tunnel: that of the traffic."""
    outside: IpVersion = IpVersion.IPV4
    """IP version of the packets that carry the tunnel."""
    line: LineName | None = None
    """Line that carries the tunnel; None: the cable as the testbed has it."""
    cpus: int = 1
    """CPUs of the router."""
    content: Content = Content.RANDOM
    """Data of the traffic."""

    @property
    def are_usual(self) -> bool:
        """True if no option changes a condition."""
        return self == Conditions()

    def __str__(self) -> str:
        versions = {INSIDE_OPTION: self.inside, OUTSIDE_OPTION: self.outside}
        words = [f"{name}={version}" for name, version in versions.items() if version is not IpVersion.IPV4]
        words += [f"{LINE_OPTION}={self.line}"] if self.line else []
        words += [f"{CPUS_OPTION}={self.cpus}"] if self.cpus != 1 else []
        words += [f"{CONTENT_OPTION}={self.content}"] if self.content is not Content.RANDOM else []
        return " ".join([*([] if self.packet_filter.is_empty else [str(self.packet_filter)]), *words])


def conditions_of(options: Mapping[str, object]) -> Conditions:
    """Return the conditions that a tunnel's options ask for; values that a plan cannot have count as not given."""
    return Conditions(
        filter_of(options),
        version_of_option(options, INSIDE_OPTION),
        version_of_option(options, OUTSIDE_OPTION),
        line_of(options),
        _cpus_of(options),
        Content.REPEATING if options.get(CONTENT_OPTION) == Content.REPEATING else Content.RANDOM,
    )


def _cpus_of(options: Mapping[str, object]) -> int:
    cpus = options.get(CPUS_OPTION)
    return cpus if isinstance(cpus, int) and not isinstance(cpus, bool) else 1
