"""Tap devices inside a network namespace, opened so that a process outside the namespace can use them."""

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
"""Constants of linux/if_tun.h. IFF_VNET_HDR is not set: with its header, QEMU could pass merged packets."""

CLONE_NEWNET = 0x40000000
DEVICE = "/dev/net/tun"


def open_tap(namespace: str, device: str) -> int:
    """Make a tap in a namespace of `ip netns`, and return its descriptor; the tap lasts as long as the descriptor.

    A new thread enters the namespace and then ends, so that this process stays outside. Raises CannotHere if the tap
    cannot be made.
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
        hint = f"run as root on a kernel that has {DEVICE}"
        raise CannotHere(f"no tap can be made in namespace {namespace}: {found}", hint)
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
