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


SMALLEST_UDP_PAYLOAD_BYTES = 18
"""A frame of 64 bytes over IPv4: the smallest that there is."""

LARGEST_UDP_PAYLOAD_BYTES = 8972
"""What an MTU of 9000 leaves after 20 bytes of IPv4 and 8 of UDP."""

UDP_FRAME_OVERHEAD_BYTES = 46
"""Ethernet header 14, IPv4 20, UDP 8, FCS 4: a frame size in the sense of RFC 2544 less its payload."""

RFC_2544_FRAME_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
"""RFC 2544, section 9.1: the sizes to be used on Ethernet."""

IMIX_PAYLOAD_BYTES = 0
"""Stands where a payload does for the simple Internet mix."""

IMIX = ((18, 7), (548, 4), (1472, 1))
"""UDP payload [bytes] and how often in twelve packets: frames of 64, 594 and 1518 bytes."""


class Test(StrEnum):
    """What a trial does."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    TCP = "tcp"
    """iperf3, as fast as TCP goes."""
    SEARCH = "search"
    """NDR and PDR: repeated searches and a confirming trial, all in one."""
    LATENCY = "latency"
    """Delay and its variation, idle and at shares of the PDR."""
    RATE = "rate"
    """UDP one way at a given rate, or flat out."""
    ECHO = "echo"
    """As `rate`, there and back."""
    LOSS_CURVE = "loss-curve"
    """Loss against offered load."""
    BURST = "burst"
    """The longest burst that comes through whole (RFC 9004)."""
    SOAK = "soak"
    """UDP for hours or days, second by second."""


FLAT_OUT = "flat-out"
"""The load of a trial that offers as much as the sender can."""

IDLE = "idle"
"""The load of a latency trial beside which nothing else goes on."""

IDLE_PPS = 200.0
"""Packets per second that ask for the delay of an idle path."""

LATENCY_LOADS = (IDLE, "10%", "50%", "90%")
"""Shares of the PDR, one trial each."""


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
class UdpTraffic:
    """UDP through the packet engine."""

    payload_bytes: tuple[int, ...] = (18, 1400)
    """UDP payloads to try [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: tuple[Direction, ...] = (Direction.IN, Direction.OUT)
    tests: tuple[Test, ...] = (Test.SEARCH,)
    """In the order in which they run: what needs the PDR comes after the search."""
    rate: tuple[str, ...] = (FLAT_OUT,)
    """Loads of `rate` and `echo`: packets per second as a decimal number, or FLAT_OUT."""
    duration_s: float = 10.0
    """Timed part of a trial that is no part of a search [s]."""
    interval_s: float = 1.0
    """Length of one reading in the series [s]."""
    repeats: int = 3
    """Searches in one record."""
    trial_s: float = 1.0
    """A search's trials, the first ones excepted [s]."""
    confirm_s: float = 30.0
    """The trial at the NDR that follows the searches [s]; 0: none."""
    search_limit_s: float = 120.0
    """After so long a search ends with the bounds that it has [s]."""

    def loads(self, test: Test) -> tuple[str, ...]:
        """The loads of a test, one trial each."""
        if test is Test.LATENCY:
            return LATENCY_LOADS
        return self.rate if test in {Test.RATE, Test.ECHO} else ("",)

    def expected_duration_s(self, test: Test) -> float:
        """About how long one trial of a test takes [s]."""
        if test is Test.SEARCH:
            return self.repeats * (SEARCH_TRIALS * self.trial_s + SEARCH_WAITS_S) + self.confirm_s + ENGINE_OVERHEAD_S
        if test is Test.LOSS_CURVE:
            return LOSS_CURVE_TRIALS * (self.trial_s + ENGINE_OVERHEAD_S)
        if test is Test.BURST:
            return BURST_S
        return self.duration_s + ENGINE_OVERHEAD_S


@dataclass(frozen=True)
class SoakTraffic:
    """UDP at one rate for long, after all rounds: each tunnel, payload and direction once."""

    payload_bytes: tuple[int, ...] = (1400,)
    """UDP payloads [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: tuple[Direction, ...] = (Direction.OUT,)
    duration_s: float = 600.0
    """How long packets are offered [s]; time in which nobody measured comes on top."""
    rate: str = "90%"
    """A share of the NDR that the searches of the same run found, or packets per second as a decimal number."""
    is_echo: bool = False
    """There and back."""
    with_baseline: bool = False
    """Whether the baseline soaks, too; it does where it is the only tunnel."""

    @property
    def share(self) -> float | None:
        """Of the NDR, 0 to 1; None where the rate is given."""
        return float(self.rate.removesuffix("%")) / 100 if self.rate.endswith("%") else None


SEARCH_TRIALS = 9.0
SEARCH_WAITS_S = 7.0
"""About what a search takes: so many full trials, and after each in which packets were lost a second for late ones."""

LOSS_CURVE_TRIALS = 12
BURST_S = 30.0
ENGINE_OVERHEAD_S = 1.3
"""The engine waits a second for packets that are late [s]."""


@dataclass(frozen=True)
class Plan:
    """What a plan file says, checked and with its option lists expanded."""

    name: str
    title: str
    tunnels: tuple[TunnelSpec, ...]
    """The baseline first: it is added where the file does not name it."""
    tcp: TcpTraffic | None
    rounds: int = 3
    cipher_speed_s: int | None = None
    """How long `openssl speed` measures each block of each cipher and digest [s]; None: it does not."""
    udp: UdpTraffic | None = None
    soak: SoakTraffic | None = None

    def trials(self) -> tuple[TrialSpec, ...]:
        """All trials in the order in which they run: rounds outermost, so that slow drift hits all tunnels alike.

        What soaks comes last, and once: it needs what the searches found.
        """
        order = [
            (round_number, tunnel, *item)
            for round_number in range(1, self.rounds + 1)
            for tunnel in self.tunnels
            for item in self._items()
        ]
        if self.soak:
            soaked = [tunnel for tunnel in self.tunnels if self.soak.with_baseline or not tunnel.is_baseline]
            order += [
                (self.rounds, tunnel, size, way, Test.SOAK, self.soak.rate)
                for tunnel in soaked or self.tunnels
                for size in self.soak.payload_bytes
                for way in self.soak.direction
            ]
        return tuple(TrialSpec(sequence, *item) for sequence, item in enumerate(order, start=1))

    def _items(self) -> list[tuple[int, Direction, Test, str]]:
        """Payload, direction, test and load of each trial of one tunnel in one round."""
        items = []
        if self.tcp:
            items += [(size, way, Test.TCP, "") for size in self.tcp.payload_bytes for way in self.tcp.direction]
        if self.udp:
            items += [
                (size, way, test, load)
                for size in self.udp.payload_bytes
                for way in self.udp.direction
                for test in self.udp.tests
                for load in self.udp.loads(test)
            ]
        return items

    def calibrations(self) -> tuple[TrialSpec, ...]:
        """What the testers do back to back before the first trial, in round 0: each payload and direction once.

        With UDP flat out one way, there and back where the plan has that, and an idle delay where it asks for delays.
        """
        testers = TunnelSpec(CALIBRATION_KIND, "testers back to back")
        wanted = []
        if self.tcp:
            wanted += [(size, way, Test.TCP, "") for size in self.tcp.payload_bytes for way in self.tcp.direction]
        if self.udp:
            kinds = [(Test.RATE, FLAT_OUT)]
            kinds += [(Test.ECHO, FLAT_OUT)] if Test.ECHO in self.udp.tests else []
            kinds += [(Test.LATENCY, IDLE)] if Test.LATENCY in self.udp.tests else []
            wanted += [
                (size, way, *kind) for size in self.udp.payload_bytes for way in self.udp.direction for kind in kinds
            ]
        return tuple(
            TrialSpec(position - len(wanted), 0, testers, *item) for position, item in enumerate(wanted, start=1)
        )

    def expected_duration_s(self) -> float:
        """About how long the trials take [s]: an estimate, for people who wait."""
        measured = (*self.calibrations(), *self.trials())
        blocks = self.rounds * len(self.tunnels) if self.tcp or self.udp else 0
        blocks += sum(spec.test is Test.SOAK for spec in measured)
        return blocks * BLOCK_OVERHEAD_S + sum(self.expected_trial_s(spec) for spec in measured)

    def expected_trial_s(self, spec: TrialSpec) -> float:
        """About how long one trial takes [s]."""
        if self.soak and spec.test is Test.SOAK:
            return self.soak.duration_s + ENGINE_OVERHEAD_S
        if self.udp and spec.test is not Test.TCP:
            return self.udp.expected_duration_s(spec.test)
        return self.tcp.duration_s + TRIAL_OVERHEAD_S if self.tcp else 0.0

    def longest_trial_s(self, spec: TrialSpec) -> float:
        """About how long one trial takes at most [s]: some end when they have found something, or at a limit."""
        if self.udp and spec.test is Test.SEARCH:
            return self.udp.repeats * (self.udp.search_limit_s + self.udp.trial_s) + self.udp.confirm_s
        expected_s = self.expected_trial_s(spec)
        return expected_s * 2 if spec.test in {Test.LOSS_CURVE, Test.BURST} else expected_s


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
    """TCP or UDP payload asked for [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: Direction
    test: Test = Test.TCP
    load: str = ""
    """What is offered, as the plan says it: `flat-out`, packets per second, `idle`, a share of the PDR such as `50%`;
    empty where the test finds out."""

    @property
    def payload(self) -> str:
        """The payload for people."""
        return "imix" if self.test is not Test.TCP and not self.payload_bytes else str(self.payload_bytes)

    @property
    def what(self) -> str:
        """Payload, direction and, of UDP, test and load, in a few words such as `18 out search`."""
        words = [self.payload, self.direction, *([self.test, self.load] if self.test is not Test.TCP else [])]
        return " ".join(word for word in words if word)
