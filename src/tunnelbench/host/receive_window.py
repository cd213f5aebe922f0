"""Limits the receive window of TCP connections that a program of this machine has open."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tunnelbench.host.procfs import open_files
from tunnelbench.model.errors import TrialFailed

LIMIT_AGAIN_S = 0.01
"""Time between two settings of the limit [s]. The kernel forgets it at the first full segment of a connection, and
enlarges the window by two segments for each further one."""

GONE = {errno.ESRCH, errno.EBADF, errno.ENOENT}
"""Errors that mean that a program, or one of its descriptors, is no longer there."""


@contextmanager
def limited_receive_window(pids: Sequence[int], window_bytes: int) -> Iterator[None]:
    """Keep the receive window of all TCP connections of some programs at or below `window_bytes` inside a `with` block.

    A window in the route of a connection (ip-route(8)) is not enough: Linux 6.6 and later replace it by the size of the
    buffer at the first full segment (tcp_measure_rcv_mss in net/ipv4/tcp_input.c). The limit is therefore set again
    and again with TCP_WINDOW_CLAMP (tcp(7)), through a copy of each descriptor (pidfd_getfd(2)).

    Raises TrialFailed at the end of the block if the kernel does not allow this.
    """
    ended = threading.Event()
    refused: list[OSError] = []

    def keep_limiting() -> None:
        while not ended.wait(LIMIT_AGAIN_S):
            try:
                for pid in pids:
                    _limit(pid, window_bytes)
            except OSError as error:
                refused.append(error)
                return

    thread = threading.Thread(target=keep_limiting, name="receive-window", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if refused:
        raise TrialFailed(f"the receive window of the testers' connections cannot be limited: {refused[0].strerror}")


def _limit(pid: int, window_bytes: int) -> None:
    """Limit the receive window of each TCP connection of a program; one that has ended is left out. Raises OSError."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, what in open_files(pid).items():
            if not what.startswith("socket:"):
                continue
            try:
                copy = socket.socket(fileno=_copied(process, number))
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise
            with copy:
                if copy.type == socket.SOCK_STREAM and copy.family in {socket.AF_INET, socket.AF_INET6}:
                    copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
    finally:
        os.close(process)


def _copied(process: int, number: int) -> int:
    """Return a copy of a descriptor of another program. Raises OSError."""
    copy: int = ctypes.CDLL(None, use_errno=True).pidfd_getfd(process, number, 0)
    if copy < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return copy
