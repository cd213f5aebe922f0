"""Watches the network of a namespace for changes of its set-up, by the kernel's own messages (netlink(7)).

The kernel sends such a message only when something is changed, so the watch costs no CPU time otherwise.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tunnelbench.host.inside import call_inside

NETLINK_ROUTE, NETLINK_XFRM, NETLINK_NETFILTER = 0, 6, 12

ROUTE_GROUPS = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 18
"""RTNLGRP_LINK, RTNLGRP_TC, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE and RTNLGRP_IPV6_RULE of
linux/rtnetlink.h, as bits. After a device has come up, the kernel itself changes addresses and routes of IPv6 for
seconds."""
POLICY_GROUPS = 1 << 3
"""XFRMNLGRP_POLICY of linux/xfrm.h, as a bit."""
POLICY_TYPES = (0x13, 0x14, 0x1D)
"""XFRM_MSG_NEWPOLICY, XFRM_MSG_DELPOLICY and XFRM_MSG_FLUSHPOLICY of linux/xfrm.h; a rekey only updates policies."""
FILTER_GROUPS = 1 << 6
"""NFNLGRP_NFTABLES of linux/netfilter/nfnetlink.h, as a bit."""
NFTABLES = 10
"""Subsystem in the upper byte of the types of messages (NFNL_SUBSYS_NFTABLES)."""

LINK_TYPES = (16, 17)
TYPES = {
    20: "an address",
    21: "an address",
    24: "a route",
    25: "a route",
    32: "a rule of routing",
    33: "a rule of routing",
    36: "a queue",
    37: "a queue",
    40: "a class of a queue",
    41: "a class of a queue",
    44: "a filter of a queue",
    45: "a filter of a queue",
}
"""Types of messages of NETLINK_ROUTE (rtnetlink(7)): what was made, changed or deleted."""
QUEUE_TYPES = range(36, 46)

IFLA_MTU, IFLA_EVENT, IFLA_EVENT_FEATURES = 4, 44, 2

MESSAGE_HEADER, LINK_HEADER, TC_HEADER, ATTRIBUTE = (
    struct.Struct(form) for form in ("=IHHII", "=BxHiII", "=BxxxiIII", "=HH")
)

SIOCGIFMTU = 0x8921
REQUEST = struct.Struct("=16si20x")
"""The request of netdevice(7) for an MTU: struct ifreq."""

READ_BYTES = 65536

KINDS_OF_MESSAGES = 3
"""Number of sockets of a watch: routing, packet filters and IPsec."""

T = TypeVar("T")


class SetupWatch:
    """Collects the changes of a namespace's network from its start until `close`.

    Raises OSError if the namespace, or the kernel's messages, cannot be used.
    """

    def __init__(self, namespace: str) -> None:
        self._sockets: list[tuple[int, socket.socket]] = []
        self._devices: dict[int, str] = {}
        self._mtus: dict[int, int] = {}
        self._found: dict[str, None] = {}
        try:
            call_inside(namespace, self._open)
        except OSError:
            self.close()
            raise

    def _open(self) -> None:
        self._devices = dict(socket.if_nameindex())
        self._mtus = {number: _mtu(device) for number, device in self._devices.items()}
        self._listen(NETLINK_ROUTE, ROUTE_GROUPS)
        for family, groups in ((NETLINK_NETFILTER, FILTER_GROUPS), (NETLINK_XFRM, POLICY_GROUPS)):
            with suppress(OSError):  # a kernel without nftables, or without IPsec
                self._listen(family, groups)

    def _listen(self, family: int, groups: int) -> None:
        listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, family)
        try:
            listener.bind((0, groups))
        except OSError:
            listener.close()
            raise
        self._sockets.append((family, listener))

    def changes(self) -> list[str]:
        """Return what has been changed so far, such as `a queue of lan`."""
        for family, listener in self._sockets:
            for data in _received(listener):
                found = [self._named(family, kind, body) for kind, body in messages(data)]
                self._found |= dict.fromkeys(found if data else ["more than could be read"])
        return [name for name in self._found if name]

    def has_news(self) -> bool:
        """Return True if the kernel may have changed anything since the last call, whether `changes` names it or not.

        Always true on a kernel without one of the kinds of messages, because a module can bring it at any time.
        """
        received = [data for _, listener in self._sockets for data in _received(listener)]
        return bool(received) or len(self._sockets) < KINDS_OF_MESSAGES

    def _named(self, family: int, kind: int, body: bytes) -> str:
        """Return the name of the changed object in a message of the kernel; empty if the change cannot affect a
        figure."""
        if family == NETLINK_NETFILTER:
            return "the packet filter" if kind >> 8 == NFTABLES else ""
        if family == NETLINK_XFRM:
            return "an IPsec policy" if kind in POLICY_TYPES else ""
        if kind in LINK_TYPES:
            return self._link(body)
        if kind in QUEUE_TYPES and len(body) >= TC_HEADER.size:
            return f"{TYPES.get(kind, 'a queue')} of {self._device(TC_HEADER.unpack_from(body)[1])}"
        return TYPES.get(kind, "")

    def _link(self, body: bytes) -> str:
        """Return the change of a device: of its offloads, or of its MTU. A device that comes up is not reported,
        because the devices of a tunnel come up during a run."""
        if len(body) < LINK_HEADER.size:
            return ""
        number = LINK_HEADER.unpack_from(body)[2]
        found = dict(attributes(body[LINK_HEADER.size :]))
        if found.get(IFLA_EVENT) == IFLA_EVENT_FEATURES:
            return f"an offload of {self._device(number)}"
        mtu = found.get(IFLA_MTU)
        if mtu is not None and self._mtus.setdefault(number, mtu) != mtu:
            return f"the MTU of {self._device(number)}"
        return ""

    def _device(self, number: int) -> str:
        return self._devices.get(number, f"device {number}")

    def close(self) -> None:
        """Stop listening; a second call has no effect."""
        for _, listener in self._sockets:
            listener.close()
        self._sockets = []


class UntilChanged:
    """Keeps what was read of the networks of some namespaces until the kernel reports a change of one of them.

    Reading all queues, rules and offloads starts twenty programs, and the kernel's messages cost nothing.
    """

    def __init__(self, namespaces: Sequence[str] = ()) -> None:
        self._kept: dict[Callable[[], Any], Any] = {}
        self._watches: list[SetupWatch] = []
        try:
            for namespace in namespaces:
                self._watches.append(SetupWatch(namespace))
        except OSError:
            self.close()

    def read(self, function: Callable[[], T]) -> T:
        """Return what the function has read: now, or earlier if there was no change since."""
        # Before it reads: what changes meanwhile is reported to the next call.
        news = [watch.has_news() for watch in self._watches]
        if not news or any(news):
            self._kept.clear()
        if function not in self._kept:
            self._kept[function] = function()
        found: T = self._kept[function]
        return found

    def close(self) -> None:
        """Stop listening; from then on, each call reads anew."""
        for watch in self._watches:
            watch.close()
        self._watches = []


def _mtu(device: str) -> int:
    """Return the MTU of a device in the network of the calling thread [bytes]; 0 if the device has gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, suppress(OSError):
        return int(REQUEST.unpack(fcntl.ioctl(any_socket, SIOCGIFMTU, REQUEST.pack(device.encode(), 0)))[1])
    return 0


def _received(listener: socket.socket) -> Iterator[bytes]:
    """Yield what has arrived at a socket; an empty text if the kernel had more messages than the socket holds."""
    with suppress(BlockingIOError):
        while True:
            try:
                yield listener.recv(READ_BYTES)
            except BlockingIOError:
                raise
            except OSError:  # ENOBUFS; the kernel reports it once
                yield b""


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each message in what one read of a socket has returned."""
    while len(data) >= MESSAGE_HEADER.size:
        length, kind, *_ = MESSAGE_HEADER.unpack_from(data)
        if not MESSAGE_HEADER.size <= length <= len(data):
            return
        yield kind, data[MESSAGE_HEADER.size : length]
        data = data[_aligned(length) :]


def attributes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield type and value of each attribute that is a number of 32 bits."""
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        if not ATTRIBUTE.size <= length <= len(data):
            return
        if length == ATTRIBUTE.size + 4:
            yield kind, int.from_bytes(data[ATTRIBUTE.size : length], sys.byteorder)
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    """Return a length rounded up to 4 bytes."""
    return length + 3 & ~3
