"""The packet filter that a plan sets up on the router, so that its cost is measured: the options of every tunnel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOST_RULES = 1000
"""Largest number of rules that a plan may add."""


class Firewall(StrEnum):
    """Work of the router for the traffic of a trial in addition to forwarding."""

    NONE = "none"
    """No connections are tracked."""
    STATEFUL = "stateful"
    """Connections are tracked, and packets are forwarded by the state of their connection."""
    STATEFUL_NAT = "stateful-nat"
    """The same, and the server sees the router's address in place of the client's."""

    @property
    def tracks(self) -> bool:
        return self is not Firewall.NONE

    @property
    def has_nat(self) -> bool:
        return self is Firewall.STATEFUL_NAT


FIREWALL_OPTION, RULES_OPTION = "firewall", "rules"
FILTER_OPTIONS: Mapping[str, str | int] = {FIREWALL_OPTION: Firewall.NONE.value, RULES_OPTION: 0}
"""The options of every tunnel that set up a filter, each with the value that stands for nothing."""


@dataclass(frozen=True)
class RouterFilter:
    """The packet filter of one tunnel's trials."""

    firewall: Firewall = Firewall.NONE
    rules: int = 0
    """Number of rules that each forwarded packet is compared with, and that match none."""

    @property
    def is_empty(self) -> bool:
        """True if the router gets no packet filter."""
        return self == RouterFilter()

    def __str__(self) -> str:
        words = [] if self.firewall is Firewall.NONE else [f"{FIREWALL_OPTION}={self.firewall}"]
        return " ".join([*words, *([f"{RULES_OPTION}={self.rules}"] if self.rules else [])])


def filter_of(options: Mapping[str, object]) -> RouterFilter:
    """Return the packet filter that a tunnel's options ask for; values that no plan has, as in an imported run, count
    as none."""
    firewall, rules = options.get(FIREWALL_OPTION), options.get(RULES_OPTION)
    is_known = isinstance(firewall, str) and firewall in {*Firewall}
    return RouterFilter(
        Firewall(str(firewall)) if is_known else Firewall.NONE,
        rules if isinstance(rules, int) and not isinstance(rules, bool) else 0,
    )
