"""Compares testers that merge packets with testers that do not, on two testbeds in turn."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.bench import NO_TUNNEL, make_plan, make_testbed, measure

from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TrialRecord
from tunnelbench.testbed.netns import NetnsTestbed

Row = tuple[int, Direction]
"""Payload [bytes] and direction."""


class UnmergedTestbed(NetnsTestbed):
    """A testbed whose testers receive each packet by itself."""

    def let_testers_merge(self, wanted: bool, *, has_tunnel: bool) -> None:
        super().let_testers_merge(False, has_tunnel=has_tunnel)


@dataclass
class BothWays:
    """The trials of one row, without a tunnel; those of one round have the same place in both lists."""

    merged: list[TrialRecord] = field(default_factory=list)
    plain: list[TrialRecord] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Throughput with merging, divided by that without it; the median of the rounds."""
        return self._median_ratio(mbps)

    @property
    def router_cost(self) -> float:
        """The router's CPU time for each packet with merging, divided by that without it; the median of the rounds."""
        return self._median_ratio(router_us)

    def _median_ratio(self, figure: Callable[[TrialRecord], float]) -> float:
        rounds = zip(self.merged, self.plain, strict=True)
        return statistics.median(figure(merged) / figure(plain) for merged, plain in rounds)


def measure_in_turn(folder: Path, rounds: int, duration_s: int) -> dict[Row, BothWays]:
    """Measure TCP flat out without a tunnel, with 1448 and 76 bytes, in both directions, in `rounds` rounds."""
    both = (Direction.IN, Direction.OUT)
    plan = make_plan(NO_TUNNEL, payload_bytes=(1448, 76), direction=both, duration_s=duration_s)
    found: dict[Row, BothWays] = defaultdict(BothWays)
    with ExitStack() as stack:
        merging, plain = (
            stack.enter_context(make_testbed(folder / name, kind=kind, quiet_wait_s=0))
            for name, kind in (("merging", NetnsTestbed), ("plain", UnmergedTestbed))
        )
        for number in range(rounds):
            for testbed in (merging, plain) if number % 2 else (plain, merging):
                for record in measure(testbed, plan):
                    row = found[record.spec.payload_bytes, record.spec.direction]
                    (row.merged if testbed is merging else row.plain).append(record)
    return found


def mbps(record: TrialRecord) -> float:
    """Return the throughput of a trial [Mbit/s]."""
    assert record.tcp is not None, record.reason
    return record.tcp.throughput_bps / 1e6


def router_us(record: TrialRecord) -> float:
    """Return the CPU time that the router took for each packet that it carried, ACKs included [microseconds]."""
    assert record.tcp is not None, record.reason
    window = record.tcp.window
    return window.router_cpu.busy_s * 1e6 / (window.data_packets + window.ack_packets)
