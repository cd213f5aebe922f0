"""What the series of a soak says, read once and piece by piece: a week takes no more memory than a minute.

Losses belong to the second in which the packets were sent. The receiver notices a missing packet by the next one that
arrives: what is missing when packets come again after silence was lost in the silent seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from tunnelbench.analysis.memory import MemoryTrend, Samples
from tunnelbench.analysis.numbers import percent
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.soak import INTERVAL_S, REKEY, RESTART, Soak, SoakChunk, SoakPart, SoakReading

MOST_EVENTS = 50
"""Of restarts, of rekeys and of gaps so many are named; all are counted."""


@dataclass(frozen=True)
class Moment:
    """Something at a time of the soak."""

    at_s: float
    """Since the first packet of all, gaps included [s]."""
    text: str


@dataclass(frozen=True)
class Gap:
    """Nobody measured: neither carried nor lost."""

    at_s: float
    """Since the first packet of all [s]."""
    duration_s: float


@dataclass(frozen=True)
class SoakSummary:
    """A soak in a few figures; None where it has no such figure."""

    spec: TrialSpec
    planned_s: float
    measured_s: float
    """For how long packets were offered [s]."""
    rate_pps: float
    is_echo: bool
    parts: int
    sent_packets: int
    received_packets: int
    lost_packets: int
    """On the path: what the testers' sockets dropped is theirs."""
    late_packets: int | None
    duplicated_packets: int
    reordered_packets: int
    corrupted_packets: int
    tester_dropped_packets: int
    seconds_with_loss: int
    longest_loss_free_s: float
    """Without a packet lost; it ends at a gap [s]."""
    worst_second: Moment | None
    """The one in which most packets were lost; None: none was."""
    worst_second_lost_packets: int
    delay_p50_ns: float | None
    """Of the longest part that came to its end."""
    delay_p99_worst_ns: float | None
    """99th percentile of the worst second."""
    delay_max_ns: float | None
    router_busy_share: float | None
    """Mean of the seconds."""
    router_busy_max_share: float | None
    gaps: int
    gaps_s: float
    gap_list: tuple[Gap, ...]
    restarts: int
    restart_list: tuple[Moment, ...]
    rekeys: int
    rekey_list: tuple[Moment, ...]
    memory: tuple[MemoryTrend, ...]
    """Of the tunnel's programs, then of our own."""
    ended: str
    """Why the last part ended before its time, `unknown` where nobody noted it; empty where it did not."""

    @property
    def is_complete(self) -> bool:
        return self.measured_s >= self.planned_s - 1.5 * INTERVAL_S

    @property
    def offered_pps(self) -> float:
        return self.sent_packets / self.measured_s if self.measured_s else 0.0

    @property
    def received_pps(self) -> float:
        return self.received_packets / self.measured_s if self.measured_s else 0.0

    @property
    def loss_ratio(self) -> float:
        """Lost on the path over sent, 0 to 1."""
        return self.lost_packets / self.sent_packets if self.sent_packets else 0.0


@dataclass
class _Second:
    """One that may still turn out to have lost packets."""

    at_s: float
    duration_s: float
    lost: int


@dataclass
class _Silence:
    """Seconds in a row in which packets were sent and none arrived."""

    at_s: float = 0.0
    seconds: int = 0
    duration_s: float = 0.0
    sent: int = 0
    most_sent: int = 0
    most_sent_at_s: float = 0.0


@dataclass
class _Losses:
    """Attributes what is missing to seconds."""

    lost: int = 0
    seconds: int = 0
    worst: int = 0
    worst_at_s: float = 0.0
    longest_free_s: float = 0.0
    _free_s: float = 0.0
    _last: _Second | None = None
    _silence: _Silence = field(default_factory=_Silence)

    def take(self, at_s: float, reading: SoakReading) -> None:
        duration_s = reading.end_s - reading.start_s
        missing = reading.missing_packets - reading.tester_dropped_packets
        if reading.sent_packets and not reading.received_packets and not missing:
            silence = self._silence
            if not silence.seconds:
                silence.at_s = at_s
            silence.seconds += 1
            silence.duration_s += duration_s
            silence.sent += reading.sent_packets
            if reading.sent_packets > silence.most_sent:
                silence.most_sent, silence.most_sent_at_s = reading.sent_packets, at_s
            return
        if self._silence.seconds:
            # Of this second no more can be lost than was sent and did not arrive; the rest is the silence's.
            own = min(missing, max(0, reading.sent_packets - reading.received_packets))
            self._end_silence(missing - own)
            missing = own
        if missing < 0 and self._last is not None:  # some of what was missing has come after all
            back = min(-missing, max(0, self._last.lost))
            self._last.lost -= back
            missing += back
        if duration_s <= 0:
            self._add_to_last(missing)
            return
        self._settle_last()
        self._last = _Second(at_s, duration_s, missing)

    def end_part(self, tail: int | None) -> None:
        """`tail`: what is missing at the end beyond what the numbers left out; None: nobody noted it, and of silent
        seconds all is lost."""
        if self._silence.seconds:
            silent = self._silence.sent if tail is None else min(tail, self._silence.sent)
            self._end_silence(silent)
            tail = None if tail is None else tail - silent
        self._add_to_last(tail or 0)
        self._settle_last()
        self._close_stretch()

    def _add_to_last(self, lost: int) -> None:
        if self._last is None:
            self.lost += lost
        else:
            self._last.lost += lost

    def _end_silence(self, lost: int) -> None:
        silence, self._silence = self._silence, _Silence()
        in_it = max(0, min(lost, silence.sent))
        self._add_to_last(lost - in_it)
        self._settle_last()
        self.lost += in_it
        if not in_it:
            self._free_s += silence.duration_s  # they were only late
            return
        self._close_stretch()
        self.seconds += silence.seconds
        most = min(silence.most_sent, in_it)
        if most > self.worst:
            self.worst, self.worst_at_s = most, silence.most_sent_at_s

    def _settle_last(self) -> None:
        second, self._last = self._last, None
        if second is None:
            return
        self.lost += second.lost
        if second.lost <= 0:
            self._free_s += second.duration_s
            return
        self._close_stretch()
        self.seconds += 1
        if second.lost > self.worst:
            self.worst, self.worst_at_s = second.lost, second.at_s

    def _close_stretch(self) -> None:
        self.longest_free_s = max(self.longest_free_s, self._free_s)
        self._free_s = 0.0


class _Tally:
    """Sums over the readings."""

    def __init__(self, soak: Soak) -> None:
        self.soak = soak
        self.losses = _Losses()
        self.measured_s = 0.0
        self.sums = [0] * len(COUNTED)
        self.late: int | None = None
        self.p99_worst: float | None = None
        self.delay_max: float | None = None
        self.busy_s = self.busy_of_s = 0.0
        self.busy_max: float | None = None
        self.gaps: list[Gap] = []
        self.gap_count, self.gaps_s = 0, 0.0
        self.events: dict[str, list[Moment]] = {RESTART: [], REKEY: []}
        self.event_counts = {RESTART: 0, REKEY: 0}
        self.samples = Samples()
        self._part: SoakPart | None = None
        self._missing = 0
        self._end_s = 0.0
        self._started_s = soak.parts[0].started_s if soak.parts else 0.0

    def take(self, number: int, chunk: SoakChunk) -> None:
        if self._part is None or self._part.number != number:
            self._begin_part(next(part for part in self.soak.parts if part.number == number))
        offset_s = self._offset_s
        for event in chunk.events:
            self.event_counts[event.kind] += 1
            if event.kind == RESTART:
                self.samples.begin_anew(with_our_own=False)
            if len(self.events[event.kind]) < MOST_EVENTS:
                self.events[event.kind].append(Moment(offset_s + event.at_s, event.text))
        for reading in chunk.readings:
            self._take_reading(offset_s, reading)
        if chunk.readings:
            self.samples.take(offset_s + chunk.readings[-1].end_s, chunk.memory_bytes)

    def end(self) -> None:
        """All was taken."""
        self._end_part()

    @property
    def _offset_s(self) -> float:
        return self._part.started_s - self._started_s if self._part else 0.0

    def _begin_part(self, part: SoakPart) -> None:
        before_s = self._offset_s + self._end_s
        had_one = self._part is not None
        self._end_part()
        self._part, self._missing, self._end_s = part, 0, 0.0
        if had_one:
            self.samples.begin_anew(with_our_own=True)
            self.gap_count += 1
            gap = Gap(before_s, max(0.0, self._offset_s - before_s))
            self.gaps_s += gap.duration_s
            if len(self.gaps) < MOST_EVENTS:
                self.gaps.append(gap)

    def _end_part(self) -> None:
        if self._part is not None:
            counts = self._part.counts
            self.losses.end_part(None if counts is None else counts.lost_packets - self._missing)

    def _take_reading(self, offset_s: float, reading: SoakReading) -> None:
        duration_s = reading.end_s - reading.start_s
        self.measured_s += duration_s
        self._end_s = max(self._end_s, reading.end_s)
        self._missing += reading.missing_packets
        self.sums = [before + count for before, count in zip(self.sums, _counted(reading), strict=True)]
        if reading.late_packets is not None:
            self.late = (self.late or 0) + reading.late_packets
        if reading.delay_p99_ns is not None:
            self.p99_worst = max(self.p99_worst or 0.0, reading.delay_p99_ns)
        if reading.delay_max_ns is not None:
            self.delay_max = max(self.delay_max or 0.0, reading.delay_max_ns)
        if reading.router_busy_share is not None:
            self.busy_s += reading.router_busy_share * duration_s
            self.busy_of_s += duration_s
            self.busy_max = max(self.busy_max or 0.0, reading.router_busy_share)
        self.losses.take(offset_s + reading.start_s, reading)


COUNTED = (
    "sent_packets",
    "received_packets",
    "duplicated_packets",
    "reordered_packets",
    "corrupted_packets",
    "tester_dropped_packets",
)
_counted = attrgetter(*COUNTED)


def summarise_soak(soak: Soak, chunks: Iterable[tuple[int, SoakChunk]]) -> SoakSummary:
    """The whole series, read once: pieces with the numbers of their parts, in order."""
    tally = _Tally(soak)
    for number, chunk in chunks:
        tally.take(number, chunk)
    tally.end()
    losses = tally.losses
    ended = [part.counts for part in soak.parts if part.counts is not None and part.counts.delay is not None]
    longest = max(ended, key=lambda counts: counts.sent_packets, default=None)
    last = soak.parts[-1] if soak.parts else None
    return SoakSummary(
        spec=soak.spec,
        planned_s=soak.duration_s,
        measured_s=tally.measured_s,
        rate_pps=soak.rate_pps,
        is_echo=soak.is_echo,
        parts=len(soak.parts),
        **dict(zip(COUNTED, tally.sums, strict=True)),
        lost_packets=losses.lost,
        late_packets=tally.late,
        seconds_with_loss=losses.seconds,
        longest_loss_free_s=losses.longest_free_s,
        worst_second=Moment(losses.worst_at_s, "") if losses.worst else None,
        worst_second_lost_packets=losses.worst,
        delay_p50_ns=longest.delay.p50_ns if longest and longest.delay else None,
        delay_p99_worst_ns=tally.p99_worst,
        delay_max_ns=tally.delay_max,
        router_busy_share=tally.busy_s / tally.busy_of_s if tally.busy_of_s else None,
        router_busy_max_share=tally.busy_max,
        gaps=tally.gap_count,
        gaps_s=tally.gaps_s,
        gap_list=tuple(tally.gaps),
        restarts=tally.event_counts[RESTART],
        restart_list=tuple(tally.events[RESTART]),
        rekeys=tally.event_counts[REKEY],
        rekey_list=tuple(tally.events[REKEY]),
        memory=tally.samples.trends(),
        ended="" if last is None or (last.ended_at and not last.ended) else last.ended or "unknown",
    )


def in_words(summary: SoakSummary) -> str:
    """The figures that matter most, in a sentence."""
    words = [
        f"{summary.measured_s:.0f} of {summary.planned_s:.0f} s at {summary.rate_pps:.6g} packets/s",
        f"{summary.lost_packets} of {summary.sent_packets} packets lost ({percent(summary.loss_ratio)})",
    ]
    if summary.lost_packets:
        words.append(f"in {summary.seconds_with_loss} s, up to {summary.worst_second_lost_packets} in one")
    for number, name in ((summary.restarts, "restart"), (summary.rekeys, "rekey"), (summary.gaps, "gap")):
        if number:
            words.append(f"{number} {name}{'s' * (number != 1)}")
    return ", ".join(words)
