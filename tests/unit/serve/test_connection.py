"""Connections without a request end, and keep nobody from the pages of a real server."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import uvicorn

from tunnelbench.serve import connection
from tunnelbench.serve.connection import Connection

MOST = 20
"""Largest number of connections of the server."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(0.5 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def server() -> Iterator[int]:
    """Start a server with at most MOST connections on loopback; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", log_config=None, limit_concurrency=MOST, timeout_keep_alive=30
    )
    made = uvicorn.Server(config)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        made.should_exit = True
        thread.join()
        listener.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def status(port: int, path: str = "/") -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


def is_open(client: socket.socket) -> bool:
    """Send one more header, and return False if the server has closed the connection."""
    try:
        client.sendall(b"a: b\r\n")
    except OSError:
        return False
    time.sleep(0.1)
    return True


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_connections_without_a_request_keep_nobody_from_the_pages(sent: bytes) -> None:
    with server() as port, ExitStack() as stack:
        for _ in range(3 * MOST):
            client = stack.enter_context(connected(port))
            client.sendall(sent)
            assert not sent or client.recv(5000)
        assert [status(port) for _ in range(3)] == [200, 200, 200]


def test_a_connection_with_a_request_is_not_ended_for_a_new_one() -> None:
    found: list[int] = []
    with server() as port, ExitStack() as stack:
        slow = threading.Thread(target=lambda: found.append(status(port, "/slow")))
        slow.start()
        time.sleep(0.1)
        for _ in range(2 * MOST):
            stack.enter_context(connected(port))
        slow.join()
    assert found == [200]


@pytest.mark.parametrize("before", ["", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_a_request_that_does_not_arrive_ends_its_connection(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    monkeypatch.setattr(connection, "REQUEST_LIMIT_S", 0.5)
    with server() as port, connected(port) as client:
        client.sendall(before.encode())
        assert not before or client.recv(5000)
        client.sendall(b"GET / HTTP/1.1\r\n")
        deadline = time.monotonic() + 20
        while is_open(client):
            assert time.monotonic() < deadline


def test_a_slow_answer_is_not_ended_by_the_limit_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_LIMIT_S", 0.1)
    with server() as port:
        assert status(port, "/slow") == 200
