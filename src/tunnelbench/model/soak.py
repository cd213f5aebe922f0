"""A soak: UDP for hours or days. What was counted each second, in the parts in which somebody measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check
from tunnelbench.model.udp import UdpCounts

INTERVAL_S = 1.0
"""Of the series."""

CHUNK_READINGS = 5
"""So many readings are stored at once: a crash loses at most as many seconds of the series."""

RESTART, REKEY = "restart", "rekey"
"""What an event is: a daemon began anew, or was started anew; the ends agreed on new keys."""


@dataclass(frozen=True)
class SoakReading:
    """One interval of the series."""

    start_s: float
    end_s: float
    """Since the part's first packet [s]."""
    sent_packets: int
    received_packets: int
    """In time, each counted once; of an echo, answers to what was sent in this interval."""
    missing_packets: int
    """Left out by the numbers of what arrived, what the testers' sockets dropped included; below zero where packets of
    an earlier interval came after all. Of an echo: sent in this interval, and without an answer."""
    late_packets: int | None
    """After a second, among the missing. None: the two clocks are not one."""
    duplicated_packets: int
    reordered_packets: int
    corrupted_packets: int
    tester_dropped_packets: int
    """Dropped by a tester's socket: not the router's loss."""
    delay_p50_ns: float | None = None
    delay_p99_ns: float | None = None
    delay_max_ns: float | None = None
    """Of an echo, there and back."""
    router_busy_share: float | None = None
    """Of the router's CPUs, in about the same time. None: nobody looked."""


@dataclass(frozen=True)
class SoakEvent:
    """Something that happened to the tunnel."""

    at_s: float
    """Since the part's first packet [s]; to about a second."""
    kind: str
    """`restart` or `rekey`."""
    text: str


@dataclass(frozen=True)
class SoakChunk:
    """What is stored at once."""

    readings: tuple[SoakReading, ...]
    events: tuple[SoakEvent, ...] = ()
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """Resident memory at its end, by program: `router/openvpn`, `server/openvpn`, and our own: `controller`,
    `engine/sender`, `engine/receiver`."""


@dataclass(frozen=True)
class SoakPart:
    """A stretch in which one controller measured."""

    number: int
    """From 1."""
    started_at: str
    """UTC, ISO 8601: of the first packet."""
    ended_at: str | None = None
    """None: nobody noted the end, as after `kill -9`."""
    ended: str = ""
    """Why it ended before its time; empty where it did not, or nobody noted it."""
    counts: UdpCounts | None = None
    """Of the whole part, without its series; None: nobody noted the end."""
    checks: tuple[Check, ...] = ()

    @property
    def started_s(self) -> float:
        """The same on the wall clock [s]."""
        return datetime.fromisoformat(self.started_at).timestamp()


@dataclass(frozen=True)
class Soak:
    """One tunnel, payload and direction; its series is read piece by piece."""

    spec: TrialSpec
    duration_s: float
    """For how long packets are to be offered [s]."""
    rate_pps: float
    is_echo: bool
    parts: tuple[SoakPart, ...] = ()
