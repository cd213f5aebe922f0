"""What was found: checks, counted figures of a trial, and records as they are stored.

Counted things are stored as integers (or seconds of CPU); rates and shares are properties that follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tunnelbench.model.plan import TrialSpec

if TYPE_CHECKING:
    from tunnelbench.model.udp import UdpMeasurement  # which is made of what is here


class Verdict(StrEnum):
    """What a check says of a trial, from harmless to fatal."""

    OK = "ok"
    NOTE = "note"
    DOUBTFUL = "doubtful"
    VOID = "void"

    @property
    def severity(self) -> int:
        return _SEVERITY[self]


_SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}


class Outcome(StrEnum):
    """What became of a planned trial."""

    MEASURED = "measured"
    """Timed; its class says how far the figure is to be trusted."""
    VOID = "void"
    """Started, and ended without a figure that counts."""
    REFUSED = "refused"
    """The tunnel failed its proof and was not timed."""
    UNAVAILABLE = "unavailable"
    """This machine cannot do it."""
    GIVEN_UP = "given-up"
    """Not tried, because the tunnel had failed too often in a row."""


@dataclass(frozen=True)
class Check:
    """One check of one trial or of one tunnel."""

    name: str
    """Short and stable, such as `outer-protocol`."""
    verdict: Verdict
    reason: str
    """In words, with the figures that decided."""
    rule: int
    """The rule of docs/methodology.md that it serves."""


def worst(checks: tuple[Check, ...]) -> Verdict:
    """The gravest verdict of all, `ok` where there are no checks."""
    return max((check.verdict for check in checks), key=lambda verdict: verdict.severity, default=Verdict.OK)


@dataclass(frozen=True)
class CpuUsage:
    """CPU time of one set of CPUs between two readings."""

    cpus: tuple[int, ...]
    wall_s: float
    """Between the readings, on the monotonic clock [s]."""
    idle_s: float
    """Idle and iowait, summed over the CPUs [s]."""
    user_s: float
    system_s: float
    softirq_s: float
    """user, system, softirq (with hard interrupts): by clock ticks, which lie on an idle CPU; indicative only [s]."""
    steal_s: float
    """Taken by the hypervisor [s]."""

    @property
    def busy_s(self) -> float:
        """wall - idle - iowait, summed over the CPUs [s]."""
        return max(0.0, self.wall_s * len(self.cpus) - self.idle_s)

    @property
    def busy_share(self) -> float:
        """busy over all time of these CPUs, 0 to 1."""
        return self.busy_s / (self.wall_s * len(self.cpus))


@dataclass(frozen=True)
class Ping:
    """The router's answers to the client through a trial."""

    sent: int
    answered: int
    worst_ms: float | None


@dataclass(frozen=True)
class Interval:
    """One reading of the series."""

    start_s: float
    end_s: float
    bytes: int
    retransmits: int | None


@dataclass(frozen=True)
class PathCounters:
    """Packets of one trial, counted from just before the traffic to just after it."""

    data_packets: int
    """TCP packets that arrived at the receiver's interface."""
    data_bytes: int
    """Bytes of those packets on the interface, Ethernet header included, FCS not."""
    ack_packets: int
    """Packets that arrived back at the sender's interface."""
    forwarded_packets: int
    """`Ip: ForwDatagrams` of the router."""
    outer_expected_packets: int
    outer_expected_bytes: int
    """On the WAN, both directions, of the protocol and port that the tunnel is to use; IP header included. The server's
    own TCP is seen here before it is cut into segments, so of plain IP the packets are fewer than on the wire."""
    outer_other_packets: int
    outer_other_bytes: int
    """On the WAN, both directions, anything else that is IP."""
    wan_packets: int
    """Frames on the WAN, both directions, as the far end's device counts them."""
    fragments_created: int
    """`Ip: FragCreates`, router, server and the tunnel's far end together."""
    reassembled: int
    """`Ip: ReasmOKs`, router, server and the tunnel's far end together."""
    dropped_packets: int
    """Drops on the interfaces of the path."""


@dataclass(frozen=True)
class CpuInterval:
    """How long the router's CPUs were busy in a part of a trial."""

    start_s: float
    end_s: float
    """Since data began to flow, negative before that [s]."""
    busy_s: float
    """Summed over the CPUs [s]."""


@dataclass(frozen=True)
class Window:
    """What was counted in a window that lies wholly inside the traffic: rates and CPU shares come from it.

    A sender's last buffer still arrives when iperf3's clock has stopped; counts from before to after the traffic hold
    it, and would make short or slow trials look busier than they were.
    """

    duration_s: float
    """Length of the window on the monotonic clock [s]."""
    data_packets: int
    ack_packets: int
    """As in PathCounters, within the window."""
    router_cpu: CpuUsage
    tester_cpu: CpuUsage
    busiest_tester_share: float
    """Share of time in which the busiest of the testers' CPUs was busy, 0 to 1; the tunnel's far end is one of them."""
    daemon_cpu_s: float | None
    """CPU time of the tunnel's processes on the router [s]; None: there are none."""
    daemon_cpu_method: str
    """`schedstat` (ns), `ticks` (10 ms) or empty."""
    router_by_cpu: tuple[CpuUsage, ...] = ()
    """As `router_cpu`, each CPU by itself; empty in records of before this was kept."""
    program_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """`daemon_cpu_s` by the name of the program [s]."""
    intervals: tuple[CpuInterval, ...] = ()
    """The router's CPUs over time, from before the traffic on; empty in records of before this was kept."""
    far_end_busy_share: float | None = None
    """Share of time in which the tunnel's far end was busy, 0 to 1, where it is a machine of its own; None: it is the
    server."""

    def busy_share_of(self, interval: CpuInterval) -> float:
        """Share of the router's CPUs that was busy in one of the intervals, 0 to 1."""
        available_s = (interval.end_s - interval.start_s) * len(self.router_cpu.cpus)
        return min(1.0, interval.busy_s / available_s)


@dataclass(frozen=True)
class Sender:
    """What the sender's kernel says of the test's connection, half-way through (tcp_info in include/uapi/linux/tcp.h).

    With several streams, of the one that had sent most.
    """

    busy_s: float
    """With data to send or not yet acknowledged [s]."""
    receiver_window_s: float
    """Of that: held back by the receiver's window [s]."""
    send_buffer_s: float
    """Of that: held back by its own send buffer [s]."""
    rtt_ms: float
    """Smoothed round trip time, queues included [ms]."""


@dataclass(frozen=True)
class TcpMeasurement:
    """The figures of one TCP trial."""

    duration_s: float
    """Timed by the receiver [s]."""
    bytes_received: int
    """TCP payload that the receiver had read when the test ended [bytes]."""
    bytes_sent: int
    """TCP payload that the sender had handed to its kernel by then; what lies between was under way [bytes]."""
    retransmits: int | None
    mss_bytes: int | None
    """Effective payload of a full segment as the sender's kernel sees it, options deducted [bytes]."""
    counters: PathCounters
    window: Window
    bracket_s: float
    """From the reading before the traffic to the one after it [s]."""
    foreign_cpu_s: float
    """CPU time of processes that are not ours on the CPUs of the testbed, over the bracket [s]."""
    ping: Ping
    physical_limit_bps: float | None
    """What the link can carry of this payload through this tunnel [bit/s]; None: no rate limit."""
    intervals: tuple[Interval, ...] = ()
    sender: Sender | None = None
    """What held the sender back; None: its kernel did not tell, or the record is of before this was kept."""

    @property
    def throughput_bps(self) -> float:
        return self.bytes_received * 8 / self.duration_s if self.duration_s else 0.0

    @property
    def data_pps(self) -> float:
        """Data packets per second."""
        return self.window.data_packets / self.window.duration_s

    @property
    def ack_pps(self) -> float:
        """Packets per second in the other direction."""
        return self.window.ack_packets / self.window.duration_s

    @property
    def carried_packets(self) -> int:
        """Packets that the router carried for this trial, data and ACKs, from before the traffic to after it."""
        return self.counters.data_packets + self.counters.ack_packets

    @property
    def carried_pps(self) -> float:
        """Packets per second that the router carried, data and ACKs."""
        return self.data_pps + self.ack_pps

    @property
    def router_busy_share(self) -> float:
        """Share of the router's CPUs that was busy, 0 to 1."""
        return self.window.router_cpu.busy_share

    @property
    def tester_busy_share(self) -> float:
        """Share of the testers' CPUs that was busy, 0 to 1."""
        return self.window.tester_cpu.busy_share

    @property
    def daemon_busy_share(self) -> float | None:
        """Time of the tunnel's processes on the router as a share of one CPU; None: there are none."""
        spent_s = self.window.daemon_cpu_s
        return None if spent_s is None else spent_s / self.window.duration_s

    @property
    def cpu_s_per_million_packets(self) -> float | None:
        """Router CPU seconds per million packets carried, ACKs counted as packets."""
        packets = self.window.data_packets + self.window.ack_packets
        return self.window.router_cpu.busy_s * 1e6 / packets if packets else None

    @property
    def cpu_s_per_gigabit(self) -> float | None:
        """Router CPU seconds per 10^9 bits of TCP payload, from the full segments counted in the window."""
        payload_bits = self.window.data_packets * (self.mss_bytes or 0) * 8
        return self.window.router_cpu.busy_s * 1e9 / payload_bits if payload_bits else None


@dataclass(frozen=True)
class TunnelProof:
    """What a tunnel was when it was up: the evidence that it is what the plan says."""

    checks: tuple[Check, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    """Program and crypto library at each end: `router.openvpn`, `server.openvpn`, `router.openssl`, ..."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Rendered configuration files and command lines, secrets left out, by end and name."""
    inner_mtu_bytes: int | None = None
    raw: Mapping[str, str] = field(default_factory=dict)
    """Output of the programs that were asked."""


@dataclass(frozen=True)
class TrialRecord:
    """One row of the store: a planned trial and what became of it."""

    spec: TrialSpec
    outcome: Outcome
    reason: str
    """Why there is no figure; empty where there is one."""
    started_at: str
    ended_at: str
    """UTC, ISO 8601."""
    checks: tuple[Check, ...] = ()
    tcp: TcpMeasurement | None = None
    proof: TunnelProof | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    """Tool output as it came: iperf3's JSON of both ends, ping, counters before and after."""
    waited_for_quiet_s: float | None = None
    """How long other load held the trial up before it started [s]; None: not known, or it never came to that."""
    udp: UdpMeasurement | None = None
    """The figures of a UDP trial, `tcp` those of a TCP trial."""

    @property
    def verdict(self) -> Verdict:
        """The trial's class; a trial without a figure is void."""
        return worst(self.checks) if self.outcome is Outcome.MEASURED else Verdict.VOID

    @property
    def counts(self) -> bool:
        """Whether its figure goes into the statistics."""
        has_figure = self.tcp is not None or self.udp is not None
        return self.outcome is Outcome.MEASURED and has_figure and self.verdict is not Verdict.VOID


@dataclass(frozen=True)
class RunRecord:
    """One run: what was asked, where, and on what machine."""

    run_id: str
    started_at: str
    ended_at: str | None
    """UTC, ISO 8601; None while it runs, or where it was killed."""
    status: str
    """`running`, `done`, `interrupted`, `failed`, `killed`; `imported`: measured elsewhere."""
    plan_name: str
    plan_title: str
    plan_text: str
    """The plan as TOML, `--set` applied."""
    testbed_name: str
    testbed_text: str
    host_facts: Mapping[str, Any]
    """Kernel, CPU, memory, versions; what the figures were taken on."""
    trials_planned: int
    trials_recorded: int
    tunnelbench_version: str
    speeds_recorded: int | None = None
    """How many speeds of ciphers are stored; None: none was to be measured."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the whole run, such as too few CPUs."""
