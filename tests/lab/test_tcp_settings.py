"""Sizes of iperf3's socket buffers and writes whose effect is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.lab.bench import check, make_plan, make_testbed, measure
from tests.lab.lies import MidTrial, trial
from tests.watcher import Watcher

from tunnelbench.model.conditions import LARGEST_WINDOW_BYTES
from tunnelbench.model.plan import Direction, OptionValue, TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import Link
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

SMALL_BYTES = 8192
RTT_TOLERANCE = 1.5
"""Largest share by which the data on their way may exceed the buffers. The round trip, from which they are computed,
includes the wait of the receiver's ACK."""


def plain(**options: OptionValue) -> TunnelSpec:
    return TunnelSpec("none", "no tunnel", options)


def on_their_way_bytes(testbed: NetnsTestbed, **options: OptionValue) -> float:
    """Return the data that are sent and not acknowledged, in the mean: throughput x round trip [bytes]."""
    (record,) = measure(testbed, make_plan(plain(**options), duration_s=3))
    assert record.tcp is not None, record.reason
    assert record.tcp.sender is not None
    assert check(record, "iperf3-settings").verdict is Verdict.OK, check(record, "iperf3-settings").reason
    return record.tcp.throughput_bps / 8 * record.tcp.sender.rtt_ms / 1000


@pytest.mark.alone
def test_the_data_on_their_way_fit_into_the_buffers_of_the_plan(lab: None, tmp_path: Path) -> None:
    """A link of 10 Mbit/s has a queue of 50 ms, 62 kB, which TCP fills if it may; Linux doubles a size of buffers."""
    with make_testbed(tmp_path / "run", Link(rate_in_mbps=10, rate_out_mbps=10)) as testbed:
        usual = on_their_way_bytes(testbed)
        limited = on_their_way_bytes(testbed, window_bytes=SMALL_BYTES)
    assert limited <= 2 * SMALL_BYTES * RTT_TOLERANCE < usual, (limited, usual)


@pytest.mark.parametrize("direction", [*Direction])
def test_both_ends_have_the_buffers_of_the_plan_during_the_trial(bed: NetnsTestbed, direction: Direction) -> None:
    seen: list[str] = []

    def look() -> None:
        argv = ["ss", "-tmnH", "state", "established"]
        seen.extend(host.run(argv).stdout for host in (bed.client, bed.server))

    record = trial(bed, MidTrial(actions=[look]), plain(window_bytes=50_000), direction)
    assert len(seen) == 2
    for sockets in seen:
        assert ",rb100000," in sockets, sockets
        assert ",tb100000," in sockets, sockets
    assert check(record, "iperf3-settings").verdict is Verdict.OK


def test_buffers_that_the_kernel_does_not_give_make_a_trial_void(bed: NetnsTestbed) -> None:
    record = trial(bed, Watcher(), plain(window_bytes=LARGEST_WINDOW_BYTES), outcome=Outcome.VOID)
    assert "socket buffer size" in record.reason
    assert "net.core.wmem_max and net.core.rmem_max" in record.reason


def block_sizes(record: TrialRecord) -> list[int]:
    """Return the size of writes that each end of iperf3 reports [bytes]."""
    ends = (json.loads(record.raw[f"iperf3_{end}"]) for end in ("client", "server"))
    return [end["start"]["test_start"]["blksize"] for end in ends]


@pytest.mark.parametrize("write_bytes", [1000, 16_384])
def test_writes_have_the_size_of_the_plan_and_leave_no_doubt_of_the_packets(
    bed: NetnsTestbed, write_bytes: int
) -> None:
    record = trial(bed, Watcher(), plain(write_bytes=write_bytes))
    assert block_sizes(record) == [write_bytes, write_bytes]
    assert check(record, "iperf3-settings").verdict is Verdict.OK
    assert check(record, "packet-rate").verdict is Verdict.OK, check(record, "packet-rate").reason
    assert "too few bytes" not in check(record, "iperf3-figures").reason
