"""Measures TCP trials with iperf3, and reads the state of the connection from the sender's kernel."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host
from tunnelbench.host.receive_window import limited_receive_window
from tunnelbench.measure.checks import TrialContext, check_trial
from tunnelbench.measure.generator_checks import iperf3_figures, iperf3_settings
from tunnelbench.measure.meter import Judged, Offered, TrafficMeter
from tunnelbench.measure.trial_monitor import OnSecond, TrafficPath, TrialMonitor, keeping_output
from tunnelbench.model.counters import PathCounters, Window
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.frames import tcp_limit_bps, tcp_packet_bytes
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, TcpTraffic, TrialSpec
from tunnelbench.model.result import ClientCounts, Sender, TcpMeasurement, TrialRecord
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import iperf3, ping
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.versions import version_of

TAIL_S = 3.0
"""Time that iperf3's server may take to print its results after the client has ended [s]."""

PRINTED_BYTES_PER_S = 5e6
"""Rate at which a slow tester prints results [bytes/s]."""


@dataclass(kw_only=True)
class OfferedTcp(Offered):
    """The results of one iperf3 test."""

    result: iperf3.Iperf3Result
    mss_bytes: int | None
    sender: Sender | None
    window: Window
    clients: tuple[ClientCounts, ...] = ()
    """Counts of each client, if the tunnel's server has several."""


class TcpMeter(TrafficMeter[OfferedTcp]):
    """Measures TCP trials. It keeps the throughput of the testers without a router, for later checks.

    Raises CannotHere if a tester's kernel lacks the plan's congestion control.
    """

    def __init__(self, testbed: Testbed, traffic: TcpTraffic, on_second: OnSecond) -> None:
        super().__init__(testbed, on_second)
        self.traffic = traffic
        self._testers_bps: dict[tuple[int, Direction], float] = {}
        """Throughput of the testers without a router [bit/s], by payload and direction."""
        for tester in (testbed.client, testbed.server):
            if not tester.has_congestion_control(traffic.congestion_control):
                raise CannotHere(
                    f"the {tester.name}'s kernel has no TCP congestion control {traffic.congestion_control} "
                    "(tcp.congestion_control)",
                    "sysctl net.ipv4.tcp_available_congestion_control lists the available ones",
                )

    def remember(self, record: TrialRecord) -> None:
        if record.spec.tunnel.kind == CALIBRATION_KIND and record.counts and record.tcp:
            self._testers_bps[record.spec.payload_bytes, record.spec.direction] = record.tcp.throughput_bps

    def warm_up(self, tunnel: Tunnel[Any]) -> None:
        for device in tunnel.client_devices or ("",):
            warm_up(self.testbed, tunnel, self.traffic, device)

    def versions(self) -> Mapping[str, str]:
        testers = (self.testbed.client, self.testbed.server)
        return {f"{host.name}.iperf3": version_of(host, ["iperf3", "--version"], r"^iperf (\S+)") for host in testers}

    def offer(self, spec: TrialSpec, path: TrafficPath) -> OfferedTcp:
        """Run one iperf3 test over a path, or one of each client; the client pings the router at the same time."""
        programs: dict[str, Daemon] = {}
        devices = tuple(path.client_devices) or ("",)
        ports = range(iperf3.IPERF3_PORT, iperf3.IPERF3_PORT + len(devices))
        load = f"{float(spec.load) / len(devices):.9g}" if spec.load else ""
        monitor = TrialMonitor(self.testbed, path, self.traffic.duration_s, self.on_second)
        with closing(monitor), keeping_output(programs), ExitStack() as stack:
            servers = [_start_server(stack, self.testbed, path.server_address, self.traffic, port) for port in ports]
            programs |= _numbered("iperf3_server", servers)
            pinger = self.testbed.client.start(ping.command(self.testbed.addresses.router_lan))
            stack.callback(pinger.stop)
            programs["ping"] = pinger
            commands = [
                iperf3.client_command(
                    path.server_address,
                    self.traffic,
                    spec.payload_bytes,
                    spec.direction,
                    load,
                    port=port,
                    device=device,
                    content=path.content,
                    window_bytes=spec.tunnel.conditions.window_bytes,
                    write_bytes=spec.tunnel.conditions.write_bytes,
                )
                for port, device in zip(ports, devices, strict=True)
            ]
            monitor.wait_for_lead()
            clients, started_at_s = [], []
            for argv in commands:
                started_at_s.append(time.monotonic())
                clients.append(_start_iperf3(stack, self.testbed.client, argv))
            programs |= _numbered("iperf3_client", clients)
            if self.testbed.receive_window_bytes is not None:
                pids = [daemon.pid for daemon in (*clients, *servers)]
                stack.enter_context(limited_receive_window(pids, self.testbed.receive_window_bytes))
            monitor.accompany(clients[0], *clients[1:], *servers)
            for daemon in (*clients[1:], *servers):
                daemon.wait(TAIL_S + self.traffic.result_bytes / PRINTED_BYTES_PER_S)
            pinger.interrupt()
            pinger.wait(1)
            path.require_daemons()
            results = []
            for client, server in zip(clients, servers, strict=True):
                require_not_killed(client=client, server=server)
                results.append(iperf3.parse(client.output(), server.output(), spec.direction))
                require_data(results[-1])
            return OfferedTcp(
                result=iperf3.together(results, parse_starts(monitor.sockets, ports) or started_at_s),
                clients=tuple(map(_counts_of, results)) if path.client_devices else (),
                mss_bytes=parse_mss(monitor.sockets, spec.payload_bytes),
                sender=parse_sender(monitor.sockets, spec.payload_bytes),
                window=monitor.window(),
                ping=ping.parse(pinger.output(), interrupted=True),
                raw={
                    **{name: iperf3.for_store(each.output()) for name, each in programs.items() if each is not pinger},
                    "iperf3_command": "\n".join(map(" ".join, commands)),
                    "ping": pinger.output(),
                    "ss": monitor.sockets,
                    **monitor.sampled,
                },
                sampling=monitor.sampling,
                misplaced=monitor.misplaced,
                quota_files=monitor.quota_files,
            )

    def judge(self, spec: TrialSpec, offered: OfferedTcp, counters: PathCounters, context: TrialContext) -> Judged:
        limit_bps, link_mbps = None, context.link_mbps_over(offered.result.duration_s)
        if link_mbps is not None:
            payload_bytes = offered.mss_bytes or spec.payload_bytes
            mtu_bytes = self.testbed.spec.link.mtu_bytes
            limit_bps = tcp_limit_bps(
                link_mbps, payload_bytes, context.wire_bytes, mtu_bytes, context.inner_header_bytes
            )
        tcp = TcpMeasurement(
            duration_s=offered.result.duration_s,
            bytes_received=offered.result.bytes_received,
            bytes_sent=offered.result.bytes_sent,
            retransmits=offered.result.retransmits,
            mss_bytes=offered.mss_bytes,
            counters=counters,
            window=offered.window,
            bracket_s=context.bracket_s,
            foreign_cpu_s=context.foreign_cpu_s,
            ping=offered.ping,
            physical_limit_bps=limit_bps,
            intervals=offered.result.intervals,
            sender=offered.sender,
            clients=offered.clients,
        )
        checks = check_trial(spec, tcp, context, self._testers_bps.get((spec.payload_bytes, spec.direction)))
        load = spec.load and f"{float(spec.load) / max(1, len(offered.clients)):.9g}"
        sizes = spec.tunnel.conditions
        planned = iperf3.planned_settings(
            self.traffic,
            spec.payload_bytes,
            spec.direction,
            load,
            window_bytes=sizes.window_bytes,
            write_bytes=sizes.write_bytes,
        )
        settings = iperf3_settings(planned, offered.result.settings)
        counted_bytes = context.counted_bytes(tcp_packet_bytes(spec.payload_bytes, context.inner_header_bytes))
        figures = iperf3_figures(tcp, self.traffic.duration_s, sizes.write_bytes, counted_bytes - spec.payload_bytes)
        return tcp, (*checks, figures, settings)


def _numbered(name: str, daemons: Sequence[Daemon]) -> dict[str, Daemon]:
    """Return programs by a name; that of the second and each further program ends with its number."""
    return {f"{name}_{number}" if number > 1 else name: each for number, each in enumerate(daemons, start=1)}


def _counts_of(result: iperf3.Iperf3Result) -> ClientCounts:
    return ClientCounts(result.duration_s, result.bytes_received, result.bytes_sent, result.retransmits)


def require_data(result: iperf3.Iperf3Result) -> None:
    """Raise TrialFailed if a test transferred nothing, although its connection was made."""
    if not result.bytes_received:
        raise TrialFailed(
            f"iperf3 received 0 bytes in {result.duration_s:.1f} s: its connection was made, but no packet of full size"
            " arrived, as if the path carried only smaller ones (MTU)"
        )


def require_not_killed(**programs: Daemon) -> None:
    """Raise TrialFailed if a signal ended one of the programs; each keyword is the name of a host."""
    for host, program in programs.items():
        if program.killed_by == signal.SIGXFSZ.name:
            raise TrialFailed(f"{program.name} on the {host} was ended: {program.last_line()}")
        if program.killed_by:
            raise TrialFailed(
                f"{program.name} on the {host} was killed by {program.killed_by}; if nobody did it,"
                " look for an end of memory in the log of the kernel (dmesg)"
            )


def warm_up(testbed: Testbed, tunnel: Tunnel[Any], traffic: TcpTraffic, device: str = "") -> None:
    """Send a short transfer through a tunnel in each direction that is not measured, by `device` if the client has
    several."""
    target, port = testbed.traffic_ends(tunnel.inside)[1], iperf3.IPERF3_PORT
    for direction in traffic.direction:
        with ExitStack() as stack:
            _start_server(stack, testbed, target, traffic, port)
            argv = iperf3.client_command(
                target, traffic, max(traffic.payload_bytes), direction, device=device, content=tunnel.content
            )
            position = argv.index("--time")
            argv[position : position + 2] = ["--bytes", WARM_UP_BYTES]
            _start_iperf3(stack, testbed.client, argv).wait(WARM_UP_LIMIT_S)


def _start_server(stack: ExitStack, testbed: Testbed, address: str, traffic: TcpTraffic, port: int) -> Daemon:
    """Start iperf3's server and wait until it listens.

    iperf3 prints nothing before its test with --json, so its socket shows that it listens.
    """
    host = testbed.server
    server = _start_iperf3(stack, host, iperf3.server_command(address, traffic.interval_s, port))
    sockets, nobody = ("/proc/net/tcp6", "0" * 32) if ":" in address else ("/proc/net/tcp", "0" * 8)
    listening = f":{port:04X} {nobody}:0000 0A"
    deadline = time.monotonic() + LISTEN_LIMIT_S
    while listening not in host.read(sockets):
        if not server.is_running or time.monotonic() > deadline:
            raise TrialFailed(f"iperf3's server does not listen: {server.last_line()}")
        time.sleep(0.01)  # the server may have to start on this very CPU
    return server


def _start_iperf3(stack: ExitStack, host: Host, argv: list[str]) -> Daemon:
    """Start iperf3. It keeps the data of each stream in a file in TMPDIR; if the disk is full, the kernel kills it."""
    daemon = host.start(["env", f"TMPDIR={host.folder}", *argv], name="iperf3")
    stack.callback(daemon.stop)
    return daemon


IPERF3_SOCKET = re.compile(r":52[0-3][0-9]\b")
"""Address of a socket of iperf3, whose ports are IPERF3_PORT and those behind it, one for each client."""

LISTEN_LIMIT_S = 10.0
"""Time for iperf3's server to start [s]; 3 s were too few in an emulated guest on a busy machine."""

WARM_UP_BYTES = "4M"
WARM_UP_LIMIT_S = 3.0


def parse_mss(sockets: str, payload_bytes: int) -> int | None:
    """Return the payload of a TCP segment without options [bytes]; None if the test's connection is not listed.

    `sockets` is the output of `ss -tinO` (tcp_info.tcpi_snd_mss), `payload_bytes` the payload that was asked for.
    """
    return _mss(_test_connection(sockets, payload_bytes))


def parse_sender(sockets: str, payload_bytes: int) -> Sender | None:
    """Parse from `ss -tinO` what limited the sender (congestion window, receive window); None if it is not listed."""
    line = _test_connection(sockets, payload_bytes)
    rtt = re.search(r"\brtt:(\d{1,9}(?:\.\d{1,9})?)", line)
    if rtt is None:
        return None

    def seconds(name: str) -> float:
        found = re.search(rf"\b{name}:(\d{{1,12}})ms", line)
        return int(found[1]) / 1000 if found else 0.0

    return Sender(
        busy_s=seconds("busy"),
        receiver_window_s=seconds("rwnd_limited"),
        send_buffer_s=seconds("sndbuf_limited"),
        rtt_ms=float(rtt[1]),
    )


def parse_starts(sockets: str, ports: Sequence[int]) -> list[float]:
    """Parse from `ss -tinO` when the test on each port started [s], before the moment of that output; empty if unknown.

    The control connection is the one that sent fewest bytes. From the start of a test to its end, its last message is
    the one with which the server started the test. On a busy machine, the clients' programs take unequal times to get
    there, so the starts of these programs do not tell how far the tests are apart.
    """
    starts_s = []
    for port in ports:
        sent = _by_sent_bytes(sockets, re.compile(rf":{port}\b"))
        ages_ms = re.findall(r"\blast(?:snd|rcv):(\d{1,12})\b", min(sent)[1]) if sent else []
        if not ages_ms:
            return []
        starts_s.append(-min(map(int, ages_ms)) / 1000)
    return starts_s


def _by_sent_bytes(sockets: str, socket: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the lines of `ss -tinO` with an address that matches, each with the bytes that its connection has sent."""
    return [
        (int(found[1]), line)
        for line in sockets.splitlines()
        if socket.search(line) and (found := re.search(r"\bbytes_sent:(\d{1,18})\b", line))
    ]


def _test_connection(sockets: str, payload_bytes: int) -> str:
    """Return the line of `ss -tinO` for the connection that carries the test's data; empty if there is none.

    The data connection is the one of iperf3's connections that sent most bytes. The other is the control connection,
    which may be the only one left if `ss` ran late. Therefore a connection whose segments are larger than the plan asks
    for is taken as the control connection.
    """
    sent = _by_sent_bytes(sockets, IPERF3_SOCKET)
    line = max(sent)[1] if sent else ""
    return "" if (_mss(line) or 0) > payload_bytes else line


def _mss(line: str) -> int | None:
    found = re.search(r"\bmss:(\d{1,9})\b", line)
    return int(found[1]) if found else None
