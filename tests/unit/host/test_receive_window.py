"""The limit of the receive window of another program's TCP connections, with real connections on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tunnelbench.host import receive_window
from tunnelbench.host.procfs import open_files
from tunnelbench.host.receive_window import limited_receive_window
from tunnelbench.model.errors import TrialFailed

WINDOW_BYTES = 65536
SENT_BYTES = 4_000_000


@pytest.fixture(name="connection")
def make_connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender and a receiver of this process."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())) as sender,
        closing(listener.accept()[0]) as receiver,
    ):
        yield sender, receiver


def window_bytes(receiver: socket.socket) -> int:
    """Return the limit of the receiver's window [bytes]."""
    return receiver.getsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP)


def transfer(sender: socket.socket, receiver: socket.socket) -> None:
    """Send and receive full segments, each of which makes the kernel forget or enlarge the limit of the window."""
    sending = threading.Thread(target=sender.sendall, args=(bytes(SENT_BYTES),))
    sending.start()
    received = 0
    while received < SENT_BYTES:
        received += len(receiver.recv(65536))
    sending.join()


def test_the_window_is_limited_although_full_segments_arrive(connection: tuple[socket.socket, socket.socket]) -> None:
    receiver = connection[1]
    transfer(*connection)
    assert window_bytes(receiver) > 2 * WINDOW_BYTES
    with limited_receive_window([os.getpid()], WINDOW_BYTES):
        transfer(*connection)
        deadline_s = time.monotonic() + 10
        while window_bytes(receiver) != WINDOW_BYTES and time.monotonic() < deadline_s:
            time.sleep(receive_window.LIMIT_AGAIN_S)  # the thread that limits may wait for a CPU
        assert window_bytes(receiver) == WINDOW_BYTES


LISTENING_AGAIN = """
import socket, time

end_s = time.monotonic() + 1.0
while time.monotonic() < end_s:
    with socket.create_server(("127.0.0.1", 0)):
        time.sleep(0.02)
"""
"""A program that closes and opens its listening socket again and again, as iperf3's server does."""


def test_a_listening_socket_is_not_copied_so_that_its_port_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read, copied = [], []

    def recorded(pid: int) -> dict[int, str]:
        read.append(files := open_files(pid))
        return files

    monkeypatch.setattr(receive_window, "LIMIT_AGAIN_S", 0.0)
    monkeypatch.setattr(receive_window, "open_files", recorded)
    monkeypatch.setattr(receive_window, "_copied", lambda _, number: copied.append(number))
    with (
        subprocess.Popen([sys.executable, "-c", LISTENING_AGAIN], stdin=subprocess.DEVNULL) as program,
        limited_receive_window([program.pid], WINDOW_BYTES),
    ):
        program.wait(timeout=30)
    assert any(name.startswith("socket:") for files in read for name in files.values())
    assert copied == []


def test_a_program_that_has_ended_is_left_out() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with limited_receive_window([ended.pid], WINDOW_BYTES):
        time.sleep(5 * receive_window.LIMIT_AGAIN_S)


def test_a_kernel_that_refuses_makes_the_trial_fail(
    connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def refuse(process: int, number: int) -> int:
        tried.set()
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(receive_window, "_copied", refuse)
    with (
        pytest.raises(TrialFailed, match="cannot be limited: Operation not permitted"),
        limited_receive_window([os.getpid()], WINDOW_BYTES),
    ):
        tried.wait(timeout=10)
