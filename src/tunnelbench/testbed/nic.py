"""Real network devices of this machine: lent to a run, given an address, moved into a namespace, and brought back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.host.host import Host, LocalHost, NamespaceHost
from tunnelbench.model.errors import CannotHere
from tunnelbench.testbed.changes import HERE, Changes, Command
from tunnelbench.testbed.netns import MERGING_OFFLOADS


def details(device: str) -> dict[str, Any]:
    """What `ip -j addr` says of a device of this machine. Raises CannotHere where there is none."""
    try:
        (found,) = json.loads(run_command(["ip", "-j", "addr", "show", "dev", device]).stdout)
    except CommandFailed:
        raise CannotHere(
            f"there is no network device {device} here", "ip -br link lists those that there are"
        ) from None
    return dict(found)


def addresses(device: str) -> list[str]:
    """Its IPv4 addresses with their prefixes."""
    return [f"{each['local']}/{each['prefixlen']}" for each in details(device)["addr_info"] if each["family"] == "inet"]


def settle_offloads(device: str, changes: Changes) -> None:
    """Switch off what merges packets (rule 1), to be switched on again afterwards."""
    here = LocalHost("here", changes.path.parent, ())
    if merging := merging_at(here, device):
        changes.note(["ethtool", "-K", device, *(word for name in merging for word in (name, "on"))])
        for name in merging:  # one by one: a device that refuses one of them takes the others
            run_command(["ethtool", "-K", device, name, "off"], check=False)


def merging_at(host: Host, device: str) -> list[str]:
    """What merges packets on a device, is on, and can be switched off."""
    try:
        (features,) = json.loads(host.run(["ethtool", "--json", "-k", device]).stdout)
    except CommandFailed:
        return []
    return [
        name
        for name in sorted(MERGING_OFFLOADS)
        if features.get(name, {}).get("active") and not features.get(name, {}).get("fixed")
    ]


def lend(device: str, address: str, changes: Changes) -> None:
    """Bring a device up, with an address, in this machine's own network."""
    found = details(device)
    if "UP" not in found["flags"]:
        changes.note(["ip", "link", "set", device, "down"])
        run_command(["ip", "link", "set", device, "up"])
    if address not in addresses(device):
        changes.note(["ip", "addr", "del", address, "dev", device])
        run_command(["ip", "addr", "add", address, "dev", device])


def move(device: str, address: str, host: NamespaceHost, changes: Changes) -> None:
    """Move a device into a namespace, up and with an address; noted is how it comes back as it was.

    A wireless one goes with its whole radio (`iw phy`).
    """
    found = details(device)
    radio = _radio(device)
    back = ["iw", "phy", radio, "set", "netns", HERE] if radio else ["ip", "link", "set", device, "netns", HERE]
    there = ["ip", "netns", "exec", host.namespace] if radio else ["ip", "-n", host.namespace]
    undo: list[Command] = [
        ["ip", "-n", host.namespace, "link", "set", device, "down"],
        ["ip", "-n", host.namespace, "addr", "flush", "dev", device],
        [*there, *(back if radio else back[1:])],
    ]
    undo += [
        ["ip", "addr", "add", f"{each['local']}/{each['prefixlen']}", "dev", device]
        for each in found["addr_info"]
        if each.get("scope") == "global" and not each.get("temporary")
    ]
    if "UP" in found["flags"]:
        undo.append(["ip", "link", "set", device, "up"])
        routes = run_command(["ip", "route", "show", "dev", device]).stdout.splitlines()
        undo += [
            ["ip", "route", "add", *(word for word in line.split() if word != "linkdown"), "dev", device]
            for line in routes
            if "proto kernel" not in line
        ]
    changes.note(*undo)
    if radio:
        run_command(["iw", "phy", radio, "set", "netns", "name", host.namespace])
    else:
        run_command(["ip", "link", "set", device, "netns", host.namespace])
    host.ip("addr", "add", address, "dev", device)
    host.ip("link", "set", device, "up")


def _radio(device: str) -> str:
    """The name of its radio; empty where it has a cable."""
    name = Path(f"/sys/class/net/{device}/phy80211/name")
    return name.read_text().strip() if name.is_file() else ""
