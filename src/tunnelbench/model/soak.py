"""A soak: UDP for hours or days, with counts for each second; a soak that is continued by a new process has a new
part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check
from tunnelbench.model.udp import UdpCounts

SOAK_INTERVAL_S = 1.0
"""Interval of the series [s]."""

CHUNK_READINGS = 5
"""Number of readings that are stored together; a crash loses at most this many seconds of the series."""

RESTART, REKEY = "restart", "rekey"
"""Kinds of event: a daemon restarted or was started again; the ends agreed on new keys."""


@dataclass(frozen=True)
class SoakReading:
    """One interval of the series."""

    start_s: float
    end_s: float
    """Time since the part's first packet [s]."""
    sent_packets: int
    received_packets: int
    """Packets that arrived in time, each counted once; in an echo, answers to what was sent in this interval."""
    missing_packets: int
    """Packets whose sequence numbers are missing among those that arrived; in an echo, packets of this interval without
    an answer.

    Drops of the testers' sockets are included. The number is negative if packets of an earlier interval arrived.
    """
    late_packets: int | None
    """Packets that arrived after more than a second; they also count as missing. None: the testers have two clocks."""
    duplicated_packets: int
    reordered_packets: int
    corrupted_packets: int
    tester_dropped_packets: int
    """Packets dropped by a tester's socket; they are not the router's loss."""
    delay_p50_ns: float | None = None
    delay_p99_ns: float | None = None
    delay_max_ns: float | None = None
    """Delays; in an echo, there and back."""
    router_busy_share: float | None = None
    """Busy share of the router's CPUs in about the same interval; None: unknown."""

    @property
    def path_missing_packets(self) -> int:
        """Missing packets that no tester's socket dropped."""
        return self.missing_packets - self.tester_dropped_packets


@dataclass(frozen=True)
class SoakEvent:
    """An event of the tunnel."""

    at_s: float
    """Time since the part's first packet [s], to about a second."""
    kind: str
    """`restart` or `rekey`."""
    text: str


@dataclass(frozen=True)
class SoakChunk:
    """The readings and events that are stored together."""

    readings: tuple[SoakReading, ...]
    events: tuple[SoakEvent, ...] = ()
    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """Resident memory at the end of the chunk by program: `router/openvpn`, `server/openvpn`, `controller`,
    `engine/sender`, `engine/receiver`."""


@dataclass(frozen=True)
class SoakPart:
    """The part of a soak that one controlling process (a run of TunnelBench) measured."""

    number: int
    """Number, from 1."""
    started_at: str
    """Time of the first packet (UTC, ISO 8601)."""
    ended_at: str | None = None
    """Time of the end; None: the end was not stored, as after `kill -9`."""
    ended: str = ""
    """Reason for which the part ended early; empty if it ended in time, or if the end was not stored."""
    counts: UdpCounts | None = None
    """Counts of the whole part, without its series; None: the end was not stored."""
    checks: tuple[Check, ...] = ()

    @property
    def started_s(self) -> float:
        """The same on the wall clock [s]."""
        return datetime.fromisoformat(self.started_at).timestamp()


@dataclass(frozen=True)
class Soak:
    """A soak of one tunnel, payload and direction; its series is read in chunks."""

    spec: TrialSpec
    duration_s: float
    """Planned time in which packets are offered [s]."""
    rate_pps: float
    is_echo: bool
    parts: tuple[SoakPart, ...] = ()
