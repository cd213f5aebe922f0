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
    UntilChanged,
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


def listening(watch: Any, *data: bytes | None) -> None:
    """Let a watch have its three sockets, the first of which has messages."""
    watch._sockets = [
        (NETLINK_ROUTE, Listener(*data)),
        (NETLINK_NETFILTER, Listener()),
        (NETLINK_XFRM, Listener()),
    ]


@pytest.mark.parametrize("data", [message(ROUTE), message(NEIGHBOUR), None])
def test_any_message_of_the_kernel_is_news_once(watch: Any, data: bytes | None) -> None:
    listening(watch, data)
    assert watch.has_news()
    assert not watch.has_news()


def test_a_kernel_without_a_kind_of_messages_may_always_have_news(watch: Any) -> None:
    watch._sockets = [(NETLINK_ROUTE, Listener()), (NETLINK_NETFILTER, Listener())]
    assert watch.has_news()


class Counted:
    """Something that is read, and how often."""

    def __init__(self) -> None:
        self.times = 0

    def read(self) -> int:
        self.times += 1
        return self.times


@pytest.fixture
def kept(watch: Any, monkeypatch: pytest.MonkeyPatch) -> UntilChanged:
    monkeypatch.setattr(setup_watch, "SetupWatch", lambda _: watch)
    return UntilChanged(["tb-1-client"])


def test_what_was_read_is_kept_until_the_kernel_reports_a_change(watch: Any, kept: UntilChanged) -> None:
    listening(watch)
    one, other = Counted(), Counted()
    assert [kept.read(one.read), kept.read(one.read), kept.read(other.read)] == [1, 1, 1]
    listening(watch, message(ROUTE))
    assert [kept.read(one.read), kept.read(one.read), kept.read(other.read)] == [2, 2, 2]


def test_a_change_during_the_reading_is_read_the_next_time(watch: Any, kept: UntilChanged) -> None:
    def read_slowly() -> None:
        times.append(1)
        listening(watch, *([message(ROUTE)] if len(times) == 1 else []))

    times: list[int] = []
    listening(watch)
    for reads in (1, 2, 2):
        kept.read(read_slowly)
        assert len(times) == reads


@pytest.mark.parametrize("how", ["none", "closed", "unreadable"])
def test_nothing_is_kept_without_the_messages_of_the_kernel(
    how: str, kept: UntilChanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise OSError(1, "Operation not permitted")

    if how == "none":
        kept = UntilChanged()
    elif how == "closed":
        kept.close()
    else:
        monkeypatch.setattr(setup_watch, "SetupWatch", refuse)
        kept = UntilChanged(["tb-1-client"])
    counted = Counted()
    assert [kept.read(counted.read), kept.read(counted.read)] == [1, 2]
