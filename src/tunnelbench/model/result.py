"""The results of a run: checks, figures of TCP trials, and records as they are stored.

Counts are stored as integers (or seconds of CPU time); rates and shares are properties that follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from tunnelbench.model.conditions import USUAL_WRITE_BYTES, least_filled_share
from tunnelbench.model.counters import PathCounters, Ping, Window
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.toml_text import known_values
from tunnelbench.model.udp import UdpMeasurement


class Verdict(StrEnum):
    """The verdict of a check, from harmless to fatal."""

    OK = "ok"
    NOTE = "note"
    DOUBTFUL = "doubtful"
    VOID = "void"

    @property
    def severity(self) -> int:
        return _SEVERITIES[self]


_SEVERITIES = {verdict: place for place, verdict in enumerate(Verdict)}


class Outcome(StrEnum):
    """The outcome of a planned trial."""

    MEASURED = "measured"
    """The trial was timed; its class states how reliable the figure is."""
    VOID = "void"
    """The trial started, and ended without a valid figure."""
    REFUSED = "refused"
    """The tunnel did not come up, or failed its proof, and was not timed."""
    UNAVAILABLE = "unavailable"
    """This machine cannot run the trial: a program, a kernel feature or an adapter is missing."""
    GIVEN_UP = "given-up"
    """The trial was not started, because the tunnel had failed too often in a row."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one trial or of one tunnel."""

    name: str
    """Name, short and stable, such as `outer-protocol`."""
    verdict: Verdict
    reason: str
    """Reason for the verdict in words, with the figures that it follows from."""
    rule: int
    """Number of its rule in docs/methodology.md."""


def worst(checks: tuple[Check, ...]) -> Verdict:
    """Return the most serious verdict of all checks; `ok` if there are none."""
    return max({check.verdict for check in checks}, key=_SEVERITIES.__getitem__, default=Verdict.OK)


def reasons_of_void(checks: tuple[Check, ...]) -> tuple[str, ...]:
    """Return the reasons of the checks whose verdict is void."""
    return tuple(check.reason for check in checks if check.verdict is Verdict.VOID)


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval of iperf3's series."""

    start_s: float
    end_s: float
    bytes: int
    retransmits: int | None


@dataclass(frozen=True, slots=True)
class Sender:
    """The connection of the test in the sender's kernel, in the middle of the test (tcp_info in
    include/uapi/linux/tcp.h).

    With several streams, the figures are those of the stream that had sent most.
    """

    busy_s: float
    """Time in which the sender had data that were not sent or not acknowledged [s]."""
    receiver_window_s: float
    """Part of `busy_s` in which the receiver's window limited the sender [s]."""
    send_buffer_s: float
    """Part of `busy_s` in which the send buffer limited the sender [s]."""
    rtt_ms: float
    """Smoothed round trip time, queues included [ms]."""

    @property
    def buffer_shares(self) -> dict[str, float]:
        """Share of `busy_s` in which a buffer of a tester limited the sender, 0 to 1, by the name of the buffer."""
        if not self.busy_s:
            return {}
        return {
            "receiver's window": self.receiver_window_s / self.busy_s,
            "send buffer": self.send_buffer_s / self.busy_s,
        }


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """The part of one client in a TCP trial of a server with several clients."""

    duration_s: float
    """Duration of the client's test by the receiver's clock [s]."""
    bytes_received: int
    bytes_sent: int
    """TCP payload, as in TcpMeasurement [bytes]."""
    retransmits: int | None

    @property
    def throughput_bps(self) -> float:
        return self.bytes_received * 8 / self.duration_s if self.duration_s else 0.0


def jain_index(rates: Sequence[float]) -> float | None:
    """Return Jain's fairness index of rates: 1 if all are equal, 1/n if one of n has everything; None: no rate.

    It is the square of the sum, divided by n times the sum of the squares (R. Jain, D. Chiu, W. Hawe: A quantitative
    measure of fairness, DEC-TR-301, 1984).
    """
    total = sum(rates)
    if not total:
        return None
    shares = [rate / total for rate in rates]
    return 1 / (len(shares) * sum(share**2 for share in shares))


CONTROL_PACKETS = 60
"""Largest number of packets that iperf3's control connection, ARP and similar traffic may add to a trial's counters."""

PACKET_TOLERANCE = 0.02
"""Largest relative deviation of a packet count from the count that follows from the payload (rule 16)."""

OVER_LIMIT_TOLERANCE = 0.005
"""Share by which a figure may exceed the limit of its link: old iperf also counts buffered data (rule 17)."""

LINE_SPEED_TOLERANCE = 0.01
"""Share by which a figure at line speed may be below the limit of its link (rule 17)."""

FULL_CPU_SHARE = 0.95
"""A CPU that is busy for at least this share of the time counts as full (rule 6)."""

PACED_SHARE = 0.95
"""A TCP trial at a rate of the plan counts as having carried that rate if it reached at least this share of it."""

BUFFER_LIMITED_SHARE = 0.5
"""Smallest share of the sender's busy time in which the receiver's window or the send buffer limits it that makes this
buffer the limit of the trial (rule 6)."""

APPLICATION_LIMITED_SHARE = 0.2
"""Share of the time; if data was in flight for less than it, the sending program limited the TCP trial (rule 7)."""


@dataclass(frozen=True, slots=True)
class TcpMeasurement:
    """The figures of one TCP trial."""

    duration_s: float
    """Duration of the test by the receiver's clock [s]."""
    bytes_received: int
    """TCP payload that the receiver had read when the test ended [bytes]."""
    bytes_sent: int
    """TCP payload that the sender had handed to its kernel by then; the difference was in transit [bytes]."""
    retransmits: int | None
    mss_bytes: int | None
    """Effective payload of a full segment as the sender's kernel sees it, options deducted [bytes]."""
    counters: PathCounters
    window: Window
    bracket_s: float
    """Time from the reading before the traffic to the one after it [s]."""
    foreign_cpu_s: float
    """CPU time of background load on the CPUs of the testbed during `bracket_s` [s]."""
    ping: Ping
    physical_limit_bps: float | None
    """Largest throughput of this payload that the link can carry through this tunnel [bit/s]; None: the link has no
    limit."""
    intervals: tuple[Interval, ...] = ()
    sender: Sender | None = None
    """State of the sender; None: its kernel did not report it."""
    clients: tuple[ClientCounts, ...] = ()
    """Part of each client, if the tunnel's server has clients in place of one fixed peer; the figures of the trial are
    their sums."""

    @property
    def client_shares(self) -> tuple[float, ...]:
        """Share of each client in the sum of the clients' throughputs, 0 to 1; empty if there are no clients."""
        rates_bps = [client.throughput_bps for client in self.clients]
        total_bps = sum(rates_bps)
        return tuple(rate_bps / total_bps for rate_bps in rates_bps) if total_bps else ()

    @property
    def jain_index(self) -> float | None:
        """Jain's index of the clients' throughputs; None: there are no clients."""
        return jain_index([client.throughput_bps for client in self.clients])

    @property
    def throughput_bps(self) -> float:
        return self.bytes_received * 8 / self.duration_s if self.duration_s else 0.0

    @property
    def sender_busy_share(self) -> float | None:
        """Share of the time until half-way in which the sender had data in flight, 0 to 1; None: unknown."""
        if self.sender is None or not self.duration_s:
            return None
        return min(1.0, self.sender.busy_s / (self.duration_s / 2))

    @property
    def data_pps(self) -> float:
        """Data packets per second."""
        return self.window.data_packets / self.window.duration_s

    def data_packet_bounds(self, write_bytes: int = USUAL_WRITE_BYTES) -> tuple[float, float] | None:
        """Return the least and the largest number of data packets that the payload takes (rule 16).

        None: the trial has no throughput. The counters include packets that arrive after iperf3's clock has stopped.
        So the count lies between the packets that the receiver read and those that the sender sent, retransmissions
        included. Segments are at least as full as writes of `write_bytes` make them.
        """
        if not self.mss_bytes or not self.bytes_received:
            return None
        full = max(self.bytes_sent, self.bytes_received) / self.mss_bytes
        most = full / least_filled_share(write_bytes, self.mss_bytes) + (self.retransmits or 0)
        return self.bytes_received / self.mss_bytes, most

    def has_possible_packets(self, write_bytes: int = USUAL_WRITE_BYTES) -> bool:
        """Return True if the counted data packets are within `data_packet_bounds`, or there are no bounds (rule 16)."""
        if (bounds := self.data_packet_bounds(write_bytes)) is None:
            return True
        least, most = bounds
        packets = self.counters.data_packets
        return least * (1 - PACKET_TOLERANCE) <= packets <= most * (1 + PACKET_TOLERANCE) + CONTROL_PACKETS

    @property
    def ack_pps(self) -> float:
        """Packets per second in the other direction."""
        return self.window.ack_packets / self.window.duration_s

    @property
    def carried_packets(self) -> int:
        """Packets that the router carried for this trial, data and ACKs, from before to after the traffic
        (`bracket_s`)."""
        return self.counters.data_packets + self.counters.ack_packets

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
        return self.window.daemon_busy_share

    @property
    def cpu_s_per_million_packets(self) -> float | None:
        """Router CPU seconds per million packets carried, ACKs counted as packets."""
        return self.window.cpu_s_per_million_packets

    @property
    def cpu_s_per_gigabit(self) -> float | None:
        """Router CPU seconds per 10^9 bits of TCP payload, from the full segments counted in the window."""
        payload_bits = self.window.data_packets * (self.mss_bytes or 0) * 8
        return self.window.router_cpu.busy_s * 1e9 / payload_bits if payload_bits else None


Measurement = TcpMeasurement | UdpMeasurement
"""The figures of one trial. A soak has a UdpMeasurement without counts: its series is stored in tables of its own."""


GENERATORS = ("iperf3", "tunnelbench-engine")
"""Programs that make the traffic, as `TunnelProof.versions` names them."""


@dataclass(frozen=True)
class TunnelProof:
    """The evidence that a running tunnel has the kind, cipher and digest that the plan names."""

    checks: tuple[Check, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    """Program and crypto library at each end: `router.openvpn`, `router.openssl`, ...; also `client.iperf3`, ..."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Rendered configuration files and command lines, secrets left out, by end and name."""
    inner_mtu_bytes: int | None = None
    is_encrypted: bool | None = None
    """True if the running tunnel has a cipher. The check `payload-pattern` shows that it hides the payload. None:
    unknown."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """Output of the programs that the proof queried."""


@dataclass(frozen=True)
class TrialRecord:
    """One row of the store: a planned trial and its result."""

    spec: TrialSpec
    outcome: Outcome
    reason: str
    """Reason for which there is no figure; empty if there is one."""
    started_at: str
    ended_at: str
    """UTC, ISO 8601."""
    checks: tuple[Check, ...] = ()
    measurement: Measurement | None = None
    """The figures; None: the trial has none."""
    proof: TunnelProof | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)
    """Unchanged output of the tools: iperf3's JSON of both ends, ping, counters before and after."""
    waited_for_quiet_s: float | None = None
    """Time that the trial waited for background load to end [s]; None: unknown, or the trial did not start."""

    @property
    def tcp(self) -> TcpMeasurement | None:
        """The figures of a TCP trial; None: the trial is of another kind, or has no figures."""
        return self.measurement if isinstance(self.measurement, TcpMeasurement) else None

    @property
    def udp(self) -> UdpMeasurement | None:
        """The figures of a UDP trial or a soak; None: the trial is of another kind, or has no figures."""
        return self.measurement if isinstance(self.measurement, UdpMeasurement) else None

    @cached_property
    def verdict(self) -> Verdict:
        """The trial's class; a trial without a figure is void."""
        return worst(self.checks) if self.outcome is Outcome.MEASURED else Verdict.VOID

    @property
    def has_failed(self) -> bool:
        """True if the trial was tried and is void, by an error or by a check."""
        return self.verdict is Verdict.VOID and self.outcome not in {Outcome.UNAVAILABLE, Outcome.GIVEN_UP}

    @property
    def void_reasons(self) -> tuple[str, ...]:
        """Reasons why the trial has no valid figure; empty if it has one."""
        return (self.reason,) if self.reason else reasons_of_void(self.checks)

    @cached_property
    def counts(self) -> bool:
        """True if the figures of the trial are part of the statistics."""
        has_figure = self.measurement is not None
        return self.outcome is Outcome.MEASURED and has_figure and self.verdict is not Verdict.VOID


SIMULATED = "simulated"
"""Name of the check that each simulated trial has, and of the fact that each simulated run has."""

RUNNING = "running"
"""Status of a run that a process is measuring, or was measuring when the process was killed."""

NO_VALID_FIGURE = "no trial gave a valid figure"
"""Beginning of the message of a run of which all trials are stored and none counts, and the remark of its job."""

RESUME_HINT = "hint: tunnelbench run --resume"
"""Beginning of the line that says how to continue a run that ended early."""

IMPORTED = "imported"
"""Status of a run that was measured on another machine and imported."""


@dataclass(frozen=True)
class RunRecord:
    """One run: its plan, its testbed and its machine."""

    run_id: str
    started_at: str
    ended_at: str | None
    """UTC, ISO 8601; None while the run lasts, or if it was killed."""
    status: str
    """`running`, `done`, `interrupted`, `failed`, `killed`; `imported`: measured elsewhere."""
    plan_name: str
    plan_title: str
    plan_text: str
    """The plan as TOML, `--set` applied."""
    testbed_name: str
    testbed_text: str
    host_facts: Mapping[str, Any]
    """Facts of the machine: kernel, CPU, memory, versions."""
    trials_planned: int
    trials_recorded: int
    tunnelbench_version: str
    speeds_recorded: int | None = None
    """Number of cipher speeds that are stored; None: the plan asks for none."""
    notes: tuple[str, ...] = ()
    """Notes on the whole run, such as too few CPUs."""

    @property
    def is_simulated(self) -> bool:
        """True if a model drew the figures, and nothing was measured."""
        if SIMULATED in self.host_facts:
            return True
        # Most texts lack the word, and need not be parsed.
        return SIMULATED in self.testbed_text and known_values(self.testbed_text).get("kind") == SIMULATED


def has_foreign_load(checks: Iterable[Check]) -> bool:
    """Return True if background load makes a trial void (rule 12)."""
    return any(check.name == "foreign-load" and check.verdict is Verdict.VOID for check in checks)
