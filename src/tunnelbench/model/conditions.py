"""The conditions of trials, options of every tunnel: packet filter, IP versions, line, CPUs, data, sizes of iperf3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tunnelbench.model.firewall import FILTER_OPTIONS, RouterFilter, filter_of
from tunnelbench.model.ip_versions import (
    INSIDE_OPTION,
    OUTSIDE_OPTION,
    VERSION_OPTIONS,
    IpVersion,
    version_of_option,
)
from tunnelbench.model.lines import LINE_OPTION, LINE_OPTIONS, LineName, line_of

CPUS_OPTION = "cpus"
MOST_ROUTER_CPUS = 2
"""Most CPUs that a plan may give the router."""

CONTENT_OPTION = "content"

WINDOW_OPTION, WRITE_OPTION = "window_bytes", "write_bytes"
USUAL_WRITE_BYTES = 131_072
"""Data that iperf3 hands to the kernel at a time if a plan says nothing else [bytes]; it is iperf3's default for
TCP."""
LARGEST_WRITE_BYTES = 1024 * 1024
"""Most data that iperf3 hands to the kernel at a time (MAX_BLOCKSIZE) [bytes]."""
SMALLEST_WINDOW_BYTES = 4096
"""Smallest size of socket buffers that a plan may ask for [bytes]. Linux doubles it, and no send buffer is below 4608
(SOCK_MIN_SNDBUF, include/net/sock.h)."""
LARGEST_WINDOW_BYTES = 256 * 1024 * 1024
"""Largest size of socket buffers that a plan may ask for [bytes]; iperf3 takes up to twice this size."""
TCP_OPTIONS: Mapping[str, int] = {WINDOW_OPTION: 0, WRITE_OPTION: USUAL_WRITE_BYTES}
"""The options of iperf3's sizes, each with the value that a tunnel has without it; a window of 0 is the system's."""


def require_window(window_bytes: int) -> int:
    """Return a size of socket buffers [bytes]. Raises ValueError if Linux gives no buffers of this size."""
    if 0 < window_bytes < SMALLEST_WINDOW_BYTES:
        raise ValueError(f"must be 0 or at least {SMALLEST_WINDOW_BYTES}, not {window_bytes}")
    return window_bytes


def least_filled_share(write_bytes: int, segment_bytes: int) -> float:
    """Return the share of TCP segments that is filled at least, in the mean, 0 to 1.

    Each write to a connection may end with a segment that is not full: it is sent at once if no data are on their way
    (RFC 896). The usual writes have so many full segments that the others do not count.
    """
    return 1.0 if write_bytes >= USUAL_WRITE_BYTES else write_bytes / (write_bytes + segment_bytes)


class Content(StrEnum):
    """The data of the traffic."""

    RANDOM = "random"
    REPEATING = "repeating"
    """The digits 0 to 9 again and again for TCP, and zeros for UDP."""


LONGEST_PACKET_BYTES = 9000
"""Length of the longest packet in a tunnel [bytes]."""


def can_shrink(content: Content, write_bytes: int) -> bool:
    """Return True if the data of a packet can be compressed.

    iperf3 writes one block again and again, so that a packet has a short block more than once.
    """
    return content is Content.REPEATING or write_bytes < LONGEST_PACKET_BYTES


@dataclass(frozen=True)
class Compression:
    """Effect of a tunnel that compresses on the lengths of data that can be compressed."""

    uncompressed_bytes: Callable[[int], int] | None = None
    """Function from the length of an inner packet to the fewest bytes that it takes outside without compression; None:
    the data need not shrink."""
    longest_uncompressed_bytes: int = 0
    """Length of the longest inner packet that the tunnel sends as it is [bytes]."""


CONDITION_OPTIONS: Mapping[str, str | int] = {
    **FILTER_OPTIONS, **VERSION_OPTIONS, **LINE_OPTIONS, CPUS_OPTION: 1, CONTENT_OPTION: Content.RANDOM.value,
    **TCP_OPTIONS,
}  # fmt: skip
"""The options of conditions, each with the value that a tunnel has without it."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of one tunnel's trials. Trials under different conditions are not compared with each other."""

    packet_filter: RouterFilter = field(default_factory=RouterFilter)
    inside: IpVersion = IpVersion.IPV4
    """IP version of the packets in the tunnel: that of the traffic."""
    outside: IpVersion = IpVersion.IPV4
    """IP version of the packets that carry the tunnel."""
    line: LineName | None = None
    """Line that carries the tunnel; None: the cable as the testbed has it."""
    cpus: int = 1
    """CPUs of the router."""
    content: Content = Content.RANDOM
    """Data of the traffic."""
    window_bytes: int = 0
    """Size of the socket buffers of iperf3 [bytes]; 0: the system's."""
    write_bytes: int = USUAL_WRITE_BYTES
    """Data that iperf3 hands to the kernel at a time [bytes]."""

    @property
    def are_usual(self) -> bool:
        """True if no option changes a condition."""
        return self == Conditions()

    def __str__(self) -> str:
        versions = {INSIDE_OPTION: self.inside, OUTSIDE_OPTION: self.outside}
        words = [f"{name}={version}" for name, version in versions.items() if version is not IpVersion.IPV4]
        words += [f"{LINE_OPTION}={self.line}"] if self.line else []
        words += [f"{CPUS_OPTION}={self.cpus}"] if self.cpus != 1 else []
        words += [f"{CONTENT_OPTION}={self.content}"] if self.content is not Content.RANDOM else []
        sizes = {WINDOW_OPTION: self.window_bytes, WRITE_OPTION: self.write_bytes}
        words += [f"{name}={size}" for name, size in sizes.items() if size != TCP_OPTIONS[name]]
        return " ".join([*([] if self.packet_filter.is_empty else [str(self.packet_filter)]), *words])


def conditions_of(options: Mapping[str, object]) -> Conditions:
    """Return the conditions that a tunnel's options ask for; values that a plan cannot have count as not given."""
    return Conditions(
        filter_of(options),
        version_of_option(options, INSIDE_OPTION),
        version_of_option(options, OUTSIDE_OPTION),
        line_of(options),
        _number_of(options, CPUS_OPTION, 1),
        Content.REPEATING if options.get(CONTENT_OPTION) == Content.REPEATING else Content.RANDOM,
        _number_of(options, WINDOW_OPTION, 0, least=0),
        _number_of(options, WRITE_OPTION, USUAL_WRITE_BYTES),
    )


def _number_of(options: Mapping[str, object], name: str, usual: int, *, least: int = 1) -> int:
    number = options.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= least else usual
