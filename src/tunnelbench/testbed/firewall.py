"""The router's own firewall: let the traffic of the testbed through for as long as a run lasts.

Rules are added in the kernel, not in the configuration: a reload of the firewall or a reboot removes them as well.
Those of fw4 come behind the rule that passes what belongs to known connections: a measured packet takes its usual way.
"""

from __future__ import annotations

import re

from tunnelbench.host.lent import LentHost
from tunnelbench.testbed.base import Addresses

COMMENT = "tunnelbench"

NFT_UNDO = (
    "for h in $(nft -a list chain inet fw4 {chain} | sed -n '/{comment}/s/.*# handle //p'); "
    "do nft delete rule inet fw4 {chain} handle $h; done 2>/dev/null; true"
)


def kind(router: LentHost) -> str:
    """`fw4` (OpenWrt 22.03 and later), `iptables` (fw3 and others that filter) or `none`; nothing is changed."""
    if router.run(["nft", "list", "chain", "inet", "fw4", "forward"], check=False).returncode == 0:
        return "fw4"
    rules = router.run(["iptables", "-S"], check=False).stdout
    return "iptables" if re.search(r"^-A|^-P \w+ DROP", rules, re.MULTILINE) else "none"


def open_for(router: LentHost, a: Addresses) -> None:
    """Let client and target reach each other, and the server the router."""
    found = kind(router)
    if found == "fw4":
        _fw4(router, a)
    elif found == "iptables":
        _iptables(router, a)


def told(found: str, a: Addresses) -> str:
    """What `open_for` does to a firewall of some kind, in words; empty where there is none."""
    if found in ("", "none"):
        return ""
    return (
        f"the router's firewall ({found}) was left on, with rules for the run: {a.client_lan} and {a.target} are "
        f"forwarded to each other without NAT, and what {a.server_wan} sends to the router is let in"
    )


def _fw4(router: LentHost, a: Addresses) -> None:
    listed = router.run(["nft", "-a", "list", "chain", "inet", "fw4", "forward"]).stdout
    known = re.search(r"established.*# handle (\d+)", listed)
    behind = ["add", "rule", "inet", "fw4", "forward", "position", known[1]] if known else []
    first = ["insert", "rule", "inet", "fw4"]
    forward = behind or [*first, "forward"]
    rules = (
        ("forward", [*forward, "ip", "saddr", a.client_lan, "ip", "daddr", a.target]),
        ("forward", [*forward, "ip", "saddr", a.target, "ip", "daddr", a.client_lan]),
        ("input", [*first, "input", "ip", "saddr", a.server_wan]),
        ("srcnat", [*first, "srcnat", "ip", "saddr", a.client_lan, "ip", "daddr", a.target]),
    )
    there = router.run(["nft", "list", "table", "inet", "fw4"]).stdout
    for chain, words in rules:
        if f"chain {chain} " in there:
            undo = NFT_UNDO.format(chain=chain, comment=COMMENT)
            router.change(["nft", *words, "accept", "comment", f'"{COMMENT}"'], undo)


def _iptables(router: LentHost, a: Addresses) -> None:
    rules = (
        ["filter", "FORWARD", "-s", a.client_lan, "-d", a.target],
        ["filter", "FORWARD", "-s", a.target, "-d", a.client_lan],
        ["filter", "INPUT", "-s", a.server_wan],
        ["nat", "POSTROUTING", "-s", a.client_lan, "-d", a.target],
    )
    for table, chain, *match in rules:
        # A table that is not there translates nothing.
        if router.run(["iptables", "-t", table, "-S", chain], check=False).returncode == 0:
            rule = [*match, "-j", "ACCEPT"]
            undo = " ".join(["iptables -t", table, "-D", chain, *rule, "2>/dev/null; true"])
            router.change(["iptables", "-t", table, "-I", chain, "1", *rule], undo)
