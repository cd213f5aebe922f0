"""Figures that every kind of trial counts: CPU time, packets on the path, pings of the router."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """CPU time of one set of CPUs between two readings."""

    cpus: tuple[int, ...]
    wall_s: float
    """Time between the readings, on the monotonic clock [s]."""
    idle_s: float
    """Idle time, iowait included, summed over the CPUs [s]."""
    user_s: float
    system_s: float
    softirq_s: float
    """User, system and softirq time (the latter with hard interrupts), counted in clock ticks [s]. Ticks are inaccurate
    on a CPU that is often idle, so these times are indicative only."""
    steal_s: float
    """CPU time that the hypervisor gave to other machines [s]."""

    @property
    def busy_s(self) -> float:
        """Busy time, summed over the CPUs [s]: time between the readings, times the number of CPUs, minus `idle_s`."""
        return max(0.0, self.wall_s * len(self.cpus) - self.idle_s)

    @property
    def busy_share(self) -> float:
        """Busy time as a share of the time between the readings, 0 to 1; mean over these CPUs."""
        return self.share(self.busy_s)

    def share(self, cpu_s: float) -> float:
        """Return a CPU time as a share of the time between the readings, times the number of these CPUs."""
        return cpu_s / (self.wall_s * len(self.cpus))


@dataclass(frozen=True, slots=True)
class Ping:
    """The router's answers to the client's pings during a trial."""

    sent: int
    answered: int
    worst_ms: float | None


@dataclass(frozen=True, slots=True)
class PathCounters:
    """Packets of one trial, counted from just before the traffic to just after it."""

    data_packets: int
    """Packets of TCP or UDP that arrived at the receiver's interface."""
    data_bytes: int
    """Bytes of those packets on the interface, Ethernet header included, FCS not."""
    ack_packets: int
    """Packets that arrived at the sender's interface: acknowledgements of TCP, or the answers of an echo."""
    forwarded_packets: int
    """`Ip: ForwDatagrams` of the router."""
    outer_expected_packets: int
    outer_expected_bytes: int
    """Packets on the WAN, both directions, of the protocol and port that the tunnel uses; IP header included.

    The server's own TCP is counted here before it is divided into segments. Therefore the count of plain IP packets is
    lower than the number on the wire.
    """
    outer_other_packets: int
    outer_other_bytes: int
    """All other IP packets on the WAN, both directions."""
    wan_packets: int
    """Frames on the WAN, both directions, as the far end's device counts them."""
    fragments_created: int
    """IP fragments that client, router and server made, and the tunnel's far end if it is a third machine
    (`FragCreates`)."""
    reassembled: int
    """Packets that client, router, server and such a third machine reassembled from fragments (`ReasmOKs`)."""
    dropped_packets: int
    """Drops on the interfaces of the path."""
    inner_fragments: int | None = None
    """IP fragments of the traffic that arrived at client and server: packets that were cut before they went into the
    tunnel. None: not counted."""
    outer_fragments: int | None = None
    """IP fragments on the tunnel's cable that arrived at its two ends: packets of the tunnel that were cut. None: not
    counted, or unknown because the router's connection tracking put other fragments together, too."""


@dataclass(frozen=True, slots=True)
class CpuInterval:
    """The busy time of the router's CPUs in a part of a trial."""

    start_s: float
    end_s: float
    """Start and end, as time since data began to flow, negative before that [s]."""
    busy_s: float
    """Busy time, summed over the CPUs [s]."""


PLACE_SEPARATOR = "/"
"""Separates the parts of a place: `kernel/MODULE/FUNCTION`, `PROGRAM/FILE`."""
KERNEL = "kernel"
"""First part of the places of the kernel."""


@dataclass(frozen=True, slots=True)
class Window:
    """The counts of a window that lies wholly inside the traffic; rates and CPU shares come from it.

    The last buffer of the sender still arrives after the test time of iperf3 has ended. Counts from before to after the
    traffic include this buffer, so that the rates of short or slow trials would be too high.
    """

    duration_s: float
    """Length of the window on the monotonic clock [s]."""
    data_packets: int
    ack_packets: int
    """Packets as in PathCounters, within the window."""
    router_cpu: CpuUsage
    tester_cpu: CpuUsage
    busiest_tester_share: float
    """Share of time in which the busiest of the testers' CPUs was busy, 0 to 1; the tunnel's far end is one of them."""
    daemon_cpu_s: float | None
    """CPU time of the tunnel's processes on the router [s]; None: there are none."""
    daemon_cpu_method: str
    """`schedstat` (ns), `ticks` (10 ms) or empty."""
    router_by_cpu: tuple[CpuUsage, ...] = ()
    """CPU time as in `router_cpu`, for each CPU."""
    program_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """`daemon_cpu_s` by the name of the program [s]."""
    intervals: tuple[CpuInterval, ...] = ()
    """Busy time of the router's CPUs in consecutive parts of the trial, beginning before the traffic."""
    far_end_busy_share: float | None = None
    """Share of time in which the tunnel's far end was busy, 0 to 1, where it is a machine of its own; None: it is the
    server."""
    router_instructions: int | None = None
    """Number of instructions that a virtual router of fixed speed executed; None: any other router."""
    router_clock_lost_s: float | None = None
    """Time that the clock of a virtual router of fixed speed lost against this machine's clock [s]; below zero if it
    gained time. None: any other router."""
    router_instruction_shares: Mapping[str, float] = field(default_factory=dict)
    """Share of `router_instructions` that were executed at each place, largest first; empty: not counted. A place is a
    kernel function (`kernel/MODULE/FUNCTION`) or a file of a program (`PROGRAM/FILE`)."""

    @property
    def router_clock_s(self) -> float | None:
        """Duration of the window on the clock of a virtual router of fixed speed [s]; None: any other router, or a
        clock that stood still."""
        if self.router_clock_lost_s is None or self.router_clock_lost_s >= self.duration_s:
            return None
        return self.duration_s - self.router_clock_lost_s

    @property
    def router_own_share(self) -> float | None:
        """Busy time of a virtual router of fixed speed as a share of the time on its own clock; None: any other router,
        or a clock that stood still."""
        return None if self.router_clock_s is None else self.router_cpu.busy_s / self.router_clock_s

    @property
    def daemon_busy_share(self) -> float | None:
        """Time of the tunnel's processes on the router as a share of one CPU; None: there are none."""
        return None if self.daemon_cpu_s is None else self.daemon_cpu_s / self.duration_s

    @property
    def instructions_per_packet(self) -> float | None:
        """Instructions of a router of fixed speed per packet carried in both directions; None: not counted."""
        packets = self.data_packets + self.ack_packets
        return self.router_instructions / packets if packets and self.router_instructions is not None else None

    @property
    def user_share(self) -> float | None:
        """Share of the router's instructions in user mode, 0 to 1; None: they were not counted by address."""
        if not self.router_instruction_shares:
            return None
        shares = self.router_instruction_shares.items()
        return sum(share for place, share in shares if place.partition(PLACE_SEPARATOR)[0] != KERNEL)

    @property
    def user_instructions_per_packet(self) -> float | None:
        """Instructions in user mode per packet; None: not counted by address."""
        per_packet, share = self.instructions_per_packet, self.user_share
        return None if per_packet is None or share is None else per_packet * share

    @property
    def kernel_instructions_per_packet(self) -> float | None:
        """Instructions per packet that were not in user mode; None: not counted by address."""
        per_packet, of_user = self.instructions_per_packet, self.user_instructions_per_packet
        return None if per_packet is None or of_user is None else per_packet - of_user

    @property
    def cpu_s_per_million_packets(self) -> float | None:
        """Router CPU time per million packets carried in both directions [s]; None: there are no packets."""
        packets = self.data_packets + self.ack_packets
        return self.router_cpu.busy_s * 1e6 / packets if packets else None
