"""The counts of the packet engine, and the figures that follow from them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.counters import PathCounters, Ping, Window
from tunnelbench.model.frames import ETHERNET_LAYER_1_BYTES, IMIX, SMALLEST_FRAME_BYTES, UDP_FRAME_OVERHEAD_BYTES
from tunnelbench.model.search import OFFERED_TOLERANCE, SearchPoint, SearchRun, lower_bounds

FEWEST_OPEN_TUNNELS = 4
"""Fewest open tunnels of which the memory is a figure: programs take memory in pieces of some 100 KiB."""


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
    """One interval of the engine's series."""

    start_s: float
    end_s: float
    """Time since the first packet [s]."""
    sent_packets: int
    received_packets: int
    """Packets that arrived; in an echo, answers to what was sent in this interval."""
    lost_packets: int = 0
    """Packets that the receiver found missing when later ones arrived; in an echo, packets without an answer.

    Drops of the testers' sockets are included. Packets that were sent after the last packet that arrived are not
    included.
    """
    delay_p50_ns: float | None = None
    delay_max_ns: float | None = None


@dataclass(frozen=True)
class UdpCounts:
    """The counts of one trial of the engine. In an echo, received packets are those that came back."""

    duration_s: float
    """Intended duration [s]."""
    intended_pps: float | None
    """Intended rate [packets/s]; None: flat out."""
    intended_packets: int | None
    """Number of packets that the intended rate requires for the whole trial; None: the sender sent as fast as it
    could."""
    sent_packets: int
    sent_bytes: int
    """UDP payload [bytes]."""
    sending_s: float
    """Time from the first packet to the last [s]."""
    received_packets: int
    """Packets that arrived in time, each counted once."""
    received_bytes: int
    receiving_s: float
    """Time from the first arrival to the last [s]."""
    late_packets: int | None
    """Packets that arrived after more than a second; they also count as lost. None: the testers have two clocks."""
    duplicated_packets: int
    reordered_packets: int
    """RFC 4737, Type-P-Reordered."""
    corrupted_packets: int
    """Packets that were cut, or had a wrong size or content; they also count as lost."""
    foreign_packets: int
    """Packets that are not of this trial."""
    tester_dropped_packets: int
    """Packets dropped by a tester's socket; they are not the router's loss."""
    unsent_packets: int
    """Packets that the sender's kernel refused."""
    stalls: int
    """Number of times that the sender was late by more than a millisecond."""
    stall_max_s: float
    sender_path: str
    receiver_path: str
    """Methods of sending and receiving that the engine used, such as `gso` (segmentation offload) and `mmsg` (several
    packets a call)."""
    delay: Delays | None = None
    """Delays one way where both testers read one clock; in an echo, there and back."""
    delay_variation: Delays | None = None
    """Differences of the delays of consecutive packets (RFC 3393)."""
    longest_gap_s: float | None = None
    """Longest time between two arrivals [s]; None: fewer than two packets arrived, or it was not measured."""
    longest_gap_start_s: float | None = None
    """Start of that time, counted from the first arrival [s]."""
    reached_packets: int | None = None
    """Packets of an echo that arrived at the far end; the way back lost those that did not return. None: one way."""
    intervals: tuple[UdpInterval, ...] = ()

    @property
    def is_short(self) -> bool:
        """True if less was offered than intended (rule 7)."""
        return self.intended_packets is not None and self.sent_packets < self.intended_packets * (1 - OFFERED_TOLERANCE)

    @property
    def lost_packets(self) -> int:
        """Packets that were sent and that the program at the other end did not receive in time."""
        return self.sent_packets - self.received_packets

    @property
    def path_lost_packets(self) -> int:
        """Packets lost on the path, without the drops of the testers' sockets (rule 9)."""
        return max(0, self.lost_packets - self.tester_dropped_packets)

    @property
    def loss_ratio(self) -> float:
        """Packets lost on the path divided by packets sent, 0 to 1."""
        return self.path_lost_packets / self.sent_packets if self.sent_packets else 0.0

    @property
    def offered_pps(self) -> float:
        """Offered load: packets sent per second of sending."""
        return (self.sent_packets - 1) / self.sending_s if self.sent_packets > 1 and self.sending_s else 0.0

    @property
    def forwarding_rate_pps(self) -> float:
        """Arrival rate of the packets [packets/s]."""
        return (self.received_packets - 1) / self.receiving_s if self.received_packets > 1 and self.receiving_s else 0.0

    @property
    def throughput_bps(self) -> float:
        """Rate of the UDP payload that arrived [bit/s]."""
        if not self.received_packets:
            return 0.0
        return self.forwarding_rate_pps * self.received_bytes * 8 / self.received_packets


@dataclass(frozen=True)
class Burst:
    """A burst sent back to back."""

    packets: int
    """Packets sent."""
    received_packets: int
    tester_dropped_packets: int = 0

    @property
    def is_whole(self) -> bool:
        return self.received_packets == self.packets


@dataclass(frozen=True)
class ClientHandshakes:
    """Tunnels that one client has set up in one trial, one after the other."""

    finished: int
    """Tunnels whose first packet was answered during the trial."""
    finishing_s: float
    """Time from the first to the last of these answers [s]."""


@dataclass(frozen=True)
class ServerMemory:
    """Anonymous memory (RssAnon) of a server's programs, without and with the tunnels of its further clients."""

    tunnels: int
    """Tunnels of further clients that were open at the same time."""
    before_bytes: int
    open_bytes: int

    @property
    def per_tunnel_bytes(self) -> float | None:
        """Memory of one open tunnel [bytes]; None: too few tunnels, or they took memory that had been free before."""
        taken = self.open_bytes - self.before_bytes
        return taken / self.tunnels if self.tunnels >= FEWEST_OPEN_TUNNELS and taken > 0 else None


@dataclass(frozen=True)
class HandshakeCounts:
    """Tunnels that the further clients of a server have set up in one trial, each again and again."""

    begun: int
    failed: int
    """Tunnels that the server refused, or whose first packet had no answer in time."""
    clients: tuple[ClientHandshakes, ...]
    setup_p50_s: float | None = None
    setup_max_s: float | None = None
    """Time from the start of a tunnel to the answer to its first packet: median and longest [s]; None: unknown."""
    memory: ServerMemory | None = None
    """Memory of the server before the trial's traffic; None: not measured."""

    @property
    def finished(self) -> int:
        """Tunnels whose first packet was answered."""
        return sum(client.finished for client in self.clients)

    @property
    def per_s(self) -> float | None:
        """Tunnels per second, the sum over the clients; None: no client finished two.

        The tunnels of clients that begin together may finish together. So the time counts from each client's own first
        one: from the first one of all, a group more than the time has room for would be counted.
        """
        several = [client for client in self.clients if client.finished > 1 and client.finishing_s]
        return sum((client.finished - 1) / client.finishing_s for client in several) if several else None


@dataclass(frozen=True)
class UdpMeasurement:
    """The figures of one UDP trial; the kind of test decides which fields are present."""

    counts: UdpCounts | None
    """Counts of the timed trial; in a search, those of the confirming trial."""
    searches: tuple[SearchRun, ...] = ()
    points: tuple[SearchPoint, ...] = ()
    """Loads of a loss curve."""
    bursts: tuple[Burst, ...] = ()
    counters: PathCounters | None = None
    """Counters over the timed trial; without one, over the whole trial."""
    window: Window | None = None
    """Window inside the timed trial; None: there was none."""
    bracket_s: float = 0.0
    """Time from the reading before the traffic to the one after it [s]."""
    foreign_cpu_s: float = 0.0
    """CPU time of background load on the CPUs of the testbed during `bracket_s` [s]."""
    connections: ConnectionCounts | None = None
    """Counts of a trial of TCP connections, which the packet engine makes, too; None: a trial of UDP."""
    rekeys: int | None = None
    """Changes of keys that the tunnel reported during the timed trial; None: not asked for."""
    handshakes: HandshakeCounts | None = None
    """Tunnels that other clients set up during the timed trial; None: another test."""
    ping: Ping = field(default_factory=lambda: Ping(0, 0, None))
    physical_limit_pps: float | None = None
    """Largest rate of packets with this payload that the link can carry through this tunnel [packets/s]; None: the link
    has no limit."""

    @property
    def is_refuted(self) -> bool | None:
        """True if the confirming trial lost packets at the NDR; None: the trial is not conclusive, or there is none."""
        if not self.searches or self.counts is None:
            return None
        if self.counts.path_lost_packets:
            return True
        return None if self.counts.is_short or self.counts.tester_dropped_packets else False

    def lower_bound_pps(self, loss_ratio: float) -> float | None:
        """Return the highest load that the searches found to be carried: their median; None: there is none.

        The searches of a trial share one tunnel, so they are one repeat.
        """
        found = lower_bounds(self.searches, loss_ratio)
        return statistics.median(found) if found else None

    @property
    def router_busy_share(self) -> float | None:
        """Share of the router's CPUs that was busy, 0 to 1."""
        return self.window.router_cpu.busy_share if self.window else None

    @property
    def daemon_busy_share(self) -> float | None:
        """Time of the tunnel's processes on the router as a share of one CPU; None: there are none."""
        return self.window.daemon_busy_share if self.window else None

    @property
    def cpu_s_per_million_packets(self) -> float | None:
        """Router CPU seconds per million packets carried, both directions."""
        return self.window.cpu_s_per_million_packets if self.window else None

    @property
    def longest_burst_packets(self) -> int | None:
        """Length of the longest burst without loss that is shorter than every burst with loss (RFC 9004) [packets];
        None: no bursts."""
        if not self.bursts:
            return None
        cut = min((burst.packets for burst in self.bursts if not burst.is_whole), default=None)
        whole = [burst.packets for burst in self.bursts if burst.is_whole and (cut is None or burst.packets < cut)]
        return max(whole, default=0)


def frame_bytes(payload_bytes: int) -> float:
    """Length of the Ethernet frame of a UDP payload over IPv4, FCS included [bytes]; for the mix, the mean."""
    if payload_bytes:
        return max(SMALLEST_FRAME_BYTES, payload_bytes + UDP_FRAME_OVERHEAD_BYTES)
    packets = sum(times for _, times in IMIX)
    return sum(frame_bytes(size) * times for size, times in IMIX) / packets


def mean_payload_bytes(payload_bytes: int) -> float:
    """Payload of a packet; for the mix, the mean [bytes]."""
    if payload_bytes:
        return float(payload_bytes)
    return sum(size * times for size, times in IMIX) / sum(times for _, times in IMIX)


def layer_1_bps(pps: float, payload_bytes: int) -> float:
    """Return the rate that packets take on the cable, preamble and gap included [bit/s]."""
    return pps * (frame_bytes(payload_bytes) + ETHERNET_LAYER_1_BYTES) * 8
