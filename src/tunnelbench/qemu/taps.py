"""Tap devices inside a network namespace, opened so that a process outside of it can use them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading
from pathlib import Path

from tunnelbench.model.errors import CannotHere

TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
"""linux/if_tun.h. No IFF_VNET_HDR: without that header neither side can hand the other a packet to be cut up later."""

CLONE_NEWNET = 0x40000000
DEVICE = "/dev/net/tun"


def open_tap(namespace: str, device: str) -> int:
    """Make a tap in a namespace (as `ip netns` names it); it lives as long as the descriptor that is returned.

    A thread enters the namespace and ends there: the others never leave theirs. Raises CannotHere where it cannot be.
    """
    result: list[int | OSError] = []

    def enter_and_open() -> None:
        try:
            result.append(_open_in(Path("/run/netns", namespace), device))
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=enter_and_open)
    thread.start()
    thread.join()
    (found,) = result
    if isinstance(found, OSError):
        raise CannotHere(f"no tap can be made in namespace {namespace}: {found}", f"root, and {DEVICE}")
    return found


def _open_in(namespace: Path, device: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    inside = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(inside, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
    finally:
        os.close(inside)
    tap = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    except OSError:
        os.close(tap)
        raise
    return tap
