"""Calls a function inside a network namespace of this machine, while this process stays outside."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def call_inside(namespace: str, function: Callable[[], T]) -> T:
    """Call a function in a new thread that has entered a namespace of `ip netns`, and return its result.

    Sockets and devices that the function opens stay in the namespace. Raises the OSError that the kernel, or the
    function, has raised.
    """
    results: list[T] = []
    errors: list[OSError] = []

    def enter_and_call() -> None:
        try:
            _enter(Path("/run/netns", namespace))
            results.append(function())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=enter_and_call)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(namespace: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    inside = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(inside, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
    finally:
        os.close(inside)
