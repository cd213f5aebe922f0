"""The wait for late packets after an exchange ends in time, and no earlier than the packets allow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import cast

import pytest

from tunnelbench.host.daemon import Daemon
from tunnelbench.measure import udp_exchange
from tunnelbench.measure.udp_exchange import OVERTAKEN_S, wait_for_the_rest
from tunnelbench.traffic.engine import LATE_S

SENT_PACKETS = 100


@dataclass
class SimulatedClock:
    """Module `time` whose clock only moves in `sleep`."""

    now_s: float = 50.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class SimulatedEngine:
    """End of an exchange that prints interval lines at given times after the end of the sender."""

    clock: SimulatedClock
    lines: dict[float, tuple[int, int, int]] = field(default_factory=dict)
    """Packets received, expected and reordered since the last line, by the time of the line [s]."""
    is_running: bool = True

    def output(self, _limit_bytes: int = 0) -> str:
        names = ("received_packets", "expected_packets", "reordered_packets")
        passed_s = self.clock.now_s - 50.0
        shown = [counts for time_s, counts in self.lines.items() if time_s <= passed_s]
        return "\n".join(json.dumps({"type": "interval", **dict(zip(names, counts, strict=True))}) for counts in shown)


@dataclass
class SimulatedSender:
    """Sender that has ended."""

    def output(self) -> str:
        return json.dumps({"type": "summary", "sent_packets": SENT_PACKETS})


def waited_s(
    monkeypatch: pytest.MonkeyPatch, lines: dict[float, tuple[int, int, int]], *, is_search: bool = True
) -> float:
    clock = SimulatedClock()
    monkeypatch.setattr(udp_exchange, "time", clock)
    far = cast("Daemon", SimulatedEngine(clock, lines))
    wait_for_the_rest(far, cast("Daemon", SimulatedSender()), is_search=is_search)
    return clock.now_s - 50.0


def test_the_wait_ends_when_every_packet_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_search in (False, True):
        lines = {0.0: (90, 90, 0), 0.3: (10, 10, 0)}
        assert waited_s(monkeypatch, lines, is_search=is_search) == pytest.approx(0.3, abs=0.03)


def test_a_search_gives_up_missing_packets_soon_after_the_last_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {0.0: (80, 90, 0), 0.3: (10, 10, 0)}
    assert waited_s(monkeypatch, lines) == pytest.approx(0.3 + OVERTAKEN_S, abs=0.05)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param({0.0: (80, 99, 0)}, id="the last packet is missing"),
        pytest.param({0.0: (80, 100, 1)}, id="the path changes the order"),
        pytest.param({0.0: (80, 100, 0), 0.04: (1, 0, 1)}, id="a packet comes after the last one"),
        pytest.param({}, id="nothing arrives"),
    ],
)
def test_a_search_waits_while_a_missing_packet_may_be_on_its_way(
    monkeypatch: pytest.MonkeyPatch, lines: dict[float, tuple[int, int, int]]
) -> None:
    assert waited_s(monkeypatch, lines) == pytest.approx(LATE_S, abs=0.03)


def test_other_trials_wait_the_whole_second_for_missing_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited_s(monkeypatch, {0.0: (80, 100, 0)}, is_search=False) == pytest.approx(LATE_S, abs=0.03)
