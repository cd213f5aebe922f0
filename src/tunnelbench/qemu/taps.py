"""Tap devices inside a network namespace, opened so that a process outside the namespace can use them."""

from __future__ import annotations

import fcntl
import os
import struct

from tunnelbench.host.inside import call_inside
from tunnelbench.model.errors import CannotHere

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
"""Constants of linux/if_tun.h. IFF_VNET_HDR is not set: with its header, QEMU could pass merged packets."""

DEVICE = "/dev/net/tun"


def open_tap(namespace: str, device: str) -> int:
    """Make a tap in a namespace of `ip netns`, and return its descriptor; the tap lasts as long as the descriptor.

    Raises CannotHere if the tap cannot be made.
    """
    try:
        return call_inside(namespace, lambda: _open(device))
    except OSError as error:
        hint = f"run as root on a kernel that has {DEVICE}"
        raise CannotHere(f"no tap can be made in namespace {namespace}: {error}", hint) from None


def _open(device: str) -> int:
    tap = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    except OSError:
        os.close(tap)
        raise
    return tap
