"""The packet filter that a plan sets up on the router, and the interface of the programs that can set it up.

The rules match the traffic of the trials by the addresses of its clients and by its target. Other packets pass
unchanged, so that a router in use keeps its own rules for them. Connection tracking, once on, sees all IPv4 packets of
the router.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

from tunnelbench.host.host import Host
from tunnelbench.model.firewall import RouterFilter
from tunnelbench.model.text import printable

FILTER_NAME = "tunnelbench-firewall"
"""Name of the plan's table of nftables on the router, or of its chains of iptables."""

ESTABLISHED, NEW, OTHER, TRANSLATED = "established", "new", "other", "translated"
"""Counters on the router: packets of known connections, first packets, all other packets; connections with NAT."""

_COUNTS = re.compile(r"\bpackets \d{1,19} bytes \d{1,19}|\[\d{1,19}:\d{1,19}\] ?")
"""Packets and bytes as nft and `iptables-save` print them."""


@dataclass(frozen=True)
class FilterChange:
    """A command that sets up rules on a host."""

    argv: Sequence[str]
    stdin: str
    """Input of the command."""
    undo: Sequence[str]
    """Command that removes these rules and no others; it has no effect if they are not there."""


@dataclass(frozen=True)
class FilterRules:
    """The rules of a plan, as a program lists them."""

    text: str
    """Lines of the list, with their counts."""
    counters: Mapping[str, tuple[int, int]]
    """Packets and bytes by the counter's name."""
    unmatched: int
    """Number of rules that match nothing."""


class FilterProgram(ABC):
    """A program that sets up packet filters."""

    name: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    """Programs that a host must have."""

    @property
    @abstractmethod
    def list_command(self) -> Sequence[str]:
        """The command that lists the rules."""

    @abstractmethod
    def change(self, wanted: RouterFilter, clients: str, target: str) -> FilterChange:
        """Return the command that sets up the filter for the traffic between clients and the target.

        `clients` is an address, or the network of several clients. The command replaces an earlier filter of a plan.
        The rules that match nothing come first, so that every packet is compared with all of them.
        """

    @abstractmethod
    def parse(self, listed: str) -> FilterRules | None:
        """Return the rules of a plan in the output of `list_command`; None: there are none."""

    def read(self, host: Host) -> FilterRules | None:
        """Return the rules of a plan on a host; None: there are none."""
        done = host.run(self.list_command, check=False)
        return self.parse(done.stdout) if done.returncode == 0 else None


def unmatched_addresses(count: int) -> list[str]:
    """Return the source addresses of rules that match nothing, from 240.0.0.0/4, which is reserved (RFC 1112, section
    4)."""
    return [f"240.0.{number >> 8}.{number & 255}" for number in range(1, count + 1)]


def first_difference(set_up: str, listed: str) -> str:
    """Return in words the first line in which two lists of rules differ, other than by their counts.

    Returns an empty text if they do not differ.
    """
    before, now = (_without_counts(text) for text in (set_up, listed))
    for expected, found in zip_longest(before, now, fillvalue="nothing"):
        if expected != found:
            return f"{printable(found[:100])!r} in place of {printable(expected[:100])!r}"
    return ""


def _without_counts(listed: str) -> list[str]:
    lines = (_COUNTS.sub("", line).strip() for line in listed.splitlines())
    return [line for line in lines if line]
