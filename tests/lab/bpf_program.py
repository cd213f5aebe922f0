"""Loads a program of BPF that lets each packet pass, and attaches it to a device, by the system call bpf(2)."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

from tunnelbench.host.bpf import ATTACH_TYPES, SYSCALL_NUMBERS

PROG_LOAD, LINK_CREATE = 5, 28
SCHED_CLS = 3
"""BPF_PROG_TYPE_SCHED_CLS of linux/bpf.h."""
ATTRIBUTE_BYTES = 128
NEXT = -1
"""TCX_NEXT: the packet goes on to the next program."""


def load_passing_program() -> int:
    """Return the descriptor of a program whose only result is TCX_NEXT."""
    instruction = struct.Struct("=BBhi")
    code = instruction.pack(0xB7, 0, 0, NEXT) + instruction.pack(0x95, 0, 0, 0)  # r0 = NEXT; exit
    text, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(text), ctypes.addressof(licence)
    return _bpf(PROG_LOAD, struct.pack("=IIQQ", SCHED_CLS, 2, *addresses))


def attach(program: int, device: int) -> int:
    """Attach a program to the packets that arrive at a device, and return the descriptor that keeps it there."""
    return _bpf(LINK_CREATE, struct.pack("=IIII", program, device, ATTACH_TYPES[0], 0))


def _bpf(command: int, attributes: bytes) -> int:
    content = ctypes.create_string_buffer(attributes, ATTRIBUTE_BYTES)
    number = SYSCALL_NUMBERS[platform.machine()]
    found = ctypes.CDLL(None, use_errno=True).syscall(number, command, content, ATTRIBUTE_BYTES)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(found)
