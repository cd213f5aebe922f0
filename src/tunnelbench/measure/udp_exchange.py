"""One exchange of the packet engine: the far end first, then the sender, then a wait for what is late."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import Host
from tunnelbench.measure.companion import TrafficPath
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.model.search import SearchPoint
from tunnelbench.model.udp import UdpCounts
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import Load

READY_LIMIT_S = 3.0
"""For the far end to say that its socket is bound."""

GRACE_S = 8.0
"""What a sender may take beyond its duration and the time in which an answer may come."""

END_LIMIT_S = 3.0
"""For the far end to print its summary after its input was closed."""

POLL_S = 0.02
LARGEST_OUTPUT_BYTES = 256_000_000


@dataclass
class Exchanger:
    """Sends over one path in one direction; counts what all its exchanges were handed by the kernel."""

    testbed: Testbed
    path: TrafficPath
    programs: Mapping[str, str]
    """Where the engine is, by machine."""
    sizes: str
    """Payloads as the engine's option has them."""
    received_packets: int = 0
    """At the sockets of both testers up to now, drops there and echoes included."""
    log: list[dict[str, Any]] = field(default_factory=list)
    """Each exchange's counts, without the series."""

    @property
    def sender(self) -> Host:
        """Whoever is at the end where the data come from."""
        return self.testbed.server if self.path.place.direction is Direction.IN else self.testbed.client

    @property
    def receiver(self) -> Host:
        return self.testbed.client if self.path.place.direction is Direction.IN else self.testbed.server

    @property
    def has_one_clock(self) -> bool:
        """Whether both ends read the same clock; without it nothing tells how long a packet was under way."""
        return self.sender.machine == self.receiver.machine

    def exchange(self, load: Load, accompany: Callable[[Daemon], None] | None = None) -> UdpCounts:
        """Offer a load and count; `accompany` stays with the sender until it ends.

        Raises TrialFailed, with the reason in words and what the engines printed, when it ends without a figure.
        """
        programs: dict[str, Daemon] = {}
        try:
            counts = self._exchange(load, accompany, programs)
        except TrialFailed as error:
            path_programs = {f"router_{daemon.name}": daemon for daemon in self.path.router_daemons}
            path_programs |= {f"server_{daemon.name}": daemon for daemon in self.path.server_daemons}
            printed = {name: daemon.output(LOG_KEPT_BYTES) for name, daemon in (programs | path_programs).items()}
            error.raw = {"load": str(load), **printed}
            raise
        self.received_packets += (
            counts.received_packets
            + counts.tester_dropped_packets
            + counts.duplicated_packets
            + counts.corrupted_packets
            + (counts.late_packets or 0)
            + (counts.reached_packets or 0)
        )
        self.log.append(asdict(replace(counts, intervals=())))
        return counts

    def _exchange(
        self, load: Load, accompany: Callable[[Daemon], None] | None, programs: dict[str, Daemon]
    ) -> UdpCounts:
        session = secrets.token_hex(7)
        path = self.path
        here, there = path.client_address, path.server_address
        if path.place.direction is Direction.IN:
            here, there = there, here
        with ExitStack() as stack:
            program = self.programs[self.receiver.machine]
            far_argv = engine.far_end_command(program, there, session, load, has_one_clock=self.has_one_clock)
            far = programs["engine_far_end"] = _start(stack, self.receiver, far_argv)
            if not far.wait_for('"hello"', READY_LIMIT_S):
                raise TrialFailed(f"the engine's far end does not listen: {far.last_line()[:300]}")
            sender_argv = engine.sender_command(self.programs[self.sender.machine], there, session, load, source=here)
            sender = programs["engine_sender"] = _start(stack, self.sender, sender_argv)
            if accompany is not None:
                accompany(sender)
            elif not sender.wait((load.duration_s or 0.0) + engine.LATE_S + GRACE_S):
                raise TrialFailed(f"the engine's sender did not end {GRACE_S:g} s after its time")
            if not load.is_echo:
                _wait_for_the_rest(far, sender)
            path.require_daemons()
            far.close_input()
            if not far.wait(END_LIMIT_S):
                raise TrialFailed("the engine's far end did not end when its input was closed")
            return engine.parse(sender.output(LARGEST_OUTPUT_BYTES), far.output(LARGEST_OUTPUT_BYTES), load)

    def beside(self) -> Exchanger:
        """Another one over the same path, for traffic at the same time."""
        return Exchanger(self.testbed, self.path, self.programs, self.sizes)

    def take_in(self, other: Exchanger) -> None:
        """Account for what another one has exchanged meanwhile."""
        self.received_packets += other.received_packets
        self.log += other.log

    def point(self, duration_s: float, offered_pps: float) -> SearchPoint:
        """One trial of a search."""
        load = Load(self.sizes, duration_s, offered_pps, interval_s=SEARCH_INTERVAL_S)
        return as_point(self.exchange(load))


SEARCH_INTERVAL_S = 0.1
"""A search looks so often whether all has arrived, and then does not wait for what is late."""

LOG_KEPT_BYTES = 20_000
"""Of a program's output, from its end, when a trial has failed."""


def as_point(counts: UdpCounts) -> SearchPoint:
    """A trial as a search counts it."""
    pps = counts.intended_pps or counts.offered_pps
    return SearchPoint(
        duration_s=counts.duration_s,
        intended_pps=pps,
        intended_packets=counts.intended_packets or counts.sent_packets,
        offered_packets=counts.sent_packets,
        forwarded_packets=counts.received_packets,
        receiver_dropped_packets=counts.tester_dropped_packets,
        stalls=counts.stalls,
    )


def _start(stack: ExitStack, host: Host, argv: list[str]) -> Daemon:
    daemon = host.start(argv, has_input=True)
    stack.callback(daemon.stop)
    return daemon


def _wait_for_the_rest(far: Daemon, sender: Daemon) -> None:
    """Until every packet has come, or may no longer count (LATE_S)."""
    summary = engine.parse_lines(sender.output(LARGEST_OUTPUT_BYTES)).summary
    sent = summary.get("sent_packets") if summary else None
    deadline = time.monotonic() + engine.LATE_S
    while time.monotonic() < deadline:
        if not far.is_running:
            return
        if isinstance(sent, int) and engine.parse_lines(far.output()).received_packets >= sent:
            return
        time.sleep(POLL_S)
