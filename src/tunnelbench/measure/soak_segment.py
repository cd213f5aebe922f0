"""Measures one part of a soak: runs the engines, stores the series that they print, and logs restarts and rekeys."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import ReadDaemon
from tunnelbench.host.procfs import resident_bytes
from tunnelbench.host.signals import undisturbed
from tunnelbench.measure import cpu
from tunnelbench.measure.checks import foreign_load, outer_protocol, router_cpu
from tunnelbench.measure.counters import Snapshot, outer_counters, read_path
from tunnelbench.measure.cpu import BackgroundWatch
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.meter import router_cpu_doubt
from tunnelbench.measure.request import SoakJournal
from tunnelbench.measure.setup_checks import offloads_off, path_setup, router_setup
from tunnelbench.measure.trial_monitor import OnSecond
from tunnelbench.measure.udp_checks import check_offered, check_packet_state, check_receiver
from tunnelbench.measure.udp_exchange import END_LIMIT_S, READY_LIMIT_S, Exchanger, does_not_listen, end_far_end
from tunnelbench.model.errors import CannotHere, TrialFailed
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, UDP_HEADERS_BYTES
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.soak import (
    CHUNK_READINGS,
    REKEY,
    RESTART,
    SOAK_INTERVAL_S,
    Soak,
    SoakChunk,
    SoakEvent,
    SoakPart,
    SoakReading,
)
from tunnelbench.model.udp import UdpCounts, mean_payload_bytes
from tunnelbench.traffic import engine
from tunnelbench.traffic.engine import SenderLoad
from tunnelbench.traffic.engine_series import Series

SENDER_POLL_S = 0.2
SOAK_GRACE_S = 30.0
"""Time that the sender may take beyond its duration [s]; a busy machine may stall for a while."""

REVIVALS = 3
"""Number of attempts to bring a tunnel up again during a soak."""
REVIVAL_WAIT_S = 1.0


class PartCut(Exception):
    """Raised when the measurement of a part of a soak has ended early and cannot continue."""


@dataclass(frozen=True)
class SoakPath:
    """The path of a soak's packets, its tunnel, and the function that is called with the current rate."""

    exchanger: Exchanger
    live: LiveTunnel
    on_second: OnSecond


class SoakSegment:
    """Measures one part of a soak, in a memory that does not depend on the part's duration."""

    def __init__(self, path: SoakPath, soak: Soak, number: int, duration_s: float, journal: SoakJournal) -> None:
        self.path = path
        self.soak = soak
        self.duration_s = duration_s
        self.journal = journal
        self.part = SoakPart(number, "")
        self.testbed = path.exchanger.testbed
        self._series = Series(is_echo=soak.is_echo)
        self._waiting: list[SoakReading] = []
        """Readings that are not stored yet; at most as many as one chunk holds."""
        self._events: list[SoakEvent] = []
        self._chunks = 0
        self._busy_share: float | None = None
        self._cpu = cpu.read_cpu(self.testbed.router, ())
        self._said = path.live.tunnel.log_sizes()
        self._was_revived = False
        """True if the tunnel had to come up again."""

    @property
    def load(self) -> SenderLoad:
        """The load for the engine's sender: payload sizes, duration and rate."""
        return SenderLoad(
            self.soak.spec.payload,
            self.duration_s,
            self.soak.rate_pps,
            is_echo=self.soak.is_echo,
            takes_delays=self.soak.is_echo,
            interval_s=SOAK_INTERVAL_S,
            sleeps=self.soak.is_echo,
        )

    def run(self) -> None:
        """Send packets for the part's duration and store the readings.

        Raises PartCut if the part ends early. An interrupt is raised again. The readings are stored in each case.
        """
        before, watch = read_path(self.testbed), BackgroundWatch(cpu.cpus_here(*self.testbed.hosts))
        with ExitStack() as stack:
            changes = stack.enter_context(self.testbed.watched())
            far, sender = self._start(stack)
            try:
                self._stay_with(sender, far)
                counts = self._finish(sender, far)
            except (TrialFailed, CannotHere) as error:
                with undisturbed:
                    self._cut(sender, far, str(error))
                raise PartCut(str(error)) from None
            except BaseException:
                with undisturbed:
                    self._cut(sender, far, "interrupted")
                raise
            changed = () if self._was_revived else changes()  # a tunnel that comes up again changes the set-up
        self._store_rest()
        load = watch.load()
        after = read_path(self.testbed)
        foreign = foreign_load(load.cpu_s, load.bracket_s, load.by_name)
        self._end(
            "", counts, (*self._checks(counts, before, after), *self._setup_checks(changed), _at_most_doubtful(foreign))
        )

    def _start(self, stack: ExitStack) -> tuple[ReadDaemon, ReadDaemon]:
        exchanger = self.path.exchanger
        far_argv, sender_argv = exchanger.commands(self.load)
        far = exchanger.receiver.start_read(far_argv)
        stack.callback(far.stop)
        deadline = time.monotonic() + READY_LIMIT_S
        while "hello" not in self._series.far_words:
            self._hear_far(far)
            if not far.is_running or time.monotonic() > deadline:
                raise PartCut(does_not_listen(far))
            time.sleep(0.01)
        sender = exchanger.sender.start_read([*sender_argv, *(["--wait", "block"] if self.soak.is_echo else [])])
        stack.callback(sender.stop)
        return far, sender

    def _stay_with(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        """Wait until the sender ends; meanwhile read its output, the router's CPU and the state of the tunnel."""
        end_s = time.monotonic() + self.duration_s + engine.LATE_S + SOAK_GRACE_S
        next_look_s = time.monotonic() + SOAK_INTERVAL_S
        while not sender.wait(SENDER_POLL_S):
            self._hear(sender, far)
            if not far.is_running:
                raise TrialFailed(f"the engine's far end has ended: {far.last_line()[:300]}")
            if self.path.live.tunnel.has_died:
                self._revive()
            now_s = time.monotonic()
            if now_s >= next_look_s:
                next_look_s = max(next_look_s + SOAK_INTERVAL_S, now_s)
                self._look()
            if now_s > end_s:
                raise TrialFailed(f"the engine's sender did not end {SOAK_GRACE_S:g} s after its time")
            self._keep(sender, far)

    def _hear(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        for line in sender.new_lines():
            self._series.take_sender(line)
        self._hear_far(far)
        for reading in self._series.ready():
            self._waiting.append(replace(reading, router_busy_share=self._busy_share))
            payload_bits = mean_payload_bytes(self.soak.spec.payload_bytes) * 8
            self.path.on_second(reading.received_packets * payload_bits / SOAK_INTERVAL_S, self._busy_share)

    def _hear_far(self, far: ReadDaemon) -> None:
        for line in far.new_lines():
            self._series.take_far(line)

    def _look(self) -> None:
        """Read the router's CPU and the logs of the tunnel's programs; called once a second."""
        testbed, tunnel = self.testbed, self.path.live.tunnel
        now = cpu.read_cpu(testbed.router, ())
        self._busy_share = cpu.usage(self._cpu, now, testbed.router.cpus).busy_share
        self._cpu = now
        if restart := tunnel.restart_since(self._said):
            self._note(RESTART, restart)
        for rekey in tunnel.rekeys_since(self._said, is_frequent=True):
            self._note(REKEY, rekey)
        self._said = tunnel.log_sizes()

    def _revive(self) -> None:
        """Bring the tunnel up again after one of its programs has ended. Raises TrialFailed if it does not come up."""
        ended = ", ".join(self._ended_programs())
        self._look()
        self._was_revived = True
        started_s = time.monotonic()
        for attempt in range(1, REVIVALS + 1):
            try:
                self.path.live.bring_up()
                break
            except (CannotHere, TrialFailed, CommandFailed) as error:
                if attempt == REVIVALS:
                    raise TrialFailed(f"{ended} ended, and the tunnel does not come up again: {error}") from None
                time.sleep(REVIVAL_WAIT_S)
        self._said = self.path.live.tunnel.log_sizes()
        self._cpu, self._busy_share = cpu.read_cpu(self.testbed.router, ()), None
        self._note(RESTART, f"{ended} ended; the tunnel was up again after {time.monotonic() - started_s:.1f} s")
        wrong = [check.reason for check in self.path.live.tunnel.negotiated() if check.verdict is Verdict.VOID]
        if wrong:
            raise TrialFailed(f"the tunnel that came up again differs from the plan: {'; '.join(wrong)}")

    def _ended_programs(self) -> list[str]:
        tunnel = self.path.live.tunnel
        ends = (("router", tunnel.daemons_under_test), (tunnel.far_end.host.name, tunnel.far_daemons))
        return [f"{each.name} on the {end}" for end, daemons in ends for each in daemons if not each.is_running]

    def _note(self, kind: str, text: str) -> None:
        first_ns = self._series.first_ns
        at_s = 0.0 if first_ns is None else max(0.0, (time.monotonic_ns() - first_ns) / 1e9)
        self._events.append(SoakEvent(round(at_s, 3), kind, text[:EVENT_LENGTH]))

    def _keep(self, sender: ReadDaemon, far: ReadDaemon) -> None:
        """Store the readings that are not stored yet, if there are enough for one piece (CHUNK_READINGS)."""
        if len(self._waiting) >= CHUNK_READINGS:
            self._store(self._memory(sender, far))

    def _store(self, memory_bytes: dict[str, int]) -> None:
        if not self._chunks:
            self.part = replace(self.part, started_at=self._started_at())
            self.journal.begin_part(self.soak, self.part)
        chunk = SoakChunk(tuple(self._waiting), tuple(self._events), memory_bytes)
        self.journal.add_chunk(self.soak.spec.sequence, self.part.number, self._chunks, chunk)
        self._chunks += 1
        self._waiting.clear()
        self._events.clear()

    def _store_rest(self) -> None:
        for reading in self._series.ready(is_over=True):
            self._waiting.append(replace(reading, router_busy_share=self._busy_share))
        if self._waiting or (self._events and self._chunks):
            self._store({})

    def _started_at(self) -> str:
        """Return the wall clock time of the first packet, as ISO 8601."""
        since_s = (time.monotonic_ns() - (self._series.first_ns or time.monotonic_ns())) / 1e9
        return datetime.fromtimestamp(time.time() - since_s, UTC).isoformat(timespec="milliseconds")

    def _memory(self, sender: ReadDaemon, far: ReadDaemon) -> dict[str, int]:
        tunnel = self.path.live.tunnel
        pids = {"controller": os.getpid(), "engine/sender": sender.pid, "engine/receiver": far.pid}
        pids |= {f"router/{daemon.name}": daemon.pid for daemon in tunnel.daemons_under_test}
        pids |= {f"{tunnel.far_end.host.name}/{daemon.name}": daemon.pid for daemon in tunnel.far_daemons}
        found = {name: resident_bytes(pid) for name, pid in pids.items()}
        return {name: size for name, size in found.items() if size}

    def _finish(self, sender: ReadDaemon, far: ReadDaemon) -> UdpCounts:
        """Wait for late packets and the far end's summary, and return the counts of both."""
        if not self.soak.is_echo:
            time.sleep(engine.LATE_S)
        end_far_end(far)
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
        if not self.soak.is_echo:  # the answers under way are not awaited
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
            return  # nothing was counted, so there is no such part
        ended_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.part = replace(self.part, ended_at=ended_at, ended=why, counts=counts, checks=checks)
        self.journal.end_part(self.soak, self.part)

    def _checks(self, counts: UdpCounts, before: Snapshot, after: Snapshot) -> tuple[Check, ...]:
        """Return the checks of the whole part, made from the packets that the engine counted."""
        tunnel, spec = self.path.live.tunnel, self.soak.spec
        received = counts.received_packets + (counts.reached_packets or 0)
        payload_bytes = round(received * mean_payload_bytes(spec.payload_bytes))
        frames_bytes = payload_bytes + received * (ETHERNET_HEADER_BYTES + UDP_HEADERS_BYTES)
        counters = replace(outer_counters(before, after), data_packets=received, data_bytes=frames_bytes)
        return (
            outer_protocol(
                counters,
                received,
                payload_bytes,
                str(tunnel.outer),
                exact=False,
                compression=tunnel.compression,
            ),
            _at_most_doubtful(check_offered(spec, counts)),
            check_receiver(counts),
            check_packet_state(counts),
            router_cpu(router_cpu_doubt(self.testbed, tunnel)),
        )

    def _setup_checks(self, changed: Sequence[str]) -> tuple[Check, ...]:
        """Return the checks of the testbed's set-up after the part; `changed` names what was changed during it."""
        testbed, programs = self.testbed, self.path.live.tunnel.daemons_under_test
        found = (
            offloads_off(testbed.late_offloads()),
            router_setup(testbed.misplaced(programs), testbed.late_rules()),
            path_setup((*changed, *testbed.altered())),
        )
        return tuple(_at_most_doubtful(each) for each in found)


EVENT_LENGTH = 200
"""Largest length of a daemon's message that is kept [characters]."""


def _at_most_doubtful(check: Check) -> Check:
    """Return a check with void replaced by doubtful, so that one bad moment does not discard a soak of a week."""
    return replace(check, verdict=Verdict.DOUBTFUL) if check.verdict is Verdict.VOID else check
