"""Synthetic soaks: series second by second, as quick to make as they are long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from tests.unit.builders import STARTED_AT, make_tunnel

from tunnelbench.model.plan import Direction, Test, TrialSpec
from tunnelbench.model.soak import Soak, SoakChunk, SoakEvent, SoakPart, SoakReading

PPS = 1000


def make_soak(*parts: SoakPart, duration_s: float = 60.0, tunnel: str = "openvpn AES-128-GCM") -> Soak:
    spec = TrialSpec(40, 1, make_tunnel(tunnel), 1400, Direction.OUT, Test.SOAK, "90%")
    return Soak(spec, duration_s, float(PPS), False, parts or (make_part(),))


def make_part(number: int = 1, starts_s: float = 0.0, **changes: Any) -> SoakPart:
    started_at = (STARTED_AT + timedelta(seconds=starts_s)).isoformat(timespec="milliseconds")
    return SoakPart(number, started_at, **changes)


def make_reading(second: int, received: int = PPS, missing: int = 0, **changes: Any) -> SoakReading:
    fields: dict[str, Any] = {
        "start_s": float(second),
        "end_s": second + 1.0,
        "sent_packets": PPS,
        "received_packets": received,
        "missing_packets": missing,
        "late_packets": 0,
        "duplicated_packets": 0,
        "reordered_packets": 0,
        "corrupted_packets": 0,
        "tester_dropped_packets": 0,
        "router_busy_share": 0.25,
    }
    return SoakReading(**{**fields, **changes})


def make_chunks(
    readings: Iterable[SoakReading],
    *,
    size: int = 5,
    events: Mapping[int, SoakEvent] | None = None,
    memory_bytes: Mapping[str, int] | None = None,
) -> Iterator[SoakChunk]:
    """Readings in pieces; events by the number of their piece."""
    waiting: list[SoakReading] = []
    number = 0
    for reading in readings:
        waiting.append(reading)
        if len(waiting) == size:
            yield _chunk(number, waiting, events, memory_bytes)
            waiting, number = [], number + 1
    if waiting:
        yield _chunk(number, waiting, events, memory_bytes)


def _chunk(
    number: int,
    readings: list[SoakReading],
    events: Mapping[int, SoakEvent] | None,
    memory_bytes: Mapping[str, int] | None,
) -> SoakChunk:
    event = (events or {}).get(number)
    return SoakChunk(tuple(readings), (event,) if event else (), memory_bytes or {})


SAMPLE_EVENT = SoakEvent(7.25, "rekey", "openvpn on the router: new keys")


def sample_soak() -> tuple[Soak, list[tuple[int, SoakChunk]]]:
    """Two parts with a gap between them, a second with loss, and a rekey."""
    soak = make_soak(make_part(1), make_part(2, 30.0, ended_at="2025-03-14T09:27:33.000+00:00", ended="interrupted"))
    memory = {"router/openvpn": 9_000_000, "controller": 60_000_000}
    first = [make_reading(second, *((970, 30) if second == 3 else ())) for second in range(10)]
    second_part = [make_reading(second) for second in range(10)]
    chunks = [(1, chunk) for chunk in make_chunks(first, events={1: SAMPLE_EVENT}, memory_bytes=memory)]
    chunks += [(2, chunk) for chunk in make_chunks(second_part, memory_bytes=memory)]
    return soak, chunks
