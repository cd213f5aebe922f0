"""Prepares real network devices of this machine for a run: sets an address, or moves them into a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.command import CommandFailed, run_command
from tunnelbench.host.host import Host
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.parsing import count, json_of, parsing
from tunnelbench.model.errors import CannotHere
from tunnelbench.testbed import offloads
from tunnelbench.testbed.discovery import CableEnd
from tunnelbench.testbed.undo_journal import OWN_PID, UndoCommand, UndoJournal


@dataclass(frozen=True)
class DeviceState:
    """State of a network device of this machine before a run changes it."""

    is_up: bool
    interfaces: tuple[str, ...]
    """All addresses, with their prefixes."""
    lasting: tuple[str, ...]
    """Addresses that were set by hand or by a program, and that nothing sets again by itself."""


def state_of(device: str) -> DeviceState:
    """Return what `ip -j addr` reports of a device of this machine. Raises CannotHere if there is no such device."""
    try:
        shown = run_command(["ip", "-j", "addr", "show", "dev", device]).stdout
    except CommandFailed:
        raise CannotHere(
            f"this machine has no network device {device}", "ip -br link lists its network devices"
        ) from None
    with parsing(f"the output of `ip -j addr show dev {device}`"):
        (found,) = json_of(shown, list)
        every = [(f"{each['local']}/{count(each['prefixlen'])}", each) for each in found["addr_info"]]
        lasting = (name for name, each in every if each.get("scope") == "global" and not each.get("temporary"))
        return DeviceState("UP" in found["flags"], tuple(name for name, _ in every), tuple(lasting))


def switch_offloads_off(host: Host, device: str, journal: UndoJournal) -> None:
    """Switch off the offloads that merge packets, and enter the undo commands into the journal."""
    if merging := offloads.changeable(host, device):
        journal.note(["ethtool", "-K", device, *(word for name in merging for word in (name, "on"))])
        offloads.switch_off(host, device)


def bring_up(end: CableEnd, journal: UndoJournal) -> None:
    """Bring a device up with its address, in this machine's own network."""
    found = state_of(end.device)
    if not found.is_up:
        journal.note(["ip", "link", "set", end.device, "down"])
        run_command(["ip", "link", "set", end.device, "up"])
    if end.interface not in found.interfaces:
        journal.note(["ip", "addr", "del", end.interface, "dev", end.device])
        run_command(["ip", "addr", "add", end.interface, "dev", end.device])


def move(end: CableEnd, host: NamespaceHost, journal: UndoJournal) -> None:
    """Move a device into a namespace and bring it up with its address; enters the undo commands into the journal.

    A wireless device moves with its whole radio (`iw phy`).
    """
    device = end.device
    found = state_of(device)
    radio = _radio(device)
    back = ["iw", "phy", radio, "set", "netns", OWN_PID] if radio else ["ip", "link", "set", device, "netns", OWN_PID]
    there = ["ip", "netns", "exec", host.namespace] if radio else ["ip", "-n", host.namespace]
    undo: list[UndoCommand] = [
        ["ip", "-n", host.namespace, "link", "set", device, "down"],
        ["ip", "-n", host.namespace, "addr", "flush", "dev", device],
        [*there, *(back if radio else back[1:])],
    ]
    undo += [["ip", "addr", "add", interface, "dev", device] for interface in found.lasting]
    if found.is_up:
        undo.append(["ip", "link", "set", device, "up"])
        routes = run_command(["ip", "route", "show", "dev", device]).stdout.splitlines()
        undo += [
            ["ip", "route", "add", *(word for word in line.split() if word != "linkdown"), "dev", device]
            for line in routes
            if "proto kernel" not in line
        ]
    journal.note(*undo)
    if radio:
        run_command(["iw", "phy", radio, "set", "netns", "name", host.namespace])
    else:
        run_command(["ip", "link", "set", device, "netns", host.namespace])
    host.ip("addr", "add", end.interface, "dev", device)
    host.ip("link", "set", device, "up")


def _radio(device: str) -> str:
    """Return the name of a device's radio; empty if it is not wireless."""
    name = Path(f"/sys/class/net/{device}/phy80211/name")
    return name.read_text().strip() if name.is_file() else ""
