"""Shows the progress of a run: a live view on a terminal, plain lines in a pipe."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from enum import StrEnum
from statistics import median
from typing import IO, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from tunnelbench.cli.stderr_messages import say
from tunnelbench.measure.request import Observer
from tunnelbench.model.connections import ConnectionCounts
from tunnelbench.model.plan import IMIX_NAME, Plan, Test, TrialSpec, TunnelSpec, paced_text
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, lower_bounds
from tunnelbench.model.text import counted, printable
from tunnelbench.model.udp import UdpMeasurement

SPARKS = "▁▂▃▄▅▆▇█"
RECENT_LINES = 8


def describe(spec: TrialSpec) -> str:
    """Describe a trial in a few words."""
    if spec.test.is_of_connections:
        return f"{spec.tunnel.name}, {spec.direction.label}, TCP connections {spec.test} {spec.load}"
    unit = "" if spec.payload == IMIX_NAME else " bytes"
    words = [spec.tunnel.name, f"{spec.payload}{unit}", spec.direction.label]
    if spec.test is not Test.TCP:
        words.append(f"UDP {spec.test} {spec.load}".rstrip())
    elif spec.load:
        words.append(paced_text(spec.load))
    return ", ".join(words)


def outcome_line(record: TrialRecord) -> str:
    """Return the outcome of a trial in one line."""
    if record.tcp:
        tcp = record.tcp
        rates = f"{tcp.throughput_bps / 1e6:.1f} Mbit/s, {tcp.data_pps:.0f} packets/s"
        figures = f"{rates}, router {tcp.router_busy_share:.0%} busy"
    elif summary := next((check.reason for check in record.checks if check.name == "soak"), ""):
        figures = summary
    elif record.udp and record.udp.connections:
        figures = connection_figures(record.udp.connections)
    elif record.udp:
        figures = udp_figures(record.udp)
    else:
        return f"{describe(record.spec)}: {record.outcome}: {record.reason}"
    grave = [check.name for check in record.checks if check.verdict in (Verdict.VOID, Verdict.DOUBTFUL)]
    doubts = f" [{record.verdict}: {', '.join(grave)}]" if grave else ""
    return f"{describe(record.spec)}: {figures}{doubts}"


def connection_figures(counts: ConnectionCounts) -> str:
    """Return the figures of a trial of TCP connections in a few words."""
    lost = f", {counts.not_established} not established" if counts.not_established else ""
    if not counts.closed and not counts.broken:  # all were kept
        return f"up to {counts.open_max} connections open{lost}"
    return f"{counts.established_per_s:.0f} new connections/s{lost}"


def udp_figures(udp: UdpMeasurement) -> str:
    """Return the figures of a UDP trial in a few words."""
    parts = []
    for name, loss_ratio in (("NDR", NDR_LOSS_RATIO), ("PDR", PDR_LOSS_RATIO)):
        found = lower_bounds(udp.searches, loss_ratio)
        if udp.searches:
            parts.append(f"{name} {median(found):.0f} packets/s" if found else f"no {name}")
    if udp.is_refuted:
        parts.append("refuted")
    if udp.counts and not udp.searches:
        counts = udp.counts
        parts.append(f"{counts.forwarding_rate_pps:.0f} packets/s, {counts.path_lost_packets} lost")
        if counts.delay:
            parts.append(f"delay {counts.delay.p50_ns / 1e3:.0f} µs, 99 % under {counts.delay.p99_ns / 1e3:.0f} µs")
    if udp.handshakes and udp.handshakes.per_s:
        parts.append(f"{udp.handshakes.per_s:.3g} new tunnels/s")
    if udp.points:
        parts.append(f"{len(udp.points)} loads")
    if udp.longest_burst_packets is not None:
        parts.append(f"a burst of {udp.longest_burst_packets} packets arrives without loss")
    if udp.router_busy_share is not None:
        parts.append(f"router {udp.router_busy_share:.0%} busy")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Format a duration as 1:02:03 or 2:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Pace(StrEnum):
    """Kinds of trials whose real durations differ from the expected ones by factors of their own."""

    SHORT = "short"
    """Everything else. The time before a trial, in which the tunnel comes up, is part of it."""
    SEARCH = "search"
    """A busy machine repeats many trials of a search."""
    SOAK = "soak"


def pace_of(spec: TrialSpec) -> Pace:
    """Return the kind of a trial."""
    if spec.test is Test.SOAK:
        return Pace.SOAK
    return Pace.SEARCH if spec.test.is_search else Pace.SHORT


class Progress(Observer):
    """Counts the finished trials of a run and estimates the remaining time.

    The estimate begins with the durations that the plan expects. As trials end, it follows the time that they took: on
    a slow router each trial takes longer than the plan can know.
    """

    def __init__(self, plan: Plan) -> None:
        specs = plan.every_trial()
        self.total = len(specs)
        self.rounds = plan.rounds
        self.plan = plan
        trials_s = sum(plan.expected_trial_s(spec) for spec in specs)
        self._beside_share = plan.expected_duration_s() / trials_s if trials_s else 1.0
        """Expected duration of the run divided by that of its trials: the time in which tunnels come up is added."""
        self.done = 0
        self._left_s = {pace: sum(self._expected_s(spec) for spec in specs if pace_of(spec) is pace) for pace in Pace}
        """Expected duration of the trials that have not ended [s]."""
        self._taken_s = dict.fromkeys(Pace, 0.0)
        self._expected_taken_s = dict.fromkeys(Pace, 0.0)
        """Real and expected duration of the trials that this process has measured [s]."""
        self._began_s: float | None = None
        """End of the last trial, or start of the first one, on the monotonic clock [s]; None: none has started."""
        self._now: TrialSpec | None = None
        self.trial_started_s = 0.0
        """Start of the last trial on the monotonic clock [s]."""

    def _expected_s(self, spec: TrialSpec) -> float:
        """Return the duration that the plan expects of a trial, with the time before it [s]."""
        return self.plan.expected_trial_s(spec) * self._beside_share

    def _factor(self, pace: Pace) -> float:
        """Return the real divided by the expected duration of the trials of a kind so far."""
        expected_s = self._expected_taken_s[pace]
        return self._taken_s[pace] / expected_s if expected_s else 1.0

    @property
    def left_s(self) -> float:
        """Return the expected remaining time [s]."""
        if self.done >= self.total:
            return 0.0
        left_s = sum(self._left_s[pace] * self._factor(pace) for pace in Pace)
        trial, began_s = self._now, self._began_s  # another thread may end the trial meanwhile
        if trial is None or began_s is None:
            return left_s
        longest_s = self._expected_s(trial) * self._factor(pace_of(trial))
        return max(0.0, left_s - min(time.monotonic() - began_s, longest_s))

    def know(self, records: Sequence[TrialRecord]) -> None:
        """Count these trials as finished; a resumed run has stored them before."""
        self.done = len(records)
        for record in records:
            self._left_s[pace_of(record.spec)] -= self._expected_s(record.spec)

    def trial_starts(self, spec: TrialSpec) -> None:
        self.trial_started_s = time.monotonic()
        self._began_s = self.trial_started_s if self._began_s is None else self._began_s
        self._now = spec

    def trial_ended(self, record: TrialRecord) -> None:
        self.done += 1
        pace, now_s = pace_of(record.spec), time.monotonic()
        self._left_s[pace] -= self._expected_s(record.spec)
        if record.measurement is not None and self._now is not None and self._began_s is not None:
            self._taken_s[pace] += now_s - self._began_s
            self._expected_taken_s[pace] += self._expected_s(record.spec)
        self._began_s, self._now = now_s, None

    @contextmanager
    def showing(self) -> Iterator[None]:
        yield


class PlainProgress(Progress):
    """Prints one plain line for each trial."""

    def __init__(self, plan: Plan, *, to_stderr: bool) -> None:
        super().__init__(plan)
        self.to_stderr = to_stderr

    def tried_out(self, found: str) -> None:
        say(found, err=self.to_stderr)

    def recovered(self, done: str) -> None:
        say(done, err=self.to_stderr)

    def cipher_starts(self, what: str) -> None:
        say(what, err=self.to_stderr)

    def waited_for_quiet(self, seconds: float) -> None:
        if seconds >= 1:
            say(f"waited {seconds:.0f} s for other load to end", err=self.to_stderr)

    def trial_ended(self, record: TrialRecord) -> None:
        super().trial_ended(record)
        say(
            f"{self.done}/{self.total} round {record.spec.round} {outcome_line(record)} ({clock(self.left_s)} left)",
            err=self.to_stderr,
        )


TERMINAL_WAIT_LIMIT_S = 0.2
"""Longest wait for a terminal that takes no output [s]."""


class TerminalWriter:
    """Writes to the terminal of a stream, and drops what the terminal does not take in TERMINAL_WAIT_LIMIT_S.

    A terminal takes no output after Ctrl-S, or while the network to it is interrupted. A thread that waits for the
    terminal holds the lock of the live view, so that the program could not end. This class therefore writes without
    waiting. It opens the terminal a second time for that: other programs share the descriptor of the stream, and their
    writes must still wait.
    """

    def __init__(self, stream: TextIO) -> None:
        """Raises OSError or ValueError if the stream has no file that can be opened."""
        place = f"/proc/self/fd/{stream.fileno()}"
        self._descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        content = text.encode(self.encoding, "replace")
        give_up_s = time.monotonic() + TERMINAL_WAIT_LIMIT_S
        while content:
            try:
                content = content[os.write(self._descriptor, content) :]
            except BlockingIOError:
                left_s = give_up_s - time.monotonic()
                if left_s <= 0 or not select.select([], [self._descriptor], [], left_s)[1]:
                    break
            except OSError:  # the terminal is gone: the run continues
                break
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)


class LiveView(Progress):
    """Shows the current trial with its rate each second, the finished trials and the remaining time, with rich."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.current = ""
        self.rates_bps: deque[float] = deque(maxlen=40)
        self.classes: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=RECENT_LINES)

    def tried_out(self, found: str) -> None:
        self.recent.append(found)

    def recovered(self, done: str) -> None:
        self.recent.append(done)

    def cipher_starts(self, what: str) -> None:
        self.current = what

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self.current = f"round {round_number}: starting and proving tunnel {tunnel.name}"
        self.rates_bps.clear()

    def trial_starts(self, spec: TrialSpec) -> None:
        super().trial_starts(spec)
        self.current = f"round {spec.round}: {describe(spec)}"
        self.rates_bps.clear()

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        self.rates_bps.append(rate_bps)

    def waited_for_quiet(self, seconds: float) -> None:
        if seconds >= 1:
            self.recent.append(f"waited {seconds:.0f} s for other load to end")

    def trial_ended(self, record: TrialRecord) -> None:
        super().trial_ended(record)
        label = str(record.verdict) if record.outcome is Outcome.MEASURED else str(record.outcome)
        self.classes[label] += 1
        self.recent.append(outcome_line(record))

    @contextmanager
    def showing(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                file = cast("IO[str]", stack.enter_context(closing(TerminalWriter(sys.stdout))))
            except (OSError, ValueError):  # not a file, as in tests
                file = sys.stdout
            live = Live(get_renderable=self._draw, console=Console(file=file), refresh_per_second=2, transient=True)
            live.start()
            try:
                yield
            finally:
                with suppress(OSError):  # a terminal that is gone must not hide why the run ends
                    live.stop()

    def _draw(self) -> RenderableType:
        classes = ", ".join(f"{count} {name}" for name, count in self.classes.items())
        rates = list(self.rates_bps)
        rate = f"{rates[-1] / 1e6:.1f} Mbit/s on the wire {spark(rates)}" if rates else ""
        # Text, not markup, and printable: names come from a file, and reasons repeat the output of programs.
        return Group(
            *(Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in self.recent),
            Text(printable(self.current), style="bold", no_wrap=True, overflow="ellipsis"),
            Text(rate, no_wrap=True, overflow="crop"),
            Text(
                f"{self.done} of {counted(self.total, 'trial')}, {clock(self.left_s)} left"
                + (f"; {classes}" if classes else "")
            ),
            ProgressBar(total=self.total, completed=self.done),  # last: it ends without a line break of its own
        )


def spark(values: list[float]) -> str:
    """Return a row of bar characters whose heights are proportional to the values."""
    top = max(values) or 1.0
    return "".join(SPARKS[round(value / top * (len(SPARKS) - 1))] for value in values)
