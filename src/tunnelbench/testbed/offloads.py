"""Offloads that merge several packets into one frame: found and switched off with ethtool (rule 1)."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import Host
from tunnelbench.host.parsing import UnexpectedOutput, json_of, parsing

MERGING_OFFLOADS = (
    "generic-receive-offload",
    "generic-segmentation-offload",
    "large-receive-offload",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "tcp-segmentation-offload",
    "tx-udp-segmentation",
)
"""Features, as ethtool names them, that make one frame out of several packets on any device.

The last one stays on when the others are switched off: a program that hands over several UDP packets in one call, as
the packet engine and some daemons do, then sends them as one frame.
"""

CHECKSUM_OFFLOAD = "tx-checksum-ip-generic"
"""Feature that leaves the checksum of a packet to a later device (rule 2)."""


def merging(host: Host, device: str) -> dict[str, bool]:
    """Return the merging offloads of a device that are on; the value is True if the offload can be switched off.

    Raises CommandFailed if ethtool cannot read the device.
    """
    return _active(host, device, MERGING_OFFLOADS)


def late(host: Host, device: str, *, with_checksums: bool) -> list[str]:
    """List the merging offloads of a device that are on, and its checksum offload if that was to be off, too.

    Empty if the device has gone.
    """
    try:
        return list(_active(host, device, (*MERGING_OFFLOADS, *([CHECKSUM_OFFLOAD] if with_checksums else []))))
    except UnexpectedOutput:
        raise
    except CommandFailed:
        return []


def _active(host: Host, device: str, names: Sequence[str]) -> dict[str, bool]:
    """Return those of the named features that are on; the value is True if the feature can be switched off."""
    shown = host.run(["ethtool", "--json", "-k", device]).stdout
    with parsing(f"the output of `ethtool --json -k {device}` on the {host.name}"):
        (features,) = json_of(shown, list)
        states = {name: features.get(name, {}) for name in names}
        return {name: not state.get("fixed") for name, state in states.items() if state.get("active")}


def changeable(host: Host, device: str) -> list[str]:
    """List the merging offloads that are on and can be switched off; empty if ethtool cannot read the device."""
    try:
        return [name for name, can_change in merging(host, device).items() if can_change]
    except UnexpectedOutput:
        raise
    except CommandFailed:
        return []


def switch_off(host: Host, device: str) -> None:
    """Switch off the merging offloads of a device; those that it refuses to change stay on."""
    for name in changeable(host, device):  # one by one: a device that refuses one of them accepts the others
        host.run(["ethtool", "-K", device, name, "off"], check=False)
