"""One TCP trial: everything is read just before the traffic and just after it, so that nothing falls between."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import Host
from tunnelbench.host.procfs import all_processes
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import check_trial
from tunnelbench.measure.companion import Companion, OnSecond, require_daemons
from tunnelbench.measure.counters import Place, path_counters, read_path
from tunnelbench.measure.frames import tcp_limit_bps
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction, TcpTraffic, TrialSpec
from tunnelbench.model.result import Check, TcpMeasurement
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import iperf3, ping
from tunnelbench.tunnel.base import Tunnel

TAIL_S = 3.0
"""What the far iperf3 may take to print after the near one has ended."""

@dataclass(frozen=True)
class TrialFindings:
    """A measurement, its checks, and the raw output behind them."""

    tcp: TcpMeasurement
    checks: tuple[Check, ...]
    raw: dict[str, Any]


def measure_tcp(
    testbed: Testbed, tunnel: Tunnel[Any], spec: TrialSpec, traffic: TcpTraffic, on_second: OnSecond
) -> TrialFindings:
    """Measure one TCP trial through a tunnel that is up and proven.

    Raises TrialFailed, with the reason in words, when it ends without a figure.
    """
    sender = testbed.server if spec.direction is Direction.IN else testbed.client
    place = Place(spec.direction, testbed.lan_device, tunnel.device_at(tunnel.ends.server), testbed.wan_device)
    cpus = sorted({*testbed.router.cpus, *testbed.client.cpus, *testbed.server.cpus})
    processes_before = all_processes()
    counters_before = read_path(testbed)
    started_s = time.monotonic()
    companion = Companion(testbed, tunnel, place, traffic.duration_s, sender, on_second)

    with ExitStack() as stack:
        server = _start(stack, testbed.server, iperf3.server_command(testbed.addresses.target, traffic.interval_s))
        _wait_until_listening(testbed.server, server)
        pinger = _start(stack, testbed.client, ping.command(testbed.addresses.router_lan))
        client_argv = iperf3.client_command(testbed.addresses.target, traffic, spec.payload_bytes, spec.direction)
        client = _start(stack, testbed.client, client_argv)
        companion.accompany(client)
        server.wait(TAIL_S)
        pinger.interrupt()
        pinger.wait(1)
        require_daemons(tunnel)
    bracket_s = time.monotonic() - started_s
    counters_after = read_path(testbed)
    foreign = cpu.foreign_by_name(processes_before, all_processes(), cpus)

    result = iperf3.parse(client.output(), server.output(), spec.direction)
    mss_bytes = parse_mss(companion.sockets)
    tcp = TcpMeasurement(
        duration_s=result.duration_s,
        bytes_received=result.bytes_received,
        bytes_sent=result.bytes_sent,
        retransmits=result.retransmits,
        mss_bytes=mss_bytes,
        counters=path_counters(counters_before, counters_after, place),
        window=companion.window(),
        bracket_s=bracket_s,
        foreign_cpu_s=sum(foreign.values()),
        ping=ping.parse(pinger.output()),
        physical_limit_bps=_limit_bps(testbed, tunnel, spec.direction, mss_bytes or spec.payload_bytes),
        intervals=result.intervals,
    )
    checks = check_trial(
        spec,
        tcp,
        outer=str(tunnel.outer),
        exact_outer_packets=tunnel.has_exact_outer_packets,
        foreign=foreign,
        router_cpu_is_shared=bool({*testbed.router.cpus} & {*testbed.client.cpus, *testbed.server.cpus}),
    )
    raw = {
        "iperf3_client": client.output(),
        "iperf3_server": server.output(),
        "iperf3_command": " ".join(client_argv),
        "ping": pinger.output(),
        "ss": companion.sockets,
        "foreign_cpu_s": foreign,
        "counters_before": asdict(counters_before),
        "counters_after": asdict(counters_after),
    }
    return TrialFindings(tcp, checks, raw)


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


WARM_UP_BYTES = "4M"
WARM_UP_LIMIT_S = 3.0


def _wait_until_listening(host: Host, server: Daemon) -> None:
    """iperf3 says nothing before its test with --json: its socket tells that it listens."""
    listening = f":{iperf3.PORT:04X} 00000000:0000 0A"
    deadline = time.monotonic() + 3
    while listening not in host.read("/proc/net/tcp"):
        if not server.is_running or time.monotonic() > deadline:
            raise TrialFailed(f"iperf3's server does not listen: {server.last_line()}")


def parse_mss(sockets: str) -> int | None:
    """The segment payload of the test's connection from `ss -tinO`; options are already deducted (tcp_info.tcpi_snd_mss).

    Of iperf3's connections the one that sent most bytes carries the test; the other is its control connection.
    """
    sent_and_mss = [
        (int(sent[1]), int(mss[1]))
        for line in sockets.splitlines()
        if f":{iperf3.PORT}" in line
        and (sent := re.search(r"\bbytes_sent:(\d+)", line))
        and (mss := re.search(r"\bmss:(\d+)", line))
    ]
    return max(sent_and_mss)[1] if sent_and_mss else None


def _limit_bps(testbed: Testbed, tunnel: Tunnel[Any], direction: Direction, payload_bytes: int) -> float | None:
    link = testbed.spec.link
    rate_mbps = link.rate_in_mbps if direction is Direction.IN else link.rate_out_mbps
    if rate_mbps is None:
        return None
    return tcp_limit_bps(rate_mbps, payload_bytes, tunnel.outer_packet_bytes, link.mtu_bytes)
