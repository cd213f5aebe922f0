"""Runs one exchange of the packet engine: starts the receiver, then the sender, and waits for late packets."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tunnelbench.host.daemon import SEARCHED_BYTES, Daemon
from tunnelbench.host.host import Host
from tunnelbench.measure.trial_monitor import TrafficPath, keeping_output
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import Direction
from tunnelbench.model.search import CatchUp, SearchPoint
from tunnelbench.model.udp import UdpCounts
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import SenderLoad

READY_LIMIT_S = 3.0
"""Time for the far end to report that its socket is bound [s]."""

EXCHANGE_GRACE_S = 8.0
"""Time that a sender may take beyond its duration and the wait for answers [s]."""

END_LIMIT_S = 3.0
"""Time for the far end to print its summary after its input was closed [s]."""

ENGINE_POLL_S = 0.01


@dataclass
class Exchanger:
    """Sends packets over one path in one direction with the packet engine, and counts the packets of all exchanges."""

    testbed: Testbed
    path: TrafficPath
    programs: Mapping[str, str]
    """Path of the engine on each machine."""
    sizes: str
    """Payload sizes [bytes], in the syntax of the engine's option."""
    flows: int = 1
    """Number of source ports that the sender uses in turn."""
    received_packets: int = 0
    """Packets that reached the sockets of both testers so far, including socket drops and echoes."""
    sent_packets: int = 0
    """Packets that the sender says it has sent so far."""
    log: list[dict[str, Any]] = field(default_factory=list)
    """Counts of each exchange, without its time series."""

    @property
    def sender(self) -> Host:
        """The host that sends the data."""
        return self.testbed.server if self.path.place.direction is Direction.IN else self.testbed.client

    @property
    def receiver(self) -> Host:
        return self.testbed.client if self.path.place.direction is Direction.IN else self.testbed.server

    @property
    def has_one_clock(self) -> bool:
        """True if both ends read the same clock; otherwise one-way delays are unknown."""
        return self.sender.machine == self.receiver.machine

    def commands(self, load: SenderLoad) -> tuple[list[str], list[str]]:
        """Return the command lines of the engine's receiver and of its sender, for one exchange."""
        session = secrets.token_hex(7)
        here, there = self.path.client_address, self.path.server_address
        if self.path.place.direction is Direction.IN:
            here, there = there, here
        far, near = (self.programs[host.machine] for host in (self.receiver, self.sender))
        return (
            engine.far_end_command(far, there, session, load, has_one_clock=self.has_one_clock, flows=self.flows),
            engine.sender_command(near, there, session, load, source=here, content=self.path.content, flows=self.flows),
        )

    def exchange(
        self,
        load: SenderLoad,
        accompany: Callable[[Daemon], None] | None = None,
        *,
        is_search: bool = False,
        may_be_refused: bool = False,
    ) -> UdpCounts:
        """Offer a load and return the packet counts. `accompany` is called to wait until the sender has ended.

        In a search, the wait for late packets ends as soon as no missing packet can still be on its way. With
        `may_be_refused`, the kernel may refuse some packets, as it does until it knows the path's MTU.

        Raises TrialFailed, with the output of the engines, if the exchange gives no counts.
        """
        programs: dict[str, Daemon] = {}
        with keeping_output(programs, load=str(load)):
            counts = self._exchange(load, accompany, programs, is_search=is_search, may_be_refused=may_be_refused)
        self.received_packets += (
            counts.received_packets
            + counts.tester_dropped_packets
            + counts.duplicated_packets
            + counts.corrupted_packets
            + (counts.late_packets or 0)
            + (counts.reached_packets or 0)
        )
        self.sent_packets += counts.sent_packets
        self.log.append(asdict(replace(counts, intervals=())))
        return counts

    def _exchange(
        self,
        load: SenderLoad,
        accompany: Callable[[Daemon], None] | None,
        programs: dict[str, Daemon],
        *,
        is_search: bool,
        may_be_refused: bool,
    ) -> UdpCounts:
        far_argv, sender_argv = self.commands(load)
        with ExitStack() as stack:
            far = programs["engine_far_end"] = _start(stack, self.receiver, far_argv)
            if not far.wait_for('"hello"', READY_LIMIT_S):
                raise TrialFailed(does_not_listen(far))
            sender = programs["engine_sender"] = _start(stack, self.sender, sender_argv)
            if accompany is not None:
                accompany(sender)
            elif not sender.wait((load.duration_s or 0.0) + engine.LATE_S + EXCHANGE_GRACE_S):
                raise TrialFailed(f"the engine's sender did not end {EXCHANGE_GRACE_S:g} s after its time")
            if not sender.log_size_bytes:
                raise TrialFailed(f"the engine's sender ended with {sender.ending} and printed nothing")
            if not load.is_echo:
                wait_for_the_rest(far, sender, is_search=is_search)
            self.path.require_daemons()
            end_far_end(far)
            return engine.parse(sender.output(), far.output(), load, may_be_refused=may_be_refused)

    def beside(self) -> Exchanger:
        """Return another exchanger over the same path, for a second stream of packets at the same time."""
        return Exchanger(self.testbed, self.path, self.programs, self.sizes, self.flows)

    def take_in(self, other: Exchanger) -> None:
        """Add the counts of another exchanger, made by `beside`, to this one's."""
        self.received_packets += other.received_packets
        self.sent_packets += other.sent_packets
        self.log += other.log

    def point(
        self, duration_s: float, offered_pps: float, *, catch_up: CatchUp = CatchUp.FULL, is_echo: bool = False
    ) -> SearchPoint:
        """Make one trial of a search at a load, and return its counts."""
        load = SenderLoad(
            self.sizes, duration_s, offered_pps, catch_up=catch_up, is_echo=is_echo, interval_s=SEARCH_INTERVAL_S
        )
        return as_point(self.exchange(load, is_search=True), is_even=catch_up.is_even)


SEARCH_INTERVAL_S = 0.02
"""Interval at which a search reads the number of arrived packets [s]; it stops waiting when all have arrived."""

OVERTAKEN_S = 0.05
"""Time that a search waits for missing packets after the last packet has arrived, if no packet of the trial came after
a later one [s]."""


def does_not_listen(far: Daemon) -> str:
    """Return the failure reason of a trial whose receiver does not listen."""
    return f"the engine's far end does not listen: {far.last_line()[:300]}"


def end_far_end(far: Daemon) -> None:
    """Make the engine's receiver print its summary and end. Raises TrialFailed if it does not end."""
    far.close_input()
    if not far.wait(END_LIMIT_S):
        raise TrialFailed("the engine's far end did not end when its input was closed")


def as_point(counts: UdpCounts, *, is_even: bool = False) -> SearchPoint:
    """Convert the packet counts of a trial to a `SearchPoint`, the input of a search."""
    pps = counts.intended_pps or counts.offered_pps
    return SearchPoint(
        duration_s=counts.duration_s,
        intended_pps=pps,
        intended_packets=counts.intended_packets or counts.sent_packets,
        offered_packets=counts.sent_packets,
        forwarded_packets=counts.received_packets,
        receiver_dropped_packets=counts.tester_dropped_packets,
        stalls=counts.stalls,
        is_even=is_even,
    )


def _start(stack: ExitStack, host: Host, argv: list[str]) -> Daemon:
    daemon = host.start(argv, has_input=True)
    stack.callback(daemon.stop)
    return daemon


def wait_for_the_rest(far: Daemon, sender: Daemon, *, is_search: bool) -> None:
    """Wait until every packet has arrived, or would be too late to count (LATE_S).

    In a search, a missing packet counts as lost earlier: OVERTAKEN_S after the last packet, if the path keeps the order
    of the packets.
    """
    summary = engine.parse_lines(sender.output()).summary
    sent = summary.get("sent_packets") if summary else None
    deadline = time.monotonic() + engine.LATE_S
    in_order_since_s: float | None = None
    while time.monotonic() < deadline:
        if not far.is_running:
            return
        arrived = engine.parse_lines(far.output(SEARCHED_BYTES))
        if isinstance(sent, int) and arrived.received_packets >= sent:
            return
        if is_search and isinstance(sent, int) and arrived.has_last_in_order(sent):
            in_order_since_s = in_order_since_s or time.monotonic()
            if time.monotonic() - in_order_since_s >= OVERTAKEN_S:
                return
        else:
            in_order_since_s = None
        time.sleep(ENGINE_POLL_S)
