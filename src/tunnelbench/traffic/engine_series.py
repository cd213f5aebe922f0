"""A series from the engine's interval lines while they come: each second of the sender and of the receiver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tunnelbench.host.parsing import count, parsing
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.soak import SOAK_INTERVAL_S, SoakReading
from tunnelbench.traffic.engine import PROTOCOL, delay_ns

WAITED_FOR = 3
"""Number of intervals after which an interval without a line of the receiver counts as empty."""

NOTHING_ARRIVED = SoakReading(0.0, 0.0, 0, 0, 0, None, 0, 0, 0, 0)


class Series:
    """A converter from lines of both ends to readings in order. It keeps a few readings and the other lines."""

    def __init__(self, *, is_echo: bool) -> None:
        self.is_echo = is_echo
        self.first_ns: int | None = None
        """CLOCK_MONOTONIC of the sender's first packet; None: not known yet."""
        self.sender_words: dict[str, str] = {}
        self.far_words: dict[str, str] = {}
        """Lines by their type, except readings: hello, summary, error."""
        self._clocks: dict[str, str] = {}
        self._sent: dict[int, Mapping[str, Any]] = {}
        self._arrived: dict[int, SoakReading] = {}
        self._next = 0
        self._last_sent = -1

    @parsing("a line of the engine's sender")
    def take_sender(self, line: str) -> None:
        """Take a line of the sender."""
        entry = self._entry("sender", line, self.sender_words)
        if entry is None:
            return
        if self.first_ns is None:
            self.first_ns = count(entry["start_ns"])
        self._last_sent = count(entry["index"])
        self._sent[self._last_sent] = entry

    @parsing("a line of the engine's receiver")
    def take_far(self, line: str) -> None:
        """Take a line of the receiver; in an echo the sender's lines have the answers."""
        entry = self._entry("far", line, self.far_words)
        if entry is None or self.is_echo:
            return
        number = max(self._next, self._number(entry))
        reading = SoakReading(
            0.0,
            0.0,
            sent_packets=0,
            received_packets=count(entry["received_packets"]),
            missing_packets=count(entry["expected_packets"]) - count(entry["received_packets"]),
            **_oddities(entry),
        )
        before = self._arrived.get(number)
        self._arrived[number] = _sum(before, reading) if before else reading

    @parsing("a line of the engine's sender")
    def ready(self, *, is_over: bool = False) -> list[SoakReading]:
        """Return the readings that are complete; if the soak is over (`is_over`), return all remaining readings."""
        found = []
        while self._next in self._sent and (is_over or self._is_whole()):
            found.append(self._reading(self._sent.pop(self._next), self._arrived.pop(self._next, NOTHING_ARRIVED)))
            self._next += 1
        if is_over and self._arrived:  # what arrived after the sender's last line
            start_s = self._next * SOAK_INTERVAL_S
            for number in sorted(self._arrived):
                rest = self._arrived.pop(number)
                if rest.received_packets or rest.missing_packets:
                    found.append(replace(rest, start_s=start_s, end_s=start_s))
        return [each for each in found if each.sent_packets or each.received_packets or each.missing_packets]

    def _is_whole(self) -> bool:
        return self.is_echo or self._next in self._arrived or self._last_sent >= self._next + WAITED_FOR

    def _reading(self, sent: Mapping[str, Any], arrived: SoakReading) -> SoakReading:
        start_s, end_s = ((count(sent[name]) - (self.first_ns or 0)) / 1e9 for name in ("start_ns", "end_ns"))
        if not self.is_echo:
            return replace(arrived, start_s=start_s, end_s=end_s, sent_packets=count(sent["sent_packets"]))
        delay = sent["rtt_ns"] or {}
        return SoakReading(
            start_s,
            end_s,
            sent_packets=count(sent["sent_packets"]),
            received_packets=count(sent["received_packets"]),
            missing_packets=count(sent["lost_packets"]),
            **_oddities(sent),
            delay_p50_ns=delay_ns(delay.get("p50")),
            delay_p99_ns=delay_ns(delay.get("p99")),
            delay_max_ns=delay_ns(delay.get("max")),
        )

    def _number(self, entry: Mapping[str, Any]) -> int:
        """Return the number of the sender's interval: by the clock if both ends share one, else by the line's index."""
        if self.first_ns is not None and self._clocks.get("sender") == self._clocks.get("far"):
            return max(0, round((count(entry["start_ns"]) - self.first_ns) / 1e9 / SOAK_INTERVAL_S))
        return count(entry["index"])

    def _entry(self, end: str, line: str, words: dict[str, str]) -> Mapping[str, Any] | None:
        """Return an interval line, or None; keep lines of other types, and ignore text that is not the engine's."""
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(entry, dict):
            return None
        if entry.get("type") == "interval":
            return entry
        if entry.get("type") == "hello":
            if entry.get("protocol") != PROTOCOL:
                raise TrialFailed(f"the engine speaks protocol {entry.get('protocol')}, not {PROTOCOL}")
            self._clocks[end] = str(entry.get("clock_id"))
        words[str(entry.get("type"))] = line
        return None


def _oddities(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("late_packets", "duplicated_packets", "reordered_packets", "corrupted_packets")
    found = {name: _optional(entry[name]) for name in names}
    return found | {"tester_dropped_packets": _optional(entry["socket_dropped_packets"])}


def _optional(value: object) -> int | None:
    return None if value is None else count(value)


def _sum(one: SoakReading, other: SoakReading) -> SoakReading:
    late = [reading.late_packets for reading in (one, other) if reading.late_packets is not None]
    names = ("received", "missing", "duplicated", "reordered", "corrupted", "tester_dropped")
    counts = {f"{name}_packets": getattr(one, f"{name}_packets") + getattr(other, f"{name}_packets") for name in names}
    return replace(one, late_packets=sum(late) if late else None, **counts)
