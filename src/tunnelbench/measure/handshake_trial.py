"""Measures how many tunnels a server sets up per second while a client's packets flow, and the memory of open ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.procfs import anonymous_bytes
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.measure.udp_exchange import Exchanger
from tunnelbench.measure.udp_trial import OfferedUdp, UdpMeter
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.udp import ClientHandshakes, HandshakeCounts, ServerMemory
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

    _tunnel: Tunnel[Any] | None = None
    _memory: ServerMemory | None = None

    def measure(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        # Later trials of a server would use memory that its programs have kept.
        is_new, self._tunnel = live.tunnel is not self._tunnel, live.tunnel
        self._memory = server_memory(live.tunnel, spec.tunnel.handshakes) if is_new else None
        found = super().measure(spec, live)
        if not spec.tunnel.handshakes:
            return found
        return replace(found, checks=tuple(check for check in found.checks if check.name not in NOT_COMPARABLE))

    def _traffic(self, spec: TrialSpec, exchanger: Exchanger) -> OfferedUdp:
        if self._tunnel is None:
            raise ValueError("no trial has begun")
        with setting_up(self._tunnel, spec.tunnel.handshakes) as counts:
            offered = self._timed_sparsely(spec, exchanger)
            if spec.tunnel.handshakes:
                offered.parts["handshakes"] = replace(counts(), memory=self._memory)
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


def server_memory(tunnel: Tunnel[Any], clients: int) -> ServerMemory | None:
    """Open the tunnels of all further clients, compare the memory of the server's programs, and close the tunnels.

    Returns None if there are no such clients, if no program of the server takes memory for them, or if a tunnel did not
    come up.
    """
    if not clients or not isinstance(tunnel, ServerTunnel) or not tunnel.grows_with_clients:
        return None
    try:
        before_bytes = _anonymous_bytes(tunnel)
        if before_bytes is None:
            return None
        with ExitStack() as opened:
            for number in range(1, clients + 1):
                device = opened.enter_context(tunnel.joined(number))
                if not is_answered(tunnel, device):
                    return None
            open_bytes = _anonymous_bytes(tunnel)
    except (CommandFailed, TunnelRefused, FileNotFoundError, ProcessLookupError):  # the last two: a program has ended
        return None
    return None if open_bytes is None else ServerMemory(clients, before_bytes, open_bytes)


def _anonymous_bytes(tunnel: Tunnel[Any]) -> int | None:
    """Return the memory of the programs that run on the router for a tunnel [bytes]; None: there are none."""
    host = tunnel.end_under_test.host
    sizes = [anonymous_bytes(host.read_machine(f"/proc/{daemon.pid}/status")) for daemon in tunnel.daemons_under_test]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def set_up_once(tunnel: Tunnel[Any], number: int) -> float | None:
    """Set up the tunnel of a client, and take it down when its first packet has been answered.

    Returns the time of the answer on the monotonic clock [s]; None: there was none.
    """
    if not isinstance(tunnel, ServerTunnel):
        raise TypeError(f"{tunnel.kind} has no server with clients")
    try:
        with tunnel.joined(number) as device:
            return time.monotonic() if is_answered(tunnel, device) else None
    except (CommandFailed, TunnelRefused):
        return None


def is_answered(tunnel: ServerTunnel[Any], device: str) -> bool:
    """Send packets through a client's device until the server answers; returns False if it does not in time."""
    # fmt: off
    argv = ping.command(tunnel.server_inner_address, count=1, interval_s=PING_AGAIN_S, device=device,
                        deadline_s=FIRST_PING_LIMIT_S)
    # fmt: on
    found = ping.parse(tunnel.ends.router.host.run(argv, check=False, timeout_s=FIRST_PING_LIMIT_S + 5).stdout)
    return bool(found.answered)
