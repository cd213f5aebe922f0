"""The router's own firewall: lets the testbed's traffic through for as long as a run lasts.

Rules are added in the kernel, not in the configuration: a reload of the firewall or a reboot removes them, too. The
rules in fw4 stand after the rule that accepts packets of known connections, so that a measured packet takes its usual
path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.host.leased_host import LeasedHost

NFT_UNDO = (
    "for h in $(nft -a list chain inet fw4 {chain} | sed -n '/comment \"{comment}\"/s/.*# handle //p'); "
    "do nft delete rule inet fw4 {chain} handle $h; done 2>/dev/null; true"
)
"""Deletes a rule by its handle, which is found by the rule's comment: no other rule has this comment.

The command finds the handle itself, because the handle is known only after the rule was added, and the undo command is
noted before.
"""


def kind(router: LeasedHost) -> str:
    """Return `fw4` (OpenWrt 22.03 and later), `iptables` (fw3 and other filters) or `none`; changes nothing."""
    if router.run(["nft", "list", "chain", "inet", "fw4", "forward"], check=False).returncode == 0:
        return "fw4"
    rules = router.run(["iptables", "-S"], check=False).stdout
    return "iptables" if re.search(r"^-A|^-P \w+ DROP", rules, re.MULTILINE) else "none"


@dataclass(frozen=True)
class AcceptRule:
    """A rule that accepts packets of the run, as it stands in nftables and in iptables."""

    chain: str
    """`forward`, `input` or `srcnat`, which keeps an address from NAT."""
    is_arriving: bool
    """True if the device is the one by which a packet arrives; False: the one by which it leaves."""
    device: str
    source: str
    destination: str = ""
    """IPv4 address or network; empty: any."""
    is_other_device: bool = False
    """True for any device but this one."""

    @property
    def nftables(self) -> list[str]:
        there = ["ip", "daddr", self.destination] if self.destination else []
        return [*self._nftables_device, "ip", "saddr", self.source, *there]

    @property
    def _nftables_device(self) -> list[str]:
        return ["iifname" if self.is_arriving else "oifname", *(["!="] if self.is_other_device else []), self.device]

    @property
    def iptables(self) -> list[str]:
        there = ["-d", self.destination] if self.destination else []
        device = [*(["!"] if self.is_other_device else []), "-i" if self.is_arriving else "-o", self.device]
        return [*device, "-s", self.source, *there]


IPTABLES_CHAINS = {"forward": ("filter", "FORWARD"), "input": ("filter", "INPUT"), "srcnat": ("nat", "POSTROUTING")}
"""Table and chain of iptables for each chain of fw4."""


@dataclass(frozen=True)
class Traffic:
    """The traffic that a router forwards between a cable and a tunnel, or two cables."""

    device: str
    """The router's device of the cable that has no tunnel."""
    near: str
    """Address behind that cable, or its network."""
    far: Sequence[str]
    """Addresses or networks behind the tunnel."""
    tunnel_cable: str
    """The router's device of the cable that carries the tunnel."""
    peer: str
    """Address of the tunnel's other end on that cable."""
    inner_network: str = ""
    """Network of the clients' addresses inside the tunnel, if they send packets to the router itself; empty: none."""


def rules(traffic: Traffic) -> tuple[AcceptRule, ...]:
    """Return the rules that let both sides of the traffic reach each other, and the tunnel's other end the router.

    Packets from other networks do not match. The rules for forwarded packets name the device of the cable that has no
    tunnel. The other device is that of a cable or of the tunnel, which does not exist yet.
    """
    device, near = traffic.device, traffic.near
    found = [AcceptRule("input", True, traffic.tunnel_cable, traffic.peer)]
    if traffic.inner_network:
        found.append(AcceptRule("input", True, device, traffic.inner_network, is_other_device=True))
    for far in traffic.far:
        found += [
            AcceptRule("forward", True, device, near, far),
            AcceptRule("forward", False, device, far, near),
            AcceptRule("srcnat", False, device, near, far, is_other_device=True),
            AcceptRule("srcnat", False, device, far, near),
        ]
    return tuple(found)


def open_for(router: LeasedHost, wanted: Sequence[AcceptRule]) -> str:
    """Add rules to the router's firewall, if it has one; return the kind of the firewall."""
    found = kind(router)
    if found == "fw4":
        _fw4(router, wanted)
    elif found == "iptables":
        _iptables(router, wanted)
    return found


def note(host: str, found: str, added: Sequence[AcceptRule]) -> str:
    """Return a note for the report about the rules that `open_for` adds; empty if there is no firewall."""
    if found in ("", "none"):
        return ""
    passing = next(rule for rule in added if rule.chain == "forward")
    others = dict.fromkeys(rule.destination for rule in added if rule.chain == "forward" and rule.is_arriving)
    callers = " and ".join(rule.source for rule in added if rule.chain == "input")
    return (
        f"the {host}'s firewall ({found}) was left on, with rules for the run: {passing.source} and "
        f"{', '.join(others)} are forwarded to each other without NAT, and packets from {callers} to the {host} are "
        "accepted"
    )


def _fw4(router: LeasedHost, wanted: Sequence[AcceptRule]) -> None:
    listed = router.run(["nft", "-a", "list", "chain", "inet", "fw4", "forward"]).stdout
    known = re.search(r"established(?:(?!established).)*# handle (\d+)", listed)
    behind = ["add", "rule", "inet", "fw4", "forward", "position", known[1]] if known else []
    there = router.run(["nft", "list", "table", "inet", "fw4"]).stdout
    for number, rule in enumerate(wanted):
        if f"chain {rule.chain} " in there:
            comment = f"{router.folder.name}-{number}"
            undo = NFT_UNDO.format(chain=rule.chain, comment=comment)
            first = ["insert", "rule", "inet", "fw4", rule.chain]
            place = behind or first if rule.chain == "forward" else first
            router.change(["nft", *place, *rule.nftables, "accept", "comment", f'"{comment}"'], undo)


def _iptables(router: LeasedHost, wanted: Sequence[AcceptRule]) -> None:
    for rule in wanted:
        table, chain = IPTABLES_CHAINS[rule.chain]
        # No rule is needed in a table that does not exist. A rule of the user that is the same serves, and stays.
        words = [*rule.iptables, "-j", "ACCEPT"]
        has_chain = router.run(["iptables", "-t", table, "-S", chain], check=False).returncode == 0
        if has_chain and router.run(["iptables", "-t", table, "-C", chain, *words], check=False).returncode != 0:
            undo = " ".join(["iptables -t", table, "-D", chain, *words, "2>/dev/null; true"])
            router.change(["iptables", "-t", table, "-I", chain, "1", *words], undo)
