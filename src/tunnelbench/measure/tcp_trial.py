"""TCP trials: everything is read just before the traffic and just after it, so that nothing falls between."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import Host
from tunnelbench.host.procfs import all_processes
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import check_calibration, check_sampling, check_trial, sharing
from tunnelbench.measure.companion import Companion, OnSecond, TrafficPath, path_through
from tunnelbench.measure.counters import (
    HostCounters,
    data_shares,
    direct_counters,
    direct_place,
    path_counters,
    place_of,
    read_host,
    read_path,
)
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import tcp_limit_bps
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TcpTraffic, TrialSpec
from tunnelbench.model.result import Check, PathCounters, Ping, Sender, TcpMeasurement, TrialRecord, Window
from tunnelbench.model.text import printable
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.testbed.base import BackToBack, Testbed
from tunnelbench.traffic import iperf3, ping
from tunnelbench.tunnel.base import Tunnel

TAIL_S = 3.0
"""What the far iperf3 may take to print after the near one has ended."""


@dataclass(frozen=True)
class Offered:
    """What one iperf3 test left."""

    result: iperf3.Iperf3Result
    mss_bytes: int | None
    sender: Sender | None
    window: Window
    bracket_s: float
    foreign: dict[str, float]
    """CPU seconds of other people's processes on the testbed's CPUs, by name."""
    ping: Ping
    raw: dict[str, Any]
    sampling_cost_s: float | None = None
    """As `Companion.sampling_cost_s`."""


def offer_tcp(
    testbed: Testbed, path: TrafficPath, spec: TrialSpec, traffic: TcpTraffic, on_second: OnSecond
) -> Offered:
    """Run one iperf3 test over a path, the router pinged from the LAN beside it.

    Raises TrialFailed, with the reason in words and what the programs printed, when it ends without a figure.
    """
    programs: dict[str, Daemon] = {f"router_{daemon.name}": daemon for daemon in path.router_daemons}
    programs |= {f"server_{daemon.name}": daemon for daemon in path.server_daemons}
    companion = Companion(testbed, path, traffic.duration_s, on_second)
    try:
        return _offer_tcp(companion, spec, traffic, programs)
    except TrialFailed as error:
        error.raw = {name: iperf3.without_host_name(daemon.output(LOG_KEPT_BYTES)) for name, daemon in programs.items()}
        raise
    finally:
        companion.close()


LOG_KEPT_BYTES = 20_000
"""Of a program's output, from its end, when a trial has failed."""


def _offer_tcp(companion: Companion, spec: TrialSpec, traffic: TcpTraffic, programs: dict[str, Daemon]) -> Offered:
    """As `offer_tcp`; each program that is started is added to `programs`."""
    testbed, path = companion.testbed, companion.path
    cpus = cpu.cpus_here(*testbed.hosts)
    processes_before = all_processes()
    started_s = time.monotonic()
    with ExitStack() as stack:
        server = _start(stack, testbed.server, iperf3.server_command(path.server_address, traffic.interval_s))
        programs["iperf3_server"] = server
        _wait_until_listening(testbed.server, server)
        pinger = programs["ping"] = _start(stack, testbed.client, ping.command(testbed.addresses.router_lan))
        client_argv = iperf3.client_command(path.server_address, traffic, spec.payload_bytes, spec.direction)
        companion.wait_for_lead()
        client = programs["iperf3_client"] = _start(stack, testbed.client, client_argv)
        companion.accompany(client)
        server.wait(TAIL_S)
        pinger.interrupt()
        pinger.wait(1)
        path.require_daemons()
    bracket_s = time.monotonic() - started_s
    foreign = cpu.foreign_by_name(processes_before, all_processes(), cpus)
    return Offered(
        result=iperf3.parse(client.output(), server.output(), spec.direction),
        mss_bytes=parse_mss(companion.sockets, spec.payload_bytes),
        sender=parse_sender(companion.sockets, spec.payload_bytes),
        window=companion.window(),
        bracket_s=bracket_s,
        foreign=foreign,
        ping=ping.parse(pinger.output(), interrupted=True),
        raw={
            "iperf3_client": iperf3.without_host_name(client.output()),
            "iperf3_server": iperf3.without_host_name(server.output()),
            "iperf3_command": " ".join(client_argv),
            "ping": pinger.output(),
            "ss": companion.sockets,
            "foreign_cpu_s": foreign,
            **companion.sampled,
        },
        sampling_cost_s=companion.sampling_cost_s,
    )


def measurement(offered: Offered, counters: PathCounters, physical_limit_bps: float | None) -> TcpMeasurement:
    """The figures of a trial, from its traffic and the path's counters."""
    return TcpMeasurement(
        duration_s=offered.result.duration_s,
        bytes_received=offered.result.bytes_received,
        bytes_sent=offered.result.bytes_sent,
        retransmits=offered.result.retransmits,
        mss_bytes=offered.mss_bytes,
        counters=counters,
        window=offered.window,
        bracket_s=offered.bracket_s,
        foreign_cpu_s=sum(offered.foreign.values()),
        ping=offered.ping,
        physical_limit_bps=physical_limit_bps,
        intervals=offered.result.intervals,
        sender=offered.sender,
    )


@dataclass(frozen=True)
class TrialFindings:
    """A measurement, its checks, and the raw output behind them."""

    tcp: TcpMeasurement | None
    checks: tuple[Check, ...]
    raw: dict[str, Any]
    udp: UdpMeasurement | None = None


class TrialMeter:
    """Measures TCP trials through tunnels that are up and proven, knowing what the testers can do at most."""

    def __init__(self, testbed: Testbed, traffic: TcpTraffic, on_second: OnSecond) -> None:
        self.testbed = testbed
        self.traffic = traffic
        self.on_second = on_second
        self._testers_bps: dict[tuple[int, Direction], float] = {}
        """Throughput of the testers back to back, by payload and direction [bit/s]."""

    def calibrate(self, spec: TrialSpec, link: BackToBack) -> TrialFindings:
        """One trial of the testers alone (rule 6); errors as `offer_tcp`."""
        place = direct_place(link, spec.direction)
        before = read_host(self.testbed.client), read_host(self.testbed.server)
        path = TrafficPath(link.client_address, link.server_address, place)
        offered = offer_tcp(self.testbed, path, spec, self.traffic, self.on_second)
        after = read_host(self.testbed.client), read_host(self.testbed.server)
        tcp = measurement(offered, direct_counters(before, after, place), None)
        checks = check_calibration(spec, tcp, offered.foreign)
        raw = offered.raw | {"counters_before": _plain(before), "counters_after": _plain(after)}
        return TrialFindings(tcp, checks, raw)

    def remember(self, record: TrialRecord) -> None:
        """Take what a calibration found as the testers' limit, unless it is void; other records are passed over."""
        if record.spec.tunnel.kind == CALIBRATION_KIND and record.counts and record.tcp:
            self._testers_bps[record.spec.payload_bytes, record.spec.direction] = record.tcp.throughput_bps

    def measure(self, spec: TrialSpec, tunnel: Tunnel[Any]) -> TrialFindings:
        """One trial through a tunnel; errors as `offer_tcp`."""
        testbed = self.testbed
        place = place_of(testbed, tunnel, spec.direction)
        path = path_through(testbed, tunnel, place)
        said_before, asked_before = tunnel.log_sizes(), len(tunnel.keep_alives())
        before = read_path(testbed)
        offered = offer_tcp(testbed, path, spec, self.traffic, self.on_second)
        after = read_path(testbed)
        limit_bps = _limit_bps(testbed, tunnel, spec.direction, offered.mss_bytes or spec.payload_bytes)
        tcp = measurement(offered, path_counters(before, after, place), limit_bps)
        checks = check_trial(
            spec,
            tcp,
            outer=str(tunnel.outer),
            exact_outer_packets=tunnel.has_exact_outer_packets,
            foreign=offered.foreign,
            router_cpu_doubt=router_cpu_doubt(testbed, tunnel),
            testers_bps=self._testers_bps.get((spec.payload_bytes, spec.direction)),
            restart=tunnel.restart_since(said_before),
            keep_alives=tunnel.keep_alives()[asked_before:],
            has_own_router=testbed.has_own_router,
            counted_bytes=tunnel.counted_bytes,
        )
        checks += sharing(data_shares(before, after, place))
        if offered.sampling_cost_s is not None:
            checks = (*checks, check_sampling(offered.sampling_cost_s, offered.bracket_s))
        raw = offered.raw | {"counters_before": asdict(before), "counters_after": asdict(after)}
        return TrialFindings(tcp, checks, raw)


def blaming_restart(tunnel: Tunnel[Any], trial: Callable[[], TrialFindings]) -> TrialFindings:
    """Carry out a trial; where it fails and the tunnel has begun anew or was lost meanwhile, that is told as well."""
    said_before = tunnel.log_sizes()
    try:
        return trial()
    except TrialFailed as error:
        if restart := tunnel.restart_since(said_before):
            error.args = (f"{error}; {printable(restart)}",)
        raise


def router_cpu_doubt(testbed: Testbed, tunnel: Tunnel[Any]) -> str:
    """Why the router's busy time may not be the router's alone; empty where it is."""
    if testbed.has_own_router:
        return ""
    if {*testbed.router.cpus} & {*testbed.client.cpus, *testbed.server.cpus}:
        return "router and testers share one CPU, so its busy time is both's"
    if tunnel.works_on_all_cpus:
        return "the kernel spreads this tunnel's work over all CPUs, so the router's part cannot be told apart"
    return ""


def _plain(hosts: tuple[HostCounters, HostCounters]) -> dict[str, Any]:
    return {"client": asdict(hosts[0]), "server": asdict(hosts[1])}


def _start(stack: ExitStack, host: Host, argv: list[str]) -> Daemon:
    daemon = host.start(argv)
    stack.callback(daemon.stop)
    return daemon


def warm_up(testbed: Testbed, traffic: TcpTraffic) -> None:
    """A short transfer each way that is not timed: paths, ARP and CPU clocks settle (rule 23)."""
    for direction in traffic.direction:
        with ExitStack() as stack:
            server = _start(stack, testbed.server, iperf3.server_command(testbed.addresses.target, traffic.interval_s))
            _wait_until_listening(testbed.server, server)
            argv = iperf3.client_command(testbed.addresses.target, traffic, max(traffic.payload_bytes), direction)
            position = argv.index("--time")
            argv[position : position + 2] = ["--bytes", WARM_UP_BYTES]
            _start(stack, testbed.client, argv).wait(WARM_UP_LIMIT_S)


LISTEN_LIMIT_S = 10.0
"""For iperf3's server to start; 3 s were too few in an emulated guest on a busy machine."""

WARM_UP_BYTES = "4M"
WARM_UP_LIMIT_S = 3.0


def _wait_until_listening(host: Host, server: Daemon) -> None:
    """iperf3 says nothing before its test with --json: its socket tells that it listens."""
    listening = f":{iperf3.PORT:04X} 00000000:0000 0A"
    deadline = time.monotonic() + LISTEN_LIMIT_S
    while listening not in host.read("/proc/net/tcp"):
        if not server.is_running or time.monotonic() > deadline:
            raise TrialFailed(f"iperf3's server does not listen: {server.last_line()}")
        time.sleep(0.01)  # the server may have to start on this very CPU


def parse_mss(sockets: str, payload_bytes: int) -> int | None:
    """The segment payload of the test's connection from `ss -tinO`, options deducted (tcp_info.tcpi_snd_mss).

    None: it is not there. `payload_bytes` is what was asked for.
    """
    return _mss(_test_connection(sockets, payload_bytes))


def parse_sender(sockets: str, payload_bytes: int) -> Sender | None:
    """What held the test's connection back, from `ss -tinO`, which leaves out what is zero; None: it is not there."""
    line = _test_connection(sockets, payload_bytes)
    rtt = re.search(r"\brtt:([\d.]+)", line)
    if rtt is None:
        return None

    def seconds(name: str) -> float:
        found = re.search(rf"\b{name}:(\d+)ms", line)
        return int(found[1]) / 1000 if found else 0.0

    return Sender(
        busy_s=seconds("busy"),
        receiver_window_s=seconds("rwnd_limited"),
        send_buffer_s=seconds("sndbuf_limited"),
        rtt_ms=float(rtt[1]),
    )


def _test_connection(sockets: str, payload_bytes: int) -> str:
    """The line of `ss -tinO` for the connection that carries the test; empty where there is none.

    Of iperf3's connections it is the one that sent most bytes; the other is its control connection, which may be all
    that is left when a starved `ss` comes too late: segments larger than those asked for are not the test's.
    """
    sent = [
        (int(found[1]), line)
        for line in sockets.splitlines()
        if f":{iperf3.PORT}" in line and (found := re.search(r"\bbytes_sent:(\d+)", line))
    ]
    line = max(sent)[1] if sent else ""
    return "" if (_mss(line) or 0) > payload_bytes else line


def _mss(line: str) -> int | None:
    found = re.search(r"\bmss:(\d+)", line)
    return int(found[1]) if found else None


def _limit_bps(testbed: Testbed, tunnel: Tunnel[Any], direction: Direction, payload_bytes: int) -> float | None:
    link = testbed.spec.link
    rate_mbps = link.rate_in_mbps if direction is Direction.IN else link.rate_out_mbps
    if rate_mbps is None or tunnel.compresses:
        return None
    return tcp_limit_bps(rate_mbps, payload_bytes, tunnel.wire_bytes, link.mtu_bytes)
