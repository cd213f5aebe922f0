"""Finds programs of BPF that the kernel runs for each packet of a network device (bpf(2))."""

from __future__ import annotations

import ctypes
import platform
import socket
import struct

from tunnelbench.host.inside import call_inside

SYSCALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "armv7l": 386, "i686": 357}
"""Number of bpf(2) by architecture (asm/unistd.h)."""

BPF_PROG_QUERY = 16
ATTACH_TYPES = (46, 47)
"""BPF_TCX_INGRESS and BPF_TCX_EGRESS of linux/bpf.h."""

QUERY = struct.Struct("=IIIIQI100x")
"""The part of union bpf_attr for BPF_PROG_QUERY: device, type, two flags, address of the ids, and their number."""


def devices_with_programs(namespace: str) -> list[str]:
    """Return the devices of a namespace for whose packets the kernel runs programs of BPF, attached by tcx.

    The list is empty on a kernel that has no tcx, and on an architecture whose number of the system call is unknown.
    Raises OSError if the namespace cannot be entered.
    """
    number = SYSCALL_NUMBERS.get(platform.machine())
    return [] if number is None else call_inside(namespace, lambda: _found(number))


def _found(number: int) -> list[str]:
    devices = socket.if_nameindex()
    return [name for index, name in devices if any(_programs(number, index, kind) for kind in ATTACH_TYPES)]


def _programs(number: int, device: int, kind: int) -> int:
    """Return how many programs are attached to a device; 0 if the kernel does not know the type."""
    query = ctypes.create_string_buffer(QUERY.pack(device, kind, 0, 0, 0, 0), QUERY.size)
    if ctypes.CDLL(None, use_errno=True).syscall(number, BPF_PROG_QUERY, query, QUERY.size) != 0:
        return 0
    return int(QUERY.unpack_from(query)[5])
