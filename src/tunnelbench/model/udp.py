"""What the packet engine counted, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tunnelbench.model.plan import IMIX, UDP_FRAME_OVERHEAD_BYTES
from tunnelbench.model.result import PathCounters, Ping, Window
from tunnelbench.model.search import OFFERED_TOLERANCE, SearchPoint, SearchRun

ETHERNET_LAYER_1_BYTES = 20
"""Preamble 8 and gap 12 (IEEE 802.3): what a frame takes on the cable beside itself."""

SMALLEST_FRAME_BYTES = 64


@dataclass(frozen=True)
class Delays:
    """A histogram of delays, by its percentiles [ns]; three significant digits."""

    count: int
    min_ns: float
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p99_9_ns: float
    max_ns: float


@dataclass(frozen=True)
class UdpInterval:
    """One reading of the series."""

    start_s: float
    end_s: float
    """Since the first packet [s]."""
    sent_packets: int
    received_packets: int
    """Of an echo: answers to what was sent in this interval."""
    lost_packets: int = 0
    """Missing in the order of what arrived, of an echo without an answer; what the testers' sockets dropped is among
    them, what was sent after the last packet that arrived is not."""
    delay_p50_ns: float | None = None
    delay_max_ns: float | None = None


@dataclass(frozen=True)
class UdpCounts:
    """One trial of the engine, counted to the packet. Of an echo, received is what came back."""

    duration_s: float
    """Intended [s]."""
    intended_pps: float | None
    """None: flat out."""
    intended_packets: int | None
    """What the rate asked for until the end; None: flat out."""
    sent_packets: int
    sent_bytes: int
    """UDP payload [bytes]."""
    sending_s: float
    """From the first packet to the last [s]."""
    received_packets: int
    """In time, each counted once."""
    received_bytes: int
    receiving_s: float
    """From the first arrival to the last [s]."""
    late_packets: int | None
    """After a second; among the lost. None: the two clocks are not one."""
    duplicated_packets: int
    reordered_packets: int
    """RFC 4737, Type-P-Reordered."""
    corrupted_packets: int
    """Cut, of a wrong size or with wrong content; among the lost."""
    foreign_packets: int
    """Not of this trial."""
    tester_dropped_packets: int
    """Dropped by a tester's socket: not the router's loss."""
    unsent_packets: int
    """Refused by the sender's kernel."""
    stalls: int
    """How often the sender was late by more than a millisecond."""
    stall_max_s: float
    sender_path: str
    receiver_path: str
    """The ways that the engine took, such as `gso` and `mmsg`."""
    delay: Delays | None = None
    """One way where both clocks are one; of an echo there and back."""
    delay_variation: Delays | None = None
    """Of packets that follow each other (RFC 3393)."""
    reached_packets: int | None = None
    """Of an echo: arrived at the far end; what is lost of these was lost on the way back. None: one way."""
    intervals: tuple[UdpInterval, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether less was offered than intended (rule 7)."""
        return self.intended_packets is not None and self.sent_packets < self.intended_packets * (1 - OFFERED_TOLERANCE)

    @property
    def lost_packets(self) -> int:
        """Sent, and not received in time by the program at the other end."""
        return self.sent_packets - self.received_packets

    @property
    def path_lost_packets(self) -> int:
        """Lost on the path: what the testers' sockets dropped is theirs (rule 9)."""
        return max(0, self.lost_packets - self.tester_dropped_packets)

    @property
    def loss_ratio(self) -> float:
        """Lost on the path over sent, 0 to 1."""
        return self.path_lost_packets / self.sent_packets if self.sent_packets else 0.0

    @property
    def offered_pps(self) -> float:
        """Offered load: packets sent per second of sending."""
        return (self.sent_packets - 1) / self.sending_s if self.sent_packets > 1 and self.sending_s else 0.0

    @property
    def forwarding_rate_pps(self) -> float:
        """Packets per second at which they arrived."""
        return (self.received_packets - 1) / self.receiving_s if self.received_packets > 1 and self.receiving_s else 0.0

    @property
    def throughput_bps(self) -> float:
        """UDP payload that arrived [bit/s]."""
        if not self.received_packets:
            return 0.0
        return self.forwarding_rate_pps * self.received_bytes * 8 / self.received_packets


@dataclass(frozen=True)
class Burst:
    """A burst sent back to back."""

    packets: int
    """Sent."""
    received_packets: int
    tester_dropped_packets: int = 0

    @property
    def is_whole(self) -> bool:
        return self.received_packets == self.packets


@dataclass(frozen=True)
class UdpMeasurement:
    """The figures of one UDP trial; which there are depends on the test."""

    counts: UdpCounts | None
    """The timed trial: of a rate, an echo or a latency test all there is, of a search the confirming trial."""
    searches: tuple[SearchRun, ...] = ()
    points: tuple[SearchPoint, ...] = ()
    """Loads of a loss curve."""
    bursts: tuple[Burst, ...] = ()
    counters: PathCounters | None = None
    """Over the timed trial; of the other tests over all of it."""
    window: Window | None = None
    """Inside the timed trial; None where there was none."""
    bracket_s: float = 0.0
    """From the reading before the traffic to the one after it [s]."""
    foreign_cpu_s: float = 0.0
    """CPU time of processes that are not ours on the CPUs of the testbed, over the bracket [s]."""
    ping: Ping = field(default_factory=lambda: Ping(0, 0, None))
    physical_limit_pps: float | None = None
    """What the link can carry of this payload through this tunnel [packets/s]; None: no rate limit."""

    @property
    def is_refuted(self) -> bool | None:
        """Whether the confirming trial lost packets at the NDR; None where none tells."""
        if not self.searches or self.counts is None:
            return None
        if self.counts.path_lost_packets:
            return True
        return None if self.counts.is_short or self.counts.tester_dropped_packets else False

    @property
    def router_busy_share(self) -> float | None:
        """Share of the router's CPUs that was busy, 0 to 1."""
        return self.window.router_cpu.busy_share if self.window else None

    @property
    def daemon_busy_share(self) -> float | None:
        """Time of the tunnel's processes on the router as a share of one CPU; None: there are none."""
        if self.window is None or self.window.daemon_cpu_s is None:
            return None
        return self.window.daemon_cpu_s / self.window.duration_s

    @property
    def cpu_s_per_million_packets(self) -> float | None:
        """Router CPU seconds per million packets carried, both directions."""
        if self.window is None:
            return None
        packets = self.window.data_packets + self.window.ack_packets
        return self.window.router_cpu.busy_s * 1e6 / packets if packets else None

    @property
    def longest_burst_packets(self) -> int | None:
        """The longest burst that came through whole below the shortest that did not (RFC 9004); None: no bursts."""
        if not self.bursts:
            return None
        cut = min((burst.packets for burst in self.bursts if not burst.is_whole), default=None)
        whole = [burst.packets for burst in self.bursts if burst.is_whole and (cut is None or burst.packets < cut)]
        return max(whole, default=0)


def frame_bytes(payload_bytes: int) -> float:
    """Ethernet frame of a UDP payload over IPv4, FCS included [bytes]; of the mix, the mean."""
    if payload_bytes:
        return max(SMALLEST_FRAME_BYTES, payload_bytes + UDP_FRAME_OVERHEAD_BYTES)
    packets = sum(times for _, times in IMIX)
    return sum(frame_bytes(size) * times for size, times in IMIX) / packets


def mean_payload_bytes(payload_bytes: int) -> float:
    """The payload itself; of the mix, the mean [bytes]."""
    if payload_bytes:
        return float(payload_bytes)
    return sum(size * times for size, times in IMIX) / sum(times for _, times in IMIX)


def layer_1_bps(pps: float, payload_bytes: int) -> float:
    """What a packet rate takes on the cable, preamble and gap included [bit/s]."""
    return pps * (frame_bytes(payload_bytes) + ETHERNET_LAYER_1_BYTES) * 8
