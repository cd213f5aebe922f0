"""The packet filter that a plan sets up on the router to measure its cost; every kind of tunnel has these options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST_RULES = 1000
"""Largest number of rules that a plan may add."""


class Firewall(StrEnum):
    """Work that the router's firewall does for the traffic of a trial, in addition to forwarding."""

    NONE = "none"
    """No connections are tracked."""
    STATEFUL = "stateful"
    """Connections are tracked, and packets are forwarded by the state of their connection."""
    STATEFUL_NAT = "stateful-nat"
    """Connections are tracked as in STATEFUL, and NAT replaces the client's address by the router's towards the
    server."""

    @property
    def tracks(self) -> bool:
        return self is not Firewall.NONE

    @property
    def has_nat(self) -> bool:
        return self is Firewall.STATEFUL_NAT


FIREWALL_OPTION, RULES_OPTION = "firewall", "rules"
FILTER_OPTIONS: Mapping[str, str | int] = {FIREWALL_OPTION: Firewall.NONE.value, RULES_OPTION: 0}
"""The options, which every tunnel has, that set up a packet filter, each with the value that sets up none."""


@dataclass(frozen=True)
class RouterFilter:
    """The packet filter of one tunnel's trials."""

    firewall: Firewall = Firewall.NONE
    rules: int = 0
    """Number of rules with which the router compares each forwarded packet; none of the rules matches a packet."""

    @property
    def is_empty(self) -> bool:
        """True if the router gets no packet filter."""
        return self == RouterFilter()

    def __str__(self) -> str:
        words = [] if self.firewall is Firewall.NONE else [f"{FIREWALL_OPTION}={self.firewall}"]
        return " ".join([*words, *([f"{RULES_OPTION}={self.rules}"] if self.rules else [])])


def filter_of(options: Mapping[str, object]) -> RouterFilter:
    """Return the packet filter that a tunnel's options ask for; values that a plan cannot have, as in an imported run,
    count as no filter."""
    firewall, rules = options.get(FIREWALL_OPTION), options.get(RULES_OPTION)
    is_known = isinstance(firewall, str) and firewall in {*Firewall}
    return RouterFilter(
        Firewall(str(firewall)) if is_known else Firewall.NONE,
        rules if isinstance(rules, int) and not isinstance(rules, bool) else 0,
    )
