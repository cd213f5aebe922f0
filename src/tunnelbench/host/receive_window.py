"""Limits the receive window of TCP connections that a program of this machine has open."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tunnelbench.host.procfs import open_files, tcp_sockets
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

    programs = [_Connections(pid) for pid in pids]

    def keep_limiting() -> None:
        while not ended.wait(LIMIT_AGAIN_S):
            try:
                for connections in programs:
                    _limit(connections, window_bytes)
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


def _limit(connections: _Connections, window_bytes: int) -> None:
    """Limit the receive window of each TCP connection of a program; one that has ended is left out. Raises OSError."""
    try:
        process = os.pidfd_open(connections.pid)
    except ProcessLookupError:
        return
    try:
        for number in connections.descriptors():
            try:
                copy = socket.socket(fileno=_copied(process, number))
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise
            with copy:
                copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window_bytes)
    finally:
        os.close(process)


class _Connections:
    """The TCP connections of a program, without its listening sockets.

    A listening socket must not be copied: while a copy is open, its port stays in use. iperf3's server closes and opens
    its listening socket twice in each test, and would fail. Reading its name in /proc keeps it open for microseconds
    too, which nothing can avoid: iperf3 fails if it closes and opens the socket within that time.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._listens: dict[str, bool] = {}
        """True for each TCP socket that listens, by its name in /proc/PID/fd."""

    def descriptors(self) -> list[int]:
        """Return the descriptors of the connections. Raises OSError if this is not allowed."""
        sockets = {number: name for number, name in open_files(self.pid).items() if name.startswith("socket:")}
        if sockets.values() - self._listens.keys():  # the kernel takes milliseconds to list all sockets
            self._listens |= tcp_sockets(self.pid)
        return [number for number, name in sockets.items() if self._listens.get(name) is False]


def _copied(process: int, number: int) -> int:
    """Return a copy of a descriptor of another program. Raises OSError."""
    copy: int = ctypes.CDLL(None, use_errno=True).pidfd_getfd(process, number, 0)
    if copy < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return copy
