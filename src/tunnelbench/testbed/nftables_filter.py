"""The packet filter of a plan as a table of nftables, which exists only during the run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tunnelbench.model.firewall import RouterFilter
from tunnelbench.testbed.router_filter import (
    ESTABLISHED,
    FILTER_NAME,
    NEW,
    OTHER,
    TRANSLATED,
    FilterChange,
    FilterProgram,
    FilterRules,
    unmatched_addresses,
)

SEEN_TABLE = "tunnelbench-seen"
"""Table on the server, which counts the packets by the address that the server sees."""

FROM_ROUTER, FROM_CLIENT = "router", "client"
"""Counters on the server."""

_COUNTER = re.compile(
    r"^[ \t]{0,32}counter (\w{1,32}) \{\s{1,32}packets (\d{1,19}) bytes (\d{1,19})\s{1,32}\}", re.MULTILINE
)


class Nftables(FilterProgram):
    """The program nft, for one table of the family `ip`."""

    name = "nft"
    programs = ("nft",)

    def __init__(self, table: str = FILTER_NAME) -> None:
        self.table = table

    @property
    def list_command(self) -> Sequence[str]:
        return ["nft", "list", "table", "ip", self.table]

    def change(self, wanted: RouterFilter, clients: str, target: str) -> FilterChange:
        return self.loading(ruleset(wanted, clients, target))

    def loading(self, text: str) -> FilterChange:
        """Return the command that sets up the table from a text for `nft -f`."""
        return FilterChange(["nft", "-f", "-"], text, ["nft", "delete", "table", "ip", self.table])

    def parse(self, listed: str) -> FilterRules | None:
        return FilterRules(listed, parse_counters(listed), parse_rules(listed))


def ruleset(wanted: RouterFilter, clients: str, target: str) -> str:
    """Return the input of `nft -f -` that sets up the filter for the traffic between clients and the target."""
    states = [
        f"ct state established,related counter name {ESTABLISHED} accept",
        f"ct state new counter name {NEW} accept",
    ]
    rules = [f"ip saddr {address} drop" for address in unmatched_addresses(wanted.rules)]
    rules += states if wanted.firewall.tracks else []
    rules.append(f"counter name {OTHER} accept")
    source = f"""
            chain source {{
                type nat hook postrouting priority 100
                ip saddr {clients} ip daddr {target} counter name {TRANSLATED} masquerade
            }}
    """
    lines = "\n                ".join(rules)
    return f"""
        table ip {FILTER_NAME}
        delete table ip {FILTER_NAME}
        table ip {FILTER_NAME} {{
            counter {ESTABLISHED} {{}}
            counter {NEW} {{}}
            counter {OTHER} {{}}
            counter {TRANSLATED} {{}}
            chain trial {{
                {lines}
            }}
            chain forward {{
                type filter hook forward priority 0
                ip saddr {clients} ip daddr {target} jump trial
                ip saddr {target} ip daddr {clients} jump trial
            }}
            {source if wanted.firewall.has_nat else ""}
        }}
    """


def seen_ruleset(router: tuple[str, ...], clients: str, target: str) -> str:
    """Return the input of `nft -f -` that counts, on the server, the packets from the router and from its clients."""
    return f"""
        table ip {SEEN_TABLE}
        delete table ip {SEEN_TABLE}
        table ip {SEEN_TABLE} {{
            counter {FROM_ROUTER} {{}}
            counter {FROM_CLIENT} {{}}
            chain arriving {{
                type filter hook input priority 0
                ip daddr {target} ip saddr {{ {", ".join(router)} }} counter name {FROM_ROUTER}
                ip daddr {target} ip saddr {clients} counter name {FROM_CLIENT}
            }}
        }}
    """


def parse_counters(listed: str) -> dict[str, tuple[int, int]]:
    """Return packets and bytes of each named counter in the output of `nft list table`."""
    return {name: (int(packets), int(size)) for name, packets, size in _COUNTER.findall(listed)}


def parse_rules(listed: str) -> int:
    """Return the number of rules that match nothing, in the output of `nft list table`."""
    return len(re.findall(r"^[ \t]{0,32}ip saddr 240\.0\.\d{1,3}\.\d{1,3} drop$", listed, re.MULTILINE))


def other_rules(listed: str) -> int:
    """Return the number of lines in the output of `nft list ruleset` that are not of the plan's own table."""
    count, is_own = 0, False
    for line in listed.splitlines():
        is_own = is_own or line.startswith(f"table ip {FILTER_NAME} ")
        count += not is_own
        is_own = is_own and line != "}"
    return count
