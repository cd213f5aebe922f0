"""What is to be measured: a plan's tunnels and traffic, and the single trials that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

OptionValue = str | int | float | bool

BASELINE_KIND = "none"
"""The tunnel kind that is no tunnel: every share in a report is a share of its figure."""

CALIBRATION_KIND = "back-to-back"
"""Stands where a tunnel's kind does in the records of the calibration: the testers alone, no router between them."""

SMALLEST_TCP_PAYLOAD_BYTES = 76
"""Linux takes no MSS below 88 (include/net/tcp.h, TCP_MIN_MSS), and time stamps take 12 of it."""

TCP_TIMESTAMPS_BYTES = 12
"""RFC 7323: the time stamp option with its padding, in every segment; MSS counts it, the payload does not."""


class Direction(StrEnum):
    """Seen from the client: `in` is server to client, `out` is client to server."""

    IN = "in"
    OUT = "out"


@dataclass(frozen=True)
class TunnelSpec:
    """One tunnel with one set of options."""

    kind: str
    """The adapter's name, such as `openvpn`."""
    name: str
    """What reports call it; unique in a plan."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    """Every option of the adapter, defaults filled in."""

    @property
    def is_baseline(self) -> bool:
        return self.kind == BASELINE_KIND


@dataclass(frozen=True)
class TcpTraffic:
    """TCP through iperf3."""

    payload_bytes: tuple[int, ...] = (1448, 76)
    """TCP payloads of one segment to try [bytes]; where a tunnel's path takes less, the effective one is reported."""
    direction: tuple[Direction, ...] = (Direction.IN, Direction.OUT)
    duration_s: int = 10
    """Timed part of a trial [s]; iperf3 takes whole seconds."""
    interval_s: float = 1.0
    """Length of one reading in the series [s]."""
    streams: int = 1
    """Parallel TCP connections."""
    congestion_control: str = "cubic"
    """The kernel's name of the algorithm on both testers."""


@dataclass(frozen=True)
class Plan:
    """What a plan file says, checked and with its option lists expanded."""

    name: str
    title: str
    tunnels: tuple[TunnelSpec, ...]
    """The baseline first: it is added where the file does not name it."""
    tcp: TcpTraffic
    rounds: int = 3
    cipher_speed_s: int | None = None
    """How long `openssl speed` measures each block of each cipher and digest [s]; None: it does not."""

    def trials(self) -> tuple[TrialSpec, ...]:
        """All trials in the order in which they run: rounds outermost, so that slow drift hits all tunnels alike."""
        order = [
            (round_number, tunnel, payload, direction)
            for round_number in range(1, self.rounds + 1)
            for tunnel in self.tunnels
            for payload in self.tcp.payload_bytes
            for direction in self.tcp.direction
        ]
        return tuple(
            TrialSpec(sequence, round_number, tunnel, payload, direction)
            for sequence, (round_number, tunnel, payload, direction) in enumerate(order, start=1)
        )

    def calibrations(self) -> tuple[TrialSpec, ...]:
        """What the testers do back to back before the first trial, in round 0: each payload and direction once."""
        testers = TunnelSpec(CALIBRATION_KIND, "testers back to back")
        wanted = [(payload, direction) for payload in self.tcp.payload_bytes for direction in self.tcp.direction]
        return tuple(
            TrialSpec(position - len(wanted), 0, testers, payload, direction)
            for position, (payload, direction) in enumerate(wanted, start=1)
        )

    def expected_duration_s(self) -> float:
        """About how long the trials take [s]: an estimate, for people who wait."""
        blocks = self.rounds * len(self.tunnels)
        measured = len(self.calibrations()) + len(self.trials())
        return blocks * BLOCK_OVERHEAD_S + measured * (self.tcp.duration_s + TRIAL_OVERHEAD_S)


BLOCK_OVERHEAD_S = 2.0
"""About what bringing a tunnel up, proving it and warming it up takes [s]."""

TRIAL_OVERHEAD_S = 0.1
"""About what iperf3 takes beyond its test [s]."""


@dataclass(frozen=True)
class TrialSpec:
    """One measurement of one thing for one duration."""

    sequence: int
    """Place in the run, from 1; the calibration before it has numbers up to 0."""
    round: int
    """Repeat, from 1; 0 is the calibration."""
    tunnel: TunnelSpec
    payload_bytes: int
    """TCP payload asked for [bytes]."""
    direction: Direction
