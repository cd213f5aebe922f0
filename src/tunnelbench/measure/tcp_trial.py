"""One TCP trial: everything is read just before the traffic and just after it, so that nothing falls between."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import Host
from tunnelbench.host.procfs import parse_net_dev
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import check_trial
from tunnelbench.measure.counters import Snapshot, path_counters, read_path
from tunnelbench.measure.frames import tcp_limit_bps
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction, TcpTraffic, TrialSpec
from tunnelbench.model.result import Check, TcpMeasurement
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import iperf3, ping
from tunnelbench.tunnel.base import Tunnel, daemon_name

GRACE_S = 8.0
"""What an iperf3 may take beyond its test for connecting and for its results."""

TAIL_S = 3.0
"""What the far iperf3 may take to print after the near one has ended."""

OnSecond = Callable[[float], None]
"""Called about once a second with the rate that the client's device saw [bit/s]."""


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
    server_device = tunnel.device_at(tunnel.ends.server)
    counters_before = read_path(testbed)
    cpu_before = cpu.read_cpu(testbed.router, tunnel.router_daemons)

    server = testbed.server.start(iperf3.server_command(testbed.addresses.target))
    pinger: Daemon | None = None
    client: Daemon | None = None
    try:
        _wait_until_listening(testbed.server, server)
        pinger = testbed.client.start(ping.command(testbed.addresses.router_lan))
        client_argv = iperf3.client_command(testbed.addresses.target, traffic, spec.payload_bytes, spec.direction)
        client = testbed.client.start(client_argv)
        sockets = _accompany(testbed, tunnel, client, sender, traffic, on_second)
        server.wait(TAIL_S)
        pinger.interrupt()
        pinger.wait(1)
        cpu_after = cpu.read_cpu(testbed.router, tunnel.router_daemons)
        counters_after = read_path(testbed)
        _require_daemons(tunnel)
    finally:
        for daemon in (client, server, pinger):
            if daemon is not None:
                daemon.stop()

    result = iperf3.parse(client.output(), server.output(), spec.direction)
    answers = ping.parse(pinger.output())
    mss_bytes = parse_mss(sockets)
    cpus = sorted({*testbed.router.cpus, *testbed.client.cpus, *testbed.server.cpus})
    foreign = cpu.foreign(cpu_before, cpu_after, cpus)
    tcp = TcpMeasurement(
        duration_s=result.duration_s,
        bytes_received=result.bytes_received,
        retransmits=result.retransmits,
        mss_bytes=mss_bytes,
        counters=path_counters(
            counters_before, counters_after, spec.direction, testbed.lan_device, server_device, answers.answered
        ),
        router_cpu=cpu.usage(cpu_before, cpu_after, testbed.router.cpus),
        tester_cpu=cpu.usage(cpu_before, cpu_after, sorted({*testbed.client.cpus, *testbed.server.cpus})),
        daemon_cpu_s=cpu_after.daemons_s - cpu_before.daemons_s if tunnel.router_daemons else None,
        daemon_cpu_method=cpu_after.daemons_method if tunnel.router_daemons else "",
        foreign_cpu_s=sum(foreign.values()),
        ping=answers,
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
        "congestion_control": result.congestion_control,
        "ping": pinger.output(),
        "ss": sockets,
        "foreign_cpu_s": foreign,
        "counters_before": _as_plain(counters_before),
        "counters_after": _as_plain(counters_after),
    }
    return TrialFindings(tcp, checks, raw)


def warm_up(testbed: Testbed, traffic: TcpTraffic) -> None:
    """A short transfer each way that is not timed: paths, ARP, CPUs and tinc's probing settle (rule 23)."""
    for direction in traffic.direction:
        server = testbed.server.start(iperf3.server_command(testbed.addresses.target))
        try:
            _wait_until_listening(testbed.server, server)
            argv = iperf3.client_command(testbed.addresses.target, traffic, max(traffic.payload_bytes), direction)
            position = argv.index("--time")
            argv[position : position + 2] = ["--bytes", WARM_UP_BYTES]
            client = testbed.client.start(argv)
            try:
                if not client.wait(WARM_UP_LIMIT_S):
                    client.interrupt()
                    client.wait(1)
            finally:
                client.stop()
        finally:
            server.stop()


WARM_UP_BYTES = "4M"
WARM_UP_LIMIT_S = 3.0


def _accompany(
    testbed: Testbed, tunnel: Tunnel[Any], client: Daemon, sender: Host, traffic: TcpTraffic, on_second: OnSecond
) -> str:
    """Wait for the client's end; once a second tell the rate and look after the daemons; look at the sockets half-way.

    Returns what `ss` said of them.
    """
    started = time.monotonic()
    socket_look_s = traffic.duration_s / 2
    sockets = ""
    previous: tuple[float, int] | None = None
    next_second_s = 1.0
    while not client.wait(max(0.01, min(next_second_s, socket_look_s) - (time.monotonic() - started))):
        now_s = time.monotonic() - started
        if now_s > traffic.duration_s + GRACE_S:
            raise TrialFailed(f"iperf3 did not end in {traffic.duration_s + GRACE_S:g} s for a test of {traffic.duration_s} s")
        if now_s >= socket_look_s:
            sockets = sender.run(["ss", "-tinHO", "state", "established"]).stdout
            socket_look_s = float("inf")
        if now_s >= next_second_s:
            next_second_s += 1.0
            _require_daemons(tunnel)
            device = read_device_bytes(testbed.client, testbed.lan_device)
            if previous:
                on_second((device - previous[1]) * 8 / (now_s - previous[0]))
            previous = (now_s, device)
    return sockets


def read_device_bytes(host: Host, device: str) -> int:
    """Bytes that a device has sent and received."""
    counters = parse_net_dev(host.read("/proc/net/dev"))[device]
    return counters.rx_bytes + counters.tx_bytes


def _require_daemons(tunnel: Tunnel[Any]) -> None:
    for end, daemons in (("router", tunnel.router_daemons), ("server", tunnel.server_daemons)):
        for daemon in daemons:
            if not daemon.is_running:
                raise TunnelDied(f"{daemon_name(daemon)} on the {end} ended during the trial; last: {daemon.last_line()}")


class TunnelDied(TrialFailed):
    """A daemon of the tunnel ended: the tunnel must be brought up anew before the next trial."""


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


def _as_plain(snapshot: Snapshot) -> dict[str, Any]:
    return asdict(snapshot)
