"""Measures how many tunnels a server sets up per second, while the packets of one of its clients flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tunnelbench.host.command import CommandFailed
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.measure.udp_exchange import Exchanger
from tunnelbench.measure.udp_trial import OfferedUdp, UdpMeter
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.udp import ClientHandshakes, HandshakeCounts
from tunnelbench.traffic import ping
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.clients import ServerTunnel

FIRST_PING_LIMIT_S = 10
"""Longest wait for an answer to the first packet of a tunnel [s]."""

PING_AGAIN_S = 0.1
"""Time between two first packets, until one is answered [s]."""

NOT_COMPARABLE = ("copies", "router-losses", "sent-count", "packet-count", "path-setup")
"""Checks that take all packets of the path for those of the client whose traffic is counted, or any new device for a
fault."""


class HandshakeMeter(UdpMeter):
    """Measures trials of the test `handshake`."""

    _tunnel: Tunnel[Any]

    def measure(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        self._tunnel = live.tunnel
        found = super().measure(spec, live)
        if not spec.tunnel.handshakes:
            return found
        return replace(found, checks=tuple(check for check in found.checks if check.name not in NOT_COMPARABLE))

    def _traffic(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        with setting_up(self._tunnel, spec.tunnel.handshakes) as counts:
            offered = self._timed(exchanger, float(spec.load), self.traffic.duration_s, takes_delays=True, sleeps=True)
            if spec.tunnel.handshakes:
                offered.parts["handshakes"] = counts()
        return offered


@dataclass
class _SetUps:
    """The tunnels that one client has set up."""

    begun: int = 0
    failed: int = 0
    finished: tuple[tuple[float, float], ...] = ()
    """Time at which each tunnel had its first answer, on the monotonic clock, and the time since its start [s]."""


def counts_of(clients: Sequence[_SetUps]) -> HandshakeCounts:
    """Return the counts of all clients so far; their threads may still run."""
    finished = [client.finished for client in clients]
    took_s = [took for each in finished for _, took in each]
    return HandshakeCounts(
        begun=sum(client.begun for client in clients),
        failed=sum(client.failed for client in clients),
        clients=tuple(ClientHandshakes(len(each), each[-1][0] - each[0][0] if each else 0.0) for each in finished),
        setup_p50_s=median(took_s) if took_s else None,
        setup_max_s=max(took_s, default=None),
    )


@contextmanager
def setting_up(tunnel: Tunnel[Any], clients: int) -> Iterator[Callable[[], HandshakeCounts]]:
    """Let the further clients of a server set up their tunnels again and again while the block runs.

    The function returns the counts so far. Tunnels that are being set up at the end of the block are not counted.
    """
    found, ended = [_SetUps() for _ in range(clients)], threading.Event()

    def repeat(number: int, client: _SetUps) -> None:
        while not ended.is_set():
            client.begun += 1
            begun_s = time.monotonic()
            if (answered_s := set_up_once(tunnel, number)) is None:
                client.failed += 1
            else:
                client.finished += ((answered_s, answered_s - begun_s),)

    with ThreadPoolExecutor(max_workers=max(1, clients)) as pool:
        ends = [pool.submit(repeat, number, client) for number, client in enumerate(found, start=1)]
        try:
            yield lambda: counts_of(found)
        finally:
            ended.set()
    for end in ends:
        end.result()


def set_up_once(tunnel: Tunnel[Any], number: int) -> float | None:
    """Set up the tunnel of a client, and take it down when its first packet has been answered.

    Returns the time of the answer on the monotonic clock [s]; None: there was none.
    """
    if not isinstance(tunnel, ServerTunnel):
        raise TypeError(f"{tunnel.kind} has no server with clients")
    try:
        with tunnel.joined(number) as device:
            # fmt: off
            argv = ping.command(tunnel.server_inner_address, count=1, interval_s=PING_AGAIN_S, device=device,
                                deadline_s=FIRST_PING_LIMIT_S)
            # fmt: on
            host = tunnel.ends.router.host
            found = ping.parse(host.run(argv, check=False, timeout_s=FIRST_PING_LIMIT_S + 5).stdout)
            return time.monotonic() if found.answered else None
    except (CommandFailed, TunnelRefused):
        return None
