"""The packet filter of a plan as chains of iptables, on a router that has no nft.

The tables `filter` and, with NAT, `nat` get a chain of the plan each. Rules in FORWARD and POSTROUTING jump to it. All
other rules stay as they are: the chains are added with `iptables-restore --noflush`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tunnelbench.host.ssh_programs import in_shell
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

COUNTED_RULES = {
    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT": ESTABLISHED,
    "-m conntrack --ctstate NEW -j ACCEPT": NEW,
    "-j ACCEPT": OTHER,
    "-j MASQUERADE": TRANSLATED,
}
"""Counter of each rule of the plan's chains, by its words as `iptables-save` prints them."""

REMOVE_CHAINS = """
chain=$1
shift
while [ $# -ge 4 ]; do
    while iptables -w -t "$1" -D "$2" -s "$3" -d "$4" -j "$chain"; do :; done
    iptables -w -t "$1" -F "$chain" && iptables -w -t "$1" -X "$chain"
    shift 4
done 2>/dev/null
"""
"""Shell script that removes the chains called $1, and the rules that jump to them: table, chain, source and destination
of each are $2 to $5, and so on. The kernel deletes a chain only after the last rule that jumps to it."""

ADD_CHAINS = f"{REMOVE_CHAINS}\nexec iptables-restore --noflush"
"""Shell script that first removes what an earlier run has left: `--noflush` empties a chain that is there already, but
would add the rules that jump to it once more."""

_RULE = re.compile(rf"\*\w{{1,32}} \[(\d{{1,19}}):(\d{{1,19}})\] -A {FILTER_NAME} (.{{1,1000}})")

_UNMATCHED = re.compile(r"-s 240\.0\.\d{1,3}\.\d{1,3}/32 -j DROP")


class Iptables(FilterProgram):
    """The programs of iptables, of either variant (iptables-legacy or iptables-nft)."""

    name = "iptables"
    programs = ("iptables", "iptables-restore", "iptables-save")
    list_command: Sequence[str] = ("iptables-save", "-c")

    def change(self, wanted: RouterFilter, clients: str, target: str) -> FilterChange:
        words = [FILTER_NAME, *(word for jump in jumps(wanted, clients, target) for word in jump)]
        text = restore_input(wanted, clients, target)
        return FilterChange(in_shell(ADD_CHAINS, *words), text, in_shell(REMOVE_CHAINS, *words))

    def parse(self, listed: str) -> FilterRules | None:
        lines = list(own_lines(listed))
        rules = [rule.groups() for line in lines if (rule := _RULE.fullmatch(line))]
        counters = {
            COUNTED_RULES[words]: (int(packets), int(size)) for packets, size, words in rules if words in COUNTED_RULES
        }
        unmatched = sum(_UNMATCHED.fullmatch(words) is not None for _, _, words in rules)
        return FilterRules("\n".join(lines), counters, unmatched) if lines else None


def jumps(wanted: RouterFilter, clients: str, target: str) -> list[tuple[str, str, str, str]]:
    """Return the rules that jump to the plan's chains: table, chain, source and destination of each.

    With iptables-legacy, the kernel keeps a table that was asked for once, so that a filter without NAT does not name
    the table `nat`.
    """
    forward = [("filter", "FORWARD", clients, target), ("filter", "FORWARD", target, clients)]
    return [*forward, ("nat", "POSTROUTING", clients, target)] if wanted.firewall.has_nat else forward


def restore_input(wanted: RouterFilter, clients: str, target: str) -> str:
    """Return the input of `iptables-restore --noflush` that sets up the filter."""
    words = {counter: rule for rule, counter in COUNTED_RULES.items()}
    passed = [words[ESTABLISHED], words[NEW]] if wanted.firewall.tracks else []
    unmatched = [f"-s {address}/32 -j DROP" for address in unmatched_addresses(wanted.rules)]
    chains = {"filter": [*unmatched, *passed, words[OTHER]]}
    if wanted.firewall.has_nat:
        chains["nat"] = [words[TRANSLATED]]
    lines = []
    for table, rules in chains.items():
        lines += [f"*{table}", f":{FILTER_NAME} - [0:0]", *(f"-A {FILTER_NAME} {rule}" for rule in rules)]
        lines += [
            f"-I {chain} -s {source} -d {destination} -j {FILTER_NAME}"
            for name, chain, source, destination in jumps(wanted, clients, target)
            if name == table
        ]
        lines.append("COMMIT")
    return "\n".join([*lines, ""])


def own_lines(saved: str) -> Iterator[str]:
    """Yield the lines of `iptables-save -c` that are of the plan's chains or jump to them, each after its table."""
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line
        elif not {FILTER_NAME, f":{FILTER_NAME}"}.isdisjoint(line.split()):
            yield f"{table} {line}"
