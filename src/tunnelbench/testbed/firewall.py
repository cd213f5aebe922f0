"""The router's own firewall: lets the testbed's traffic through for as long as a run lasts.

Rules are added in the kernel, not in the configuration: a reload of the firewall or a reboot removes them, too. The
rules in fw4 stand after the rule that accepts packets of known connections, so that a measured packet takes its usual
path.
"""

from __future__ import annotations

import re

from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.testbed.base import Addresses

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


def open_for(router: LeasedHost, a: Addresses, lan: str, wan: str) -> str:
    """Let client and target reach each other, and the server the router; return the kind of the router's firewall.

    `lan` and `wan` are the router's devices: packets from other networks do not match. The rules do not name the device
    on the far side of forwarded packets: it is the WAN or the tunnel's device, which does not exist yet.
    """
    found = kind(router)
    if found == "fw4":
        _fw4(router, a, lan, wan)
    elif found == "iptables":
        _iptables(router, a, lan, wan)
    return found


def note(found: str, a: Addresses) -> str:
    """Return a note for the report about the rules that `open_for` adds; empty if there is no firewall."""
    if found in ("", "none"):
        return ""
    return (
        f"the router's firewall ({found}) was left on, with rules for the run: {a.client_lan} and {a.target} are "
        f"forwarded to each other without NAT, and packets from {a.server_wan} to the router are accepted"
    )


def _fw4(router: LeasedHost, a: Addresses, lan: str, wan: str) -> None:
    listed = router.run(["nft", "-a", "list", "chain", "inet", "fw4", "forward"]).stdout
    known = re.search(r"established(?:(?!established).)*# handle (\d+)", listed)
    behind = ["add", "rule", "inet", "fw4", "forward", "position", known[1]] if known else []
    first = ["insert", "rule", "inet", "fw4"]
    forward = behind or [*first, "forward"]
    rules = (
        ("forward", [*forward, "iifname", lan, "ip", "saddr", a.client_lan, "ip", "daddr", a.target]),
        ("forward", [*forward, "oifname", lan, "ip", "saddr", a.target, "ip", "daddr", a.client_lan]),
        ("input", [*first, "input", "iifname", wan, "ip", "saddr", a.server_wan]),
        ("srcnat", [*first, "srcnat", "oifname", "!=", lan, "ip", "saddr", a.client_lan, "ip", "daddr", a.target]),
    )
    there = router.run(["nft", "list", "table", "inet", "fw4"]).stdout
    for number, (chain, words) in enumerate(rules):
        if f"chain {chain} " in there:
            comment = f"{router.folder.name}-{number}"
            undo = NFT_UNDO.format(chain=chain, comment=comment)
            router.change(["nft", *words, "accept", "comment", f'"{comment}"'], undo)


def _iptables(router: LeasedHost, a: Addresses, lan: str, wan: str) -> None:
    rules = (
        ["filter", "FORWARD", "-i", lan, "-s", a.client_lan, "-d", a.target],
        ["filter", "FORWARD", "-o", lan, "-s", a.target, "-d", a.client_lan],
        ["filter", "INPUT", "-i", wan, "-s", a.server_wan],
        ["nat", "POSTROUTING", "!", "-o", lan, "-s", a.client_lan, "-d", a.target],
    )
    for table, chain, *match in rules:
        # No rule is needed in a table that does not exist. A rule of the user that is the same serves, and stays.
        rule = [*match, "-j", "ACCEPT"]
        has_chain = router.run(["iptables", "-t", table, "-S", chain], check=False).returncode == 0
        if has_chain and router.run(["iptables", "-t", table, "-C", chain, *rule], check=False).returncode != 0:
            undo = " ".join(["iptables -t", table, "-D", chain, *rule, "2>/dev/null; true"])
            router.change(["iptables", "-t", table, "-I", chain, "1", *rule], undo)
