"""Summary of the series of a soak, read once and chunk by chunk, so that a week takes no more memory than a minute.

A loss is attributed to the second in which the packets were sent. The receiver detects a missing packet when the next
packet arrives. Packets that are found missing after seconds without any arrival were therefore lost in those seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from tunnelbench.analysis.memory import MemorySamples, MemoryTrend
from tunnelbench.analysis.number_format import percent_in_words
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.soak import REKEY, RESTART, SOAK_INTERVAL_S, Soak, SoakChunk, SoakPart, SoakReading
from tunnelbench.model.text import counted
from tunnelbench.model.udp import mean_payload_bytes

MOST_EVENTS = 50
"""Largest number of restarts, of rekeys and of gaps that are listed; all of them are counted."""


@dataclass(frozen=True)
class Moment:
    """An event at a time of the soak."""

    at_s: float
    """Time since the first packet of the soak, gaps included [s]."""
    text: str


@dataclass(frozen=True)
class Gap:
    """A time without measurement: its packets count neither as carried nor as lost."""

    at_s: float
    """Time since the first packet of the soak [s]."""
    duration_s: float


@dataclass(frozen=True)
class SoakSummary:
    """A soak in a few figures; None: the soak has no such figure."""

    spec: TrialSpec
    planned_s: float
    measured_s: float
    """Time during which packets were offered [s]."""
    rate_pps: float
    is_echo: bool
    parts: int
    sent_packets: int
    received_packets: int
    lost_packets: int
    """Packets lost on the path, without those that the testers' sockets dropped."""
    late_packets: int | None
    duplicated_packets: int
    reordered_packets: int
    corrupted_packets: int
    tester_dropped_packets: int
    seconds_with_loss: int
    longest_loss_free_s: float
    """Longest time without a lost packet [s]; a gap in the measurement ends such a time."""
    worst_second: Moment | None
    """Second with the most lost packets; None: no packet was lost."""
    worst_second_lost_packets: int
    delay_p50_ns: float | None
    """Median delay of the longest part of the soak whose end was stored [ns]."""
    delay_p99_worst_ns: float | None
    """99th percentile of the delay in the worst second [ns]."""
    delay_max_ns: float | None
    router_busy_share: float | None
    """Mean over the seconds."""
    router_busy_max_share: float | None
    gaps: int
    gaps_s: float
    gap_list: tuple[Gap, ...]
    restarts: int
    restart_list: tuple[Moment, ...]
    rekeys: int
    rekey_list: tuple[Moment, ...]
    memory: tuple[MemoryTrend, ...]
    """Memory of the tunnel's programs, then of TunnelBench's own programs."""
    ended: str
    """Reason for which the last part ended early, `unknown` if it was not recorded; empty if it ended in time."""

    @property
    def is_complete(self) -> bool:
        return self.measured_s >= self.planned_s - 1.5 * SOAK_INTERVAL_S

    @property
    def offered_pps(self) -> float:
        return self.sent_packets / self.measured_s if self.measured_s else 0.0

    @property
    def offered_bps(self) -> float:
        """UDP payload that was sent [bit/s]."""
        return self.offered_pps * mean_payload_bytes(self.spec.payload_bytes) * 8

    @property
    def received_pps(self) -> float:
        return self.received_packets / self.measured_s if self.measured_s else 0.0

    @property
    def loss_ratio(self) -> float:
        """Packets lost on the path over packets sent, 0 to 1."""
        return self.lost_packets / self.sent_packets if self.sent_packets else 0.0


@dataclass
class _Second:
    """A second to which a later reading may still add lost packets."""

    at_s: float
    duration_s: float
    lost: int


@dataclass
class _Silence:
    """Consecutive seconds in which packets were sent and none arrived."""

    at_s: float = 0.0
    seconds: int = 0
    duration_s: float = 0.0
    sent: int = 0
    most_sent: int = 0
    most_sent_at_s: float = 0.0


@dataclass
class _Losses:
    """Attributes missing packets to seconds."""

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
        missing = reading.path_missing_packets
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
            # A second cannot lose more packets than it sent without receiving; the rest was lost in the silence.
            own = min(missing, max(0, reading.sent_packets - reading.received_packets))
            self._end_silence(missing - own)
            missing = own
        if missing < 0 and self._last is not None:  # packets that were missing have arrived late
            back = min(-missing, max(0, self._last.lost))
            self._last.lost -= back
            missing += back
        if duration_s <= 0:
            self._add_to_last(missing)
            return
        self._settle_last()
        self._last = _Second(at_s, duration_s, missing)

    def end_part(self, tail: int | None) -> None:
        """End a part.

        `tail` is the number of packets missing after the last packet that arrived. None: it was not recorded, and all
        packets of silent seconds count as lost.
        """
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
            self._free_s += silence.duration_s  # the packets were late, not lost
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


class _Sums:
    """Sums over the readings of a soak."""

    def __init__(self, soak: Soak) -> None:
        self.soak = soak
        self.losses = _Losses()
        self.measured_s = 0.0
        self.counts = [0] * len(COUNTED)
        self.late: int | None = None
        self.p99_worst: float | None = None
        self.delay_max: float | None = None
        self.busy_s = self.busy_of_s = 0.0
        self.busy_max: float | None = None
        self.gaps: list[Gap] = []
        self.gap_count, self.gaps_s = 0, 0.0
        self.events: dict[str, list[Moment]] = {RESTART: [], REKEY: []}
        self.event_counts = {RESTART: 0, REKEY: 0}
        self.samples = MemorySamples()
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
                self.samples.discard(include_testers=False)
            if len(self.events[event.kind]) < MOST_EVENTS:
                self.events[event.kind].append(Moment(offset_s + event.at_s, event.text))
        for reading in chunk.readings:
            self._take_reading(offset_s, reading)
        if chunk.readings:
            self.samples.take(offset_s + chunk.readings[-1].end_s, chunk.memory_bytes)

    @property
    def _offset_s(self) -> float:
        return self._part.started_s - self._started_s if self._part else 0.0

    def _begin_part(self, part: SoakPart) -> None:
        before_s = self._offset_s + self._end_s
        had_one = self._part is not None
        self.end_part()
        self._part, self._missing, self._end_s = part, 0, 0.0
        if had_one:
            self.samples.discard(include_testers=True)
            self.gap_count += 1
            gap = Gap(before_s, max(0.0, self._offset_s - before_s))
            self.gaps_s += gap.duration_s
            if len(self.gaps) < MOST_EVENTS:
                self.gaps.append(gap)

    def end_part(self) -> None:
        """End the current part, if there is one."""
        if self._part is not None:
            counts = self._part.counts
            self.losses.end_part(None if counts is None else counts.lost_packets - self._missing)

    def _take_reading(self, offset_s: float, reading: SoakReading) -> None:
        duration_s = reading.end_s - reading.start_s
        self.measured_s += duration_s
        self._end_s = max(self._end_s, reading.end_s)
        self._missing += reading.missing_packets
        self.counts = [before + count for before, count in zip(self.counts, _counted(reading), strict=True)]
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
    """Summarise the series of a soak, given as chunks in order with the numbers of their parts."""
    sums = _Sums(soak)
    for number, chunk in chunks:
        sums.take(number, chunk)
    sums.end_part()
    losses = sums.losses
    ended = [part.counts for part in soak.parts if part.counts is not None and part.counts.delay is not None]
    longest = max(ended, key=lambda counts: counts.sent_packets, default=None)
    last = soak.parts[-1] if soak.parts else None
    return SoakSummary(
        spec=soak.spec,
        planned_s=soak.duration_s,
        measured_s=sums.measured_s,
        rate_pps=soak.rate_pps,
        is_echo=soak.is_echo,
        parts=len(soak.parts),
        **dict(zip(COUNTED, sums.counts, strict=True)),
        lost_packets=losses.lost,
        late_packets=sums.late,
        seconds_with_loss=losses.seconds,
        longest_loss_free_s=losses.longest_free_s,
        worst_second=Moment(losses.worst_at_s, "") if losses.worst else None,
        worst_second_lost_packets=losses.worst,
        delay_p50_ns=longest.delay.p50_ns if longest and longest.delay else None,
        delay_p99_worst_ns=sums.p99_worst,
        delay_max_ns=sums.delay_max,
        router_busy_share=sums.busy_s / sums.busy_of_s if sums.busy_of_s else None,
        router_busy_max_share=sums.busy_max,
        gaps=sums.gap_count,
        gaps_s=sums.gaps_s,
        gap_list=tuple(sums.gaps),
        restarts=sums.event_counts[RESTART],
        restart_list=tuple(sums.events[RESTART]),
        rekeys=sums.event_counts[REKEY],
        rekey_list=tuple(sums.events[REKEY]),
        memory=sums.samples.trends(),
        ended="" if last is None or (last.ended_at and not last.ended) else last.ended or "unknown",
    )


def check_soak(soak: Soak, chunks: Iterable[tuple[int, SoakChunk]]) -> Check:
    """Judge a soak as a whole (rule 20): loss, a restart or a gap makes it a note."""
    summary = summarise_soak(soak, chunks)
    is_odd = summary.lost_packets or summary.restarts or summary.gaps
    return Check("soak", Verdict.NOTE if is_odd else Verdict.OK, in_words(summary), rule=20)


def in_words(summary: SoakSummary) -> str:
    """Return the most important figures as a sentence."""
    words = [
        f"{summary.measured_s:,.0f} of {summary.planned_s:,.0f} s at {summary.rate_pps:,.0f} packets/s",
        f"{summary.lost_packets:,} of {summary.sent_packets:,} packets lost ({percent_in_words(summary.loss_ratio)})",
    ]
    if summary.lost_packets:
        words.append(f"losses in {summary.seconds_with_loss:,} s, at most {summary.worst_second_lost_packets:,} in 1 s")
    words += [
        counted(number, name)
        for number, name in ((summary.restarts, "restart"), (summary.rekeys, "rekey"), (summary.gaps, "gap"))
        if number
    ]
    return ", ".join(words)
