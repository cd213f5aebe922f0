"""The kernel's messages about changes in the network of a namespace."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelbench.host import setup_watch
from tunnelbench.host.setup_watch import (
    NETLINK_NETFILTER,
    NETLINK_ROUTE,
    NETLINK_XFRM,
    SetupWatch,
    attributes,
    messages,
)

LINK, ROUTE, QUEUE, NEIGHBOUR = 16, 24, 36, 28
NEW_RULE = 10 << 8 | 6


def message(kind: int, body: bytes = b"") -> bytes:
    whole = struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body
    return whole + bytes(-len(whole) % 4)


def link(number: int, **numbers: int) -> bytes:
    parts = [
        struct.pack("=HHI", 8, kind, numbers[name]) for name, kind in (("mtu", 4), ("event", 44)) if name in numbers
    ]
    return message(
        LINK, struct.pack("=BxHiII", 0, 1, number, 0, 0) + b"".join([struct.pack("=HHH2x", 6, 3, 0), *parts])
    )


def queue(number: int) -> bytes:
    return message(QUEUE, struct.pack("=BxxxiIII", 0, number, 0, 0, 0))


class Listener:
    """A socket with messages; None: the kernel had more than the socket holds."""

    def __init__(self, *data: bytes | None) -> None:
        self.data = [*data]

    def recv(self, _: int) -> bytes:
        if not self.data:
            raise BlockingIOError
        found = self.data.pop(0)
        if found is None:
            raise OSError(105, "No buffer space available")
        return found

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(setup_watch, "call_inside", lambda *_: None)
    found: Any = SetupWatch("tb-1-client")
    found._devices, found._mtus = {2: "lan"}, {2: 1500}
    yield found
    found.close()


@pytest.mark.parametrize(
    ("family", "data", "changes"),
    [
        (NETLINK_ROUTE, [queue(2) + queue(2), queue(7)], ["a queue of lan", "a queue of device 7"]),
        (NETLINK_ROUTE, [message(ROUTE), message(NEIGHBOUR)], ["a route"]),
        (NETLINK_ROUTE, [link(2, mtu=1500)], []),
        (NETLINK_ROUTE, [link(2, mtu=1200)], ["the MTU of lan"]),
        (NETLINK_ROUTE, [link(3, mtu=1200) + link(3, mtu=1400)], ["the MTU of device 3"]),
        (NETLINK_ROUTE, [link(2, event=2)], ["an offload of lan"]),
        (NETLINK_ROUTE, [link(2, event=1)], []),
        (NETLINK_ROUTE, [None, queue(2)], ["more than could be read", "a queue of lan"]),
        (NETLINK_NETFILTER, [message(NEW_RULE)], ["the packet filter"]),
        (NETLINK_NETFILTER, [message(1 << 8)], []),
        (NETLINK_XFRM, [message(0x13), message(0x1D)], ["an IPsec policy"]),
        (NETLINK_XFRM, [message(0x19), message(0x10)], []),  # a rekey: an update, and a new association
    ],
)
def test_a_change_is_named_once_with_its_device(
    watch: Any, family: int, data: list[bytes | None], changes: list[str]
) -> None:
    watch._sockets = [(family, Listener(*data))]
    assert watch.changes() == changes
    assert watch.changes() == changes


@given(st.binary(max_size=80))
def test_odd_messages_end_the_reading(data: bytes) -> None:
    for _, body in messages(data):
        assert sum(1 for _ in attributes(body)) <= len(body) / 8


def test_a_namespace_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match=os.strerror(2)):
        SetupWatch("tb-none-such")
