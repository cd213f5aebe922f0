"""The packet filter that a plan sets up on the router: a table of nftables, which exists only during the run.

The rules match the traffic of the trials by the addresses of its clients and by its target. Other packets pass
unchanged, so that a router in use keeps its own rules for them. Connection tracking, once on, sees all IPv4 packets of
the router.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from tunnelbench.model.firewall import RouterFilter
from tunnelbench.model.text import printable

FILTER_TABLE = "tunnelbench-firewall"
"""Table of nftables on the router."""

SEEN_TABLE = "tunnelbench-seen"
"""Table of nftables on the server, which counts the packets by the address that the server sees."""

ESTABLISHED, NEW, OTHER, TRANSLATED = "established", "new", "other", "translated"
"""Counters on the router: packets of known connections, first packets, all other packets; connections with NAT."""

FROM_ROUTER, FROM_CLIENT = "router", "client"
"""Counters on the server."""

_COUNTER = re.compile(
    r"^[ \t]{0,32}counter (\w{1,32}) \{\s{1,32}packets (\d{1,19}) bytes (\d{1,19})\s{1,32}\}", re.MULTILINE
)


def ruleset(wanted: RouterFilter, clients: str, target: str) -> str:
    """Return the input of `nft -f -` that sets up the filter for the traffic between clients and the target.

    `clients` is an address, or the network of several clients.

    The rules that match nothing come first, so that every packet is compared with all of them. Their addresses are from
    240.0.0.0/4, which is reserved (RFC 1112, section 4).
    """
    states = [
        f"ct state established,related counter name {ESTABLISHED} accept",
        f"ct state new counter name {NEW} accept",
    ]
    rules = [f"ip saddr 240.0.{number >> 8}.{number & 255} drop" for number in range(1, wanted.rules + 1)]
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
        table ip {FILTER_TABLE}
        delete table ip {FILTER_TABLE}
        table ip {FILTER_TABLE} {{
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


def first_difference(set_up: str, listed: str) -> str:
    """Return in words the first line in which two outputs of `nft list table` differ, other than by their counts.

    Returns an empty text if they do not differ.
    """
    before, now = (_without_counts(text) for text in (set_up, listed))
    for expected, found in zip_longest(before, now, fillvalue="nothing"):
        if expected != found:
            return f"{printable(found[:100])!r} in place of {printable(expected[:100])!r}"
    return ""


def _without_counts(listed: str) -> list[str]:
    lines = (re.sub(r"\bpackets \d{1,19} bytes \d{1,19}", "", line).strip() for line in listed.splitlines())
    return [line for line in lines if line]


def other_rules(listed: str) -> int:
    """Return the number of lines in the output of `nft list ruleset` that are not of the plan's own table."""
    count, is_own = 0, False
    for line in listed.splitlines():
        is_own = is_own or line.startswith(f"table ip {FILTER_TABLE} ")
        count += not is_own
        is_own = is_own and line != "}"
    return count
