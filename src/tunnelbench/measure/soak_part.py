"""One part of a soak: the engines run, their lines become the series, and what happens to the tunnel is noted."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from tunnelbench.host.command import CommandFailed, ReadDaemon, undisturbed
from tunnelbench.host.procfs import all_processes, resident_bytes
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import (
    foreign_load,
    outer_protocol,
    router_cpu,
)
from tunnelbench.measure.counters import Snapshot, outer_counters, read_path
from tunnelbench.measure.tcp_trial import router_cpu_doubt
from tunnelbench.measure.udp_checks import check_offered, check_packet_state, check_receiver
from tunnelbench.measure.udp_trial import UdpMeter
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.plan import Direction, TrialSpec
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.soak import (
    CHUNK_READINGS,
    INTERVAL_S,
    REKEY,
    RESTART,
    Soak,
    SoakChunk,
    SoakEvent,
    SoakPart,
    SoakReading,
)
from tunnelbench.model.udp import UdpCounts, mean_payload_bytes
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import Load
from tunnelbench.traffic.engine_series import Series
from tunnelbench.tunnel.base import Tunnel

POLL_S = 0.2
READY_LIMIT_S = 3.0
END_LIMIT_S = 3.0
GRACE_S = 30.0
"""What the sender may take beyond its duration: a soak is not given up for a machine that stands still a while."""

REVIVALS = 3
"""So often a tunnel is tried again that does not come up."""
REVIVAL_WAIT_S = 1.0


class PartCut(Exception):
    """The part ended before its time, for a reason that the soak cannot mend."""


class Keeper(Protocol):
    """What a part needs of the journal."""

    def begin_part(self, soak: Soak, part: SoakPart) -> None: ...

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None: ...

    def end_part(self, soak: Soak, part: SoakPart) -> None: ...


@dataclass
class Way:
    """What the packets go through."""

    udp: UdpMeter
    spec: TrialSpec
    tunnel: Tunnel[Any]
    revive: Callable[[], Tunnel[Any]]


class Part:
    """A stretch of a soak that one controller measures; memory does not grow with its length."""

    def __init__(self, way: Way, soak: Soak, number: int, duration_s: float, keeper: Keeper) -> None:
        self.way = way
        self.soak = soak
        self.duration_s = duration_s
        self.keeper = keeper
        self.part = SoakPart(number, "")
        testbed, a = way.udp.testbed, way.udp.testbed.addresses
        is_in, here = soak.spec.direction is Direction.IN, testbed.client_address
        self._sender_host, self._far_host = (
            (testbed.server, testbed.client) if is_in else (testbed.client, testbed.server)
        )
        self._here, self._there = (a.target, here) if is_in else (here, a.target)
        self._series = Series(is_echo=soak.is_echo)
        self._waiting: list[SoakReading] = []
        """Readings that are not stored yet, at most a chunk of them."""
        self._events: list[SoakEvent] = []
        self._chunks = 0
        self._busy_share: float | None = None
        self._cpu = cpu.read_cpu(testbed.router, ())
        self._said = way.tunnel.log_sizes()

    @property
    def load(self) -> Load:
        """What the engine is asked for."""
        return Load(
            self.soak.spec.payload,
            self.duration_s,
            self.soak.rate_pps,
            is_echo=self.soak.is_echo,
            takes_delays=self.soak.is_echo,
            interval_s=INTERVAL_S,
            sleeps=self.soak.is_echo,
        )

    def run(self) -> None:
        """Offer packets for the part's duration. Raises PartCut; an interrupt passes through. What was counted by then
        is stored in any case."""
        before, processes, started_s = read_path(self.way.udp.testbed), all_processes(), time.monotonic()
        with ExitStack() as stack:
            far, sender = self._start(stack)
            try:
                self._stay_with(sender, far)
                counts = self._finish(sender, far)
            except (TrialFailed, CannotHere) as error:
                with undisturbed():
                    self._cut(sender, far, str(error))
                raise PartCut(str(error)) from None
            except BaseException:
                with undisturbed():
                    self._cut(sender, far, "interrupted")
                raise
        self._store_rest()
        bracket_s = time.monotonic() - started_s
        foreign = cpu.foreign_by_name(processes, all_processes(), self._cpus)
        after = read_path(self.way.udp.testbed)
        self._end("", counts, (*self._checks(counts, before, after), _foreign(foreign, bracket_s)))

    def _start(self, stack: ExitStack) -> tuple[ReadDaemon, ReadDaemon]:
        session, load, programs = secrets.token_hex(7), self.load, self.way.udp.programs
        far = self._far_host.start_read(
            engine.far_end_command(programs[self._far_host.machine], self._there, session, load)
        )
        stack.callback(far.stop)
        deadline = time.monotonic() + READY_LIMIT_S
        while "hello" not in self._series.far_words:
            self._hear_far(far)
            if not far.is_running or time.monotonic() > deadline:
                raise PartCut(f"the engine's far end does not listen: {far.last_line()[:300]}")
            time.sleep(0.01)
        argv = engine.sender_command(programs[self._sender_host.machine], self._there, session, load, source=self._here)
        if self.soak.is_echo:
            argv += ["--wait", "block"]
        sender = self._sender_host.start_read(argv)
        stack.callback(sender.stop)
        return far, sender

    def _stay_with(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        """Until the sender ends: lines become readings, the router's CPU is read, the tunnel is looked after."""
        end_s = time.monotonic() + self.duration_s + engine.LATE_S + GRACE_S
        next_look_s = time.monotonic() + INTERVAL_S
        while not sender.wait(POLL_S):
            self._hear(sender, far)
            if not far.is_running:
                raise TrialFailed(f"the engine's far end has ended: {far.last_line()[:300]}")
            if self.way.tunnel.has_died:
                self._revive()
            now_s = time.monotonic()
            if now_s >= next_look_s:
                next_look_s = max(next_look_s + INTERVAL_S, now_s)
                self._look()
            if now_s > end_s:
                raise TrialFailed(f"the engine's sender did not end {GRACE_S:g} s after its time")
            self._keep(sender, far)

    def _hear(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        for line in sender.new_lines():
            self._series.take_sender(line)
        self._hear_far(far)
        for reading in self._series.ready():
            self._waiting.append(replace(reading, router_busy_share=self._busy_share))
            payload_bits = mean_payload_bytes(self.soak.spec.payload_bytes) * 8
            self.way.udp.on_second(reading.received_packets * payload_bits / INTERVAL_S)

    def _hear_far(self, far: ReadDaemon) -> None:
        for line in far.new_lines():
            self._series.take_far(line)

    def _look(self) -> None:
        """Once a second: the router's CPU, and what its programs have said."""
        testbed, tunnel = self.way.udp.testbed, self.way.tunnel
        now = cpu.read_cpu(testbed.router, ())
        self._busy_share = cpu.usage(self._cpu, now, testbed.router.cpus).busy_share
        self._cpu = now
        if restart := tunnel.restart_since(self._said):
            self._note(RESTART, restart)
        for rekey in tunnel.rekeys_since(self._said):
            self._note(REKEY, rekey)
        self._said = tunnel.log_sizes()

    def _revive(self) -> None:
        """Bring the tunnel up again. Raises TrialFailed where it does not come up."""
        ended = ", ".join(self._ended_programs())
        self._look()
        started_s = time.monotonic()
        for attempt in range(1, REVIVALS + 1):
            try:
                self.way.tunnel = self.way.revive()
                break
            except (CannotHere, TrialFailed, CommandFailed) as error:
                if attempt == REVIVALS:
                    raise TrialFailed(f"{ended} ended, and the tunnel does not come up again: {error}") from None
                time.sleep(REVIVAL_WAIT_S)
        self._said = self.way.tunnel.log_sizes()
        self._cpu, self._busy_share = cpu.read_cpu(self.way.udp.testbed.router, ()), None
        self._note(RESTART, f"{ended} ended; the tunnel was up again after {time.monotonic() - started_s:.1f} s")
        wrong = [check.reason for check in self.way.tunnel.negotiated() if check.verdict is Verdict.VOID]
        if wrong:
            raise TrialFailed(f"the tunnel that came up again is not what was asked for: {'; '.join(wrong)}")

    def _ended_programs(self) -> list[str]:
        tunnel = self.way.tunnel
        ends = (("router", tunnel.daemons_under_test), (tunnel.far_end.host.name, tunnel.far_daemons))
        return [f"{each.name} on the {end}" for end, daemons in ends for each in daemons if not each.is_running]

    def _note(self, kind: str, text: str) -> None:
        first_ns = self._series.first_ns
        at_s = 0.0 if first_ns is None else max(0.0, (time.monotonic_ns() - first_ns) / 1e9)
        self._events.append(SoakEvent(round(at_s, 3), kind, text[:EVENT_LENGTH]))

    def _keep(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        """Store the readings that fill a chunk."""
        if len(self._waiting) >= CHUNK_READINGS:
            self._store(self._memory(sender, far))

    def _store(self, memory_bytes: dict[str, int]) -> None:
        if not self._chunks:
            self.part = replace(self.part, started_at=self._started_at())
            self.keeper.begin_part(self.soak, self.part)
        chunk = SoakChunk(tuple(self._waiting), tuple(self._events), memory_bytes)
        self.keeper.add_chunk(self.soak.spec.sequence, self.part.number, self._chunks, chunk)
        self._chunks += 1
        self._waiting.clear()
        self._events.clear()

    def _store_rest(self) -> None:
        for reading in self._series.ready(is_over=True):
            self._waiting.append(replace(reading, router_busy_share=self._busy_share))
        if self._waiting or (self._events and self._chunks):
            self._store({})

    def _started_at(self) -> str:
        """The wall clock's time of the first packet."""
        since_s = (time.monotonic_ns() - (self._series.first_ns or time.monotonic_ns())) / 1e9
        return datetime.fromtimestamp(time.time() - since_s, UTC).isoformat(timespec="milliseconds")

    def _memory(self, sender: ReadDaemon, far: ReadDaemon) -> dict[str, int]:
        tunnel = self.way.tunnel
        pids = {"controller": os.getpid(), "engine/sender": sender.pid, "engine/receiver": far.pid}
        pids |= {f"router/{daemon.name}": daemon.pid for daemon in tunnel.daemons_under_test}
        pids |= {f"{tunnel.far_end.host.name}/{daemon.name}": daemon.pid for daemon in tunnel.far_daemons}
        found = {name: resident_bytes(pid) for name, pid in pids.items()}
        return {name: size for name, size in found.items() if size}

    def _finish(self, sender: ReadDaemon, far: ReadDaemon) -> UdpCounts:
        """After the sender's end: what is late, the far end's summary, and the counts of both."""
        if not self.soak.is_echo:
            time.sleep(engine.LATE_S)
        far.close_input()
        if not far.wait(END_LIMIT_S):
            raise TrialFailed("the engine's far end did not end when its input was closed")
        self._hear(sender, far)
        words = self._series.sender_words, self._series.far_words
        sender_text, far_text = ("\n".join(each.values()) for each in words)
        texts = sender_text or sender.last_line(), far_text or far.last_line()
        return engine.parse(*texts, self.load, may_be_refused=True)

    def _cut(self, sender: ReadDaemon, far: ReadDaemon, why: str) -> None:
        """End the engines, and store what they have counted by now."""
        counts = None
        sender.close_input()
        sender.wait(END_LIMIT_S)
        if not self.soak.is_echo:  # answers under way are not awaited
            try:
                counts = self._finish(sender, far)
            except TrialFailed:
                counts = None
            self._store_rest()
        elif self._waiting:
            self._store({})
        self._end(why, counts, ())

    def _end(self, why: str, counts: UdpCounts | None, checks: tuple[Check, ...]) -> None:
        if not self._chunks:
            return  # nothing was counted: there is no such part
        ended_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.part = replace(self.part, ended_at=ended_at, ended=why, counts=counts, checks=checks)
        self.keeper.end_part(self.soak, self.part)

    @property
    def _cpus(self) -> list[int]:
        testbed = self.way.udp.testbed
        return cpu.cpus_here(*testbed.hosts)

    def _checks(self, counts: UdpCounts, before: Snapshot, after: Snapshot) -> tuple[Check, ...]:
        """What holds of the whole part; packets are the engine's count."""
        tunnel, spec = self.way.tunnel, self.soak.spec
        received = counts.received_packets + (counts.reached_packets or 0)
        counters = outer_counters(before, after)
        payload_bytes = round(received * mean_payload_bytes(spec.payload_bytes))
        return (
            outer_protocol(counters, received, payload_bytes, str(tunnel.outer), exact=False),
            _at_most_doubtful(check_offered(spec, counts)),
            check_receiver(counts),
            check_packet_state(counts),
            router_cpu(router_cpu_doubt(self.way.udp.testbed, tunnel)),
        )


EVENT_LENGTH = 200
"""Of what a daemon said, characters that are kept."""


def _at_most_doubtful(check: Check) -> Check:
    """A week is not thrown away for what spoils ten seconds."""
    return replace(check, verdict=Verdict.DOUBTFUL) if check.verdict is Verdict.VOID else check


def _foreign(foreign: dict[str, float], bracket_s: float) -> Check:
    return _at_most_doubtful(foreign_load(sum(foreign.values()), bracket_s, foreign))
