"""The plan of a run: its tunnels, its traffic and the trials that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from tunnelbench.model.conditions import Conditions, conditions_of
from tunnelbench.model.firewall import RouterFilter

OptionValue = str | int | float | bool

BASELINE_NAME = "no tunnel"
"""Name of the baseline, if the plan gives it no name."""
BASELINE_KIND = "none"
"""Kind of the baseline, which has no tunnel. Each share in a report is a share of the baseline's figure."""

CALIBRATION_KIND = "back-to-back"
"""Kind in the records of the calibration, which measures the testers without a router between them."""

CLIENTS_OPTION = "clients"
"""Option of the kinds of tunnels whose server can have several clients; `[clients]` of a plan sets it."""
HANDSHAKES_OPTION = "handshakes"
"""Option of the same kinds; `[handshake]` of a plan sets it."""
HANDSHAKE_MEMORY_MIB = 64
"""Memory for whose number of open tunnels the first screen has a sentence, if `[handshake]` of the plan names no other
one: a usual size of small routers."""
OTHERS_REKEY_OPTION = "others_rekey"
"""Option of kinds of which all clients but the first can change their keys; a plan with the test `rekey` sets it."""
BRIDGED_OPTION = "bridged"
"""Option of the kinds of tunnels that the router can join with its LAN by a bridge."""
PROCESSES_OPTION = "processes"
"""Option of the kinds of tunnels that can be several side by side, which share out connections by their ports."""
GATEWAY_NEEDED = "needs_gateway"
"""Key of plans that compare nothing where the server itself ends the tunnel."""
MOST_CLIENTS = 32
"""Largest number of clients of one server."""

SMALLEST_TCP_PAYLOAD_BYTES = 76
"""Linux takes no MSS below 88 (include/net/tcp.h, TCP_MIN_MSS), and time stamps take 12 of it."""

SMALLEST_UDP_PAYLOAD_BYTES = 18
"""UDP payload of the smallest Ethernet frame, 64 bytes, over IPv4."""

LARGEST_UDP_PAYLOAD_BYTES = 8972
"""UDP payload of a packet of 9000 bytes: 20 are for IPv4 and 8 for UDP."""

MOST_FLOWS = 256
"""Largest number of flows of the packet engine's sender."""

RFC_2544_FRAME_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
"""Frame sizes for Ethernet of RFC 2544, section 9.1."""

IMIX_PAYLOAD_BYTES = 0
"""Payload that means the simple Internet mix (`model.frames.IMIX`)."""
IMIX_NAME = "imix"
"""Name of the mix in plans and reports."""


def payload_text(payload_bytes: int, *, is_udp: bool = True) -> str:
    """Return a payload as plans and reports name it: its bytes, or `imix` for the mix of UDP."""
    return IMIX_NAME if is_udp and payload_bytes == IMIX_PAYLOAD_BYTES else str(payload_bytes)


class Test(StrEnum):
    """The kind of a trial."""

    __test__ = False  # not a test class, although its name starts with Test

    TCP = "tcp"
    """TCP by iperf3, at full speed."""
    SEARCH = "search"
    """NDR and PDR: repeated searches and a confirming trial in one record."""
    ECHO_SEARCH = "echo-search"
    """The same for UDP there and back."""
    LATENCY = "latency"
    """Delay and its variation, idle and at shares of the PDR."""
    RATE = "rate"
    """UDP one way at a given rate, or flat out."""
    ECHO = "echo"
    """UDP there and back at a given rate, or flat out."""
    REKEY = "rekey"
    """UDP one way at a given rate while the tunnel changes its keys: the longest gap between two arrivals."""
    HANDSHAKE = "handshake"
    """The same while other clients of the server set up their tunnels: tunnels per second, and time for each."""
    LOSS_CURVE = "loss-curve"
    """Loss against offered load."""
    BURST = "burst"
    """The longest burst that arrives without loss (RFC 9004)."""
    SOAK = "soak"
    """UDP for hours or days, second by second."""
    CONNECT = "connect"
    """New TCP connections per second, at a given rate or flat out; each is closed at once."""
    CONCURRENT = "concurrent"
    """The most TCP connections that are open at the same time."""

    @property
    def is_search(self) -> bool:
        """True if the test finds the load itself."""
        return self in {Test.SEARCH, Test.ECHO_SEARCH}

    @property
    def is_of_gaps(self) -> bool:
        """True if the test is for the longest gap that an event makes between two packets."""
        return self in {Test.REKEY, Test.HANDSHAKE}

    @property
    def is_of_connections(self) -> bool:
        """True if the packet engine opens TCP connections."""
        return self in {Test.CONNECT, Test.CONCURRENT}

    @property
    def is_echo(self) -> bool:
        """True if each packet goes there and back."""
        return self in {Test.ECHO, Test.ECHO_SEARCH}


TESTS_AT_A_RATE = frozenset({Test.RATE, Test.ECHO, Test.REKEY, Test.HANDSHAKE})
"""Tests of UDP whose load is a rate of the plan."""

FLAT_OUT = "flat-out"
"""The load of a trial in which the sender sends as fast as it can."""

IDLE = "idle"
"""The load of a latency trial without other traffic."""

IDLE_PPS = 200.0
"""Rate of the packets that measure the delay of an otherwise idle path [packets/s]."""

LATENCY_LOADS = (IDLE, "10%", "50%", "90%")
"""Loads of latency trials: idle, and shares of the PDR; one trial each."""


CONNECTION_PAYLOAD_BYTES = 7
"""Payload that each end of a connection sends: the token of the packet engine [bytes]."""

HELD_S = 4.0
"""Time for which `concurrent` holds its connections after the last one was begun [s]. It is longer than the wait for
the establishment of a connection."""


class Direction(StrEnum):
    """A direction as the client sees it: `in` is server to client, `out` is client to server."""

    IN = "in"
    OUT = "out"

    @property
    def label(self) -> str:
        """Word for the direction in reports, `down` or `up`; plans and stored data contain `in` or `out`."""
        return direction_label(self)


def direction_label(direction: str) -> str:
    """Return `down` for `in` and `up` for `out`, the words in reports; any other text, such as `both`, stays as it
    is."""
    return {"in": "down", "out": "up"}.get(direction, direction)


@dataclass(frozen=True)
class TunnelSpec:
    """One tunnel with one set of options."""

    kind: str
    """The adapter's name, such as `openvpn`."""
    name: str
    """Name in reports; unique in a plan."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    """All options of the adapter, defaults included."""

    @cached_property
    def is_baseline(self) -> bool:
        """True if the router forwards IPv4 without a tunnel and without a packet filter."""
        return not self.has_tunnel and self.conditions.are_usual

    @property
    def has_tunnel(self) -> bool:
        """False if the router forwards without a tunnel, with a packet filter or without one."""
        return self.kind != BASELINE_KIND

    @property
    def packet_filter(self) -> RouterFilter:
        """The packet filter that the router has during the trials."""
        return self.conditions.packet_filter

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of the trials."""
        return conditions_of(self.options)

    @property
    def clients(self) -> int | None:
        """Number of clients of the router's server; None: the tunnel has two fixed ends."""
        return self._number(CLIENTS_OPTION)

    @property
    def handshakes(self) -> int:
        """Number of further clients that set up their tunnels at the same time in a trial of the test `handshake`."""
        return self._number(HANDSHAKES_OPTION) or 0

    @property
    def others_rekey(self) -> bool:
        """True if the clients of a server change their keys, except the first one."""
        return self.options.get(OTHERS_REKEY_OPTION) is True and (self.clients or 0) > 1

    def _number(self, option: str) -> int | None:
        value = self.options.get(option)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


LARGEST_RESULT_BYTES = 80_000_000
"""Largest result that a generator may print for one trial [bytes]; the whole result is kept in memory."""

STREAM_READING_BYTES, SUM_READING_BYTES = 400, 250
"""Upper estimates of what iperf3 prints for one stream, and for all streams together, at each reading [bytes]; iperf3
3.12 prints about 350 and 220."""

ENGINE_READING_BYTES = 650
"""Upper estimate of what the packet engine prints at each reading [bytes]; up to 610 were seen."""


@dataclass(frozen=True)
class TcpTraffic:
    """TCP through iperf3."""

    payload_bytes: tuple[int, ...] = (1448, 76)
    """TCP payloads of one segment [bytes]; if a tunnel's path takes less, reports show the effective payload."""
    direction: tuple[Direction, ...] = (Direction.IN, Direction.OUT)
    duration_s: int = 10
    """Timed part of a trial [s]; iperf3 takes whole seconds."""
    interval_s: float = 1.0
    """Length of one reading in the series [s]."""
    streams: int = 1
    """Parallel TCP connections."""
    congestion_control: str = "cubic"
    """The kernel's name of the algorithm on both testers."""
    rate_mbps: tuple[str, ...] = (FLAT_OUT,)
    """Rates at which the sender offers data, as decimal numbers [Mbit/s], or FLAT_OUT; one trial each."""

    @property
    def loads(self) -> tuple[str, ...]:
        """Load of each trial, as in `TrialSpec.load`."""
        return tuple("" if rate == FLAT_OUT else rate for rate in self.rate_mbps)

    @property
    def reading_bytes(self) -> int:
        """Upper estimate of what iperf3 prints at each reading [bytes]."""
        return STREAM_READING_BYTES * self.streams + SUM_READING_BYTES

    @property
    def result_bytes(self) -> float:
        """Upper estimate of all readings that iperf3 prints for one trial [bytes]."""
        return self.duration_s / self.interval_s * self.reading_bytes


@dataclass(frozen=True)
class UdpTraffic:
    """UDP through the packet engine."""

    payload_bytes: tuple[int, ...] = (18, 1400)
    """UDP payloads to try [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: tuple[Direction, ...] = (Direction.IN, Direction.OUT)
    tests: tuple[Test, ...] = (Test.SEARCH,)
    """Tests in the order in which they run: tests that need the PDR come after the search."""
    rate: tuple[str, ...] = (FLAT_OUT,)
    """Loads of `rate`, `echo`, `rekey` and `handshake`: packets per second as a decimal number, or FLAT_OUT (for `rate`
    and `echo` only)."""
    duration_s: float = 10.0
    """Timed part of a trial outside a search [s]."""
    interval_s: float = 1.0
    """Length of one reading in the series [s]."""
    flows: int = 1
    """Number of flows, each with a source port of its own, which the sender uses in turn."""
    repeats: int = 3
    """Number of searches in one record."""
    trial_s: float = 1.0
    """Duration of a search's trials, except the first ones [s]."""
    confirm_s: float = 30.0
    """Duration of the trial at the NDR after the searches [s]; 0: no such trial."""
    search_limit_s: float = 120.0
    """Longest duration of a search, which then ends with the bounds that it has [s]."""

    def loads(self, test: Test) -> tuple[str, ...]:
        """Return the loads of a test, one trial each."""
        if test is Test.LATENCY:
            return LATENCY_LOADS
        return self.rate if test in TESTS_AT_A_RATE else ("",)

    def expected_duration_s(self, test: Test) -> float:
        """Return about how long one trial of a test takes [s]."""
        if test.is_search:
            search_s = SEARCH_TRIALS * (SEARCH_TRIAL_SHARE * self.trial_s + SEARCH_TRIAL_OVERHEAD_S)
            return self.repeats * min(search_s, self.search_limit_s) + self.confirm_s + ENGINE_OVERHEAD_S
        if test is Test.LOSS_CURVE:
            return LOSS_CURVE_TRIALS * (self.trial_s + ENGINE_OVERHEAD_S)
        if test is Test.BURST:
            return BURST_S
        return self.duration_s + ENGINE_OVERHEAD_S


@dataclass(frozen=True)
class SoakTraffic:
    """UDP at one rate for hours, after all rounds: each tunnel, payload and direction once."""

    payload_bytes: tuple[int, ...] = (1400,)
    """UDP payloads [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: tuple[Direction, ...] = (Direction.OUT,)
    duration_s: float = 600.0
    """Time for which packets are sent [s], not counting gaps in which the controlling process (TunnelBench) did not
    run."""
    rate: str = "90%"
    """Rate of the packets: `90%` is a share of the NDR that the run's searches found, `5000` is in packets/s."""
    is_echo: bool = False
    """True if packets go there and back."""
    with_baseline: bool = False
    """True if the baseline also has a soak; it always has one if it is the only tunnel."""

    @property
    def share(self) -> float | None:
        """Share of the NDR, 0 to 1; None if the rate is in packets per second."""
        return float(self.rate.removesuffix("%")) / 100 if self.rate.endswith("%") else None


@dataclass(frozen=True)
class ConnectionTraffic:
    """TCP connections through the packet engine; the client opens them."""

    tests: tuple[Test, ...] = (Test.CONNECT, Test.CONCURRENT)
    rate: tuple[str, ...] = (FLAT_OUT,)
    """Loads of `connect`: new connections per second as a decimal number, or FLAT_OUT; one trial each."""
    duration_s: float = 5.0
    """Time in which `connect` opens connections [s]."""
    most: int = 10_000
    """Number of connections that `concurrent` tries to open."""
    opening_rate: float = 2000.0
    """Rate at which `concurrent` opens them [connections/s]."""
    payload_bytes: tuple[int, ...] = (CONNECTION_PAYLOAD_BYTES,)
    direction: tuple[Direction, ...] = (Direction.OUT,)

    def loads(self, test: Test) -> tuple[str, ...]:
        """Return the loads of a test, one trial each."""
        return self.rate if test is Test.CONNECT else (str(self.most),)

    def expected_duration_s(self, test: Test) -> float:
        """Return about how long one trial of a test takes [s]."""
        opening_s = self.duration_s if test is Test.CONNECT else self.most / self.opening_rate + HELD_S
        return opening_s + ENGINE_OVERHEAD_S


SEARCH_TRIALS = 50
"""Approximate number of trials of a search, repeated ones included. On a virtual machine with two CPUs that had other
work, 42 searches on 2026-11-23 made 17 to 97 trials, 52 in the mean."""
SEARCH_TRIAL_SHARE = 0.7
"""Approximate mean duration of these trials, as a share of the duration of a full trial; the first ones are shorter."""
SEARCH_TRIAL_OVERHEAD_S = 0.15
"""Approximate time that a trial of a search takes beside its traffic [s]; 0.149 was the mean of 358 trials."""

LOSS_CURVE_TRIALS = 12
BURST_S = 30.0
ENGINE_OVERHEAD_S = 1.3
"""Time that the engine adds to a trial, mostly a second for late packets [s]."""


@dataclass(frozen=True)
class Plan:
    """The content of a plan file, checked and with its option lists expanded."""

    name: str
    title: str
    tunnels: tuple[TunnelSpec, ...]
    """Tunnels, the baseline first; the baseline is added if the file does not name it."""
    tcp: TcpTraffic | None
    rounds: int = 3
    cipher_speed_s: int | None = None
    """Duration of `openssl speed` for each block of each cipher and digest [s]; None: no such measurement."""
    udp: UdpTraffic | None = None
    soak: SoakTraffic | None = None
    connections: ConnectionTraffic | None = None

    def trials(self) -> tuple[TrialSpec, ...]:
        """Return all trials in the order in which they run.

        All tunnels are measured in one round before the next round begins, so that slow drift affects all tunnels
        alike. Soaks come last and once, because they need the NDR that the searches found.
        """
        order = [
            (round_number, tunnel, *item)
            for round_number in range(1, self.rounds + 1)
            for tunnel in self.tunnels
            for item in self._items()
        ]
        if self.soak:
            soaked = [tunnel for tunnel in self.tunnels if self.soak.with_baseline or not tunnel.is_baseline]
            once = _placed(self.soak, [(Test.SOAK, self.soak.rate)])
            order += [(self.rounds, tunnel, *item) for tunnel in soaked or self.tunnels for item in once]
        return tuple(TrialSpec(sequence, *item) for sequence, item in enumerate(order, start=1))

    def _items(self) -> list[tuple[int, Direction, Test, str]]:
        """Return payload, direction, test and load of each trial of one tunnel in one round."""
        udp = [(test, load) for test in self.udp.tests for load in self.udp.loads(test)] if self.udp else []
        tcp = [(Test.TCP, load) for load in self.tcp.loads] if self.tcp else []
        opened = self.connections
        connect = [(test, load) for test in opened.tests for load in opened.loads(test)] if opened else []
        return [*_placed(self.tcp, tcp), *_placed(self.udp, udp), *_placed(opened, connect)]

    def calibrations(self) -> tuple[TrialSpec, ...]:
        """Return the trials of round 0, which measure the testers back to back: each payload and direction once.

        For UDP that is flat out one way, flat out there and back if the plan has echoes, and the idle delay if it
        has latency trials.
        """
        testers = TunnelSpec(CALIBRATION_KIND, "testers back to back")
        tests = self.udp.tests if self.udp else ()
        udp = [(Test.RATE, FLAT_OUT)]
        udp += [(Test.ECHO, FLAT_OUT)] if any(test.is_echo for test in tests) else []
        udp += [(Test.LATENCY, IDLE)] if Test.LATENCY in tests else []
        connect = [(Test.CONNECT, FLAT_OUT)]
        wanted = [*_placed(self.tcp, [(Test.TCP, "")]), *_placed(self.udp, udp), *_placed(self.connections, connect)]
        return tuple(
            TrialSpec(position - len(wanted), 0, testers, *item) for position, item in enumerate(wanted, start=1)
        )

    def every_trial(self) -> tuple[TrialSpec, ...]:
        """Return all trials of a run, the calibrations first."""
        return (*self.calibrations(), *self.trials())

    def expected_duration_s(self, missing: Collection[str] = ()) -> float:
        """Return about how long the trials take [s]; those of the tunnels with the names `missing` take no time."""
        trials = [spec for spec in self.trials() if spec.tunnel.name not in missing]
        measured = (*self.calibrations(), *trials)
        tunnels = sum(tunnel.name not in missing for tunnel in self.tunnels)
        blocks = self.rounds * tunnels if self.tcp or self.udp or self.connections else 0
        blocks += sum(spec.test is Test.SOAK for spec in measured)
        return blocks * BLOCK_OVERHEAD_S + sum(self.expected_trial_s(spec) for spec in measured)

    def expected_trial_s(self, spec: TrialSpec) -> float:
        """Return about how long one trial takes [s]."""
        if self.soak and spec.test is Test.SOAK:
            return self.soak.duration_s + ENGINE_OVERHEAD_S
        if self.connections and spec.test.is_of_connections:
            return self.connections.expected_duration_s(spec.test)
        if self.udp and spec.test is not Test.TCP:
            return self.udp.expected_duration_s(spec.test)
        return self.tcp.duration_s + TRIAL_OVERHEAD_S if self.tcp else 0.0

    def longest_trial_s(self, spec: TrialSpec) -> float:
        """Return about how long one trial takes at most [s]; a search ends at its time limit."""
        if self.udp and spec.test.is_search:
            return self.udp.repeats * (self.udp.search_limit_s + self.udp.trial_s) + self.udp.confirm_s
        expected_s = self.expected_trial_s(spec)
        return expected_s * 2 if spec.test in {Test.LOSS_CURVE, Test.BURST} else expected_s


def _placed(
    traffic: TcpTraffic | UdpTraffic | SoakTraffic | ConnectionTraffic | None, tests: Sequence[tuple[Test, str]]
) -> list[tuple[int, Direction, Test, str]]:
    """Combine each pair of test and load with each payload and direction of `traffic`; empty if there is no traffic."""
    if traffic is None:
        return []
    return [(size, way, *test) for size in traffic.payload_bytes for way in traffic.direction for test in tests]


BLOCK_OVERHEAD_S = 2.0
"""Approximate time to bring a tunnel up, prove it and warm it up [s]."""

VIRTUAL_ROUTER_TRIAL_S = 8.0
"""Approximate time by which a trial on a virtual router of 62.5 MIPS takes longer than in namespaces [s].

Its share of the boot and of the tunnels' set-up is included. It was 5.5 to 9.7 s in runs of the plans `quick`,
`instructions` and `wr841n`.
"""

TRIAL_OVERHEAD_S = 0.3
"""Approximate time of iperf3 in addition to its test, and of the proof that is repeated after it [s]."""


@dataclass(frozen=True)
class TrialSpec:
    """One planned trial: a tunnel, a payload, a direction, a test and a load, in one round."""

    sequence: int
    """Position of the trial in the run, from 1; trials of the calibration, which come first, have numbers up to 0."""
    round: int
    """Repeat, from 1; 0 is the calibration."""
    tunnel: TunnelSpec
    payload_bytes: int
    """TCP or UDP payload asked for [bytes]; IMIX_PAYLOAD_BYTES is the mix."""
    direction: Direction
    test: Test = Test.TCP
    load: str = ""
    """Offered load as in the plan: `flat-out`, packets per second, `idle`, a share of the PDR such as `50%`; empty if
    the test finds the load. TCP: the rate at which the plan paces the sender [Mbit/s]; empty if TCP is not paced."""

    @property
    def payload(self) -> str:
        """Payload in words."""
        return payload_text(self.payload_bytes, is_udp=self.test is not Test.TCP)

    @property
    def is_tcp_flat_out(self) -> bool:
        """True if TCP sends as fast as it can."""
        return self.test is Test.TCP and not self.load

    @property
    def what(self) -> str:
        """Payload and direction, for UDP also test and load, such as `18 up search`."""
        is_tcp = self.test is Test.TCP
        words = [self.payload, self.direction.label, *([paced_text(self.load)] if is_tcp else [self.test, self.load])]
        return " ".join(word for word in words if word)


def paced_text(load: str) -> str:
    """Return the load of a TCP trial in words; empty if TCP is not paced."""
    return f"at {load} Mbit/s" if load else ""
