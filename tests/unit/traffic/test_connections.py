"""TCP connections of the packet engine: command lines, and the lines of both ends as counts or as a reason."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tunnelbench.model.errors import TrialFailed
from tunnelbench.traffic.connections import ConnectionLoad, accept_command, connect_command, parse, require_open_files

LOAD = ConnectionLoad(0.3, 100.0)
# What tunnelbench-engine 0.1.0 printed on loopback, without its intervals and buckets.
NEAR: dict[str, Any] = {
    "type": "summary", "role": "connect", "end_reason": "duration", "session": "0f1e2d3c4b5a69",
    "start_ns": 4080603140600, "end_ns": 4080903624981, "begun_connections": 30, "established_connections": 30,
    "refused_connections": 0, "timed_out_connections": 0, "failed_connections": 0, "closed_connections": 30,
    "broken_connections": 0, "unsent_connections": 0, "open_max_connections": 1, "kept_connections": 0,
    "first_begun_ns": 4080603151777, "last_begun_ns": 4080893367075, "first_established_ns": 4080603445565,
    "last_established_ns": 4080893449688,
    "establishment_ns": {"count": 30, "min": 61056, "mean": 91572.3, "p50": 68479, "p99": 439551, "max": 439551},
}  # fmt: skip
FAR: dict[str, Any] = {
    "type": "summary", "role": "accept", "end_reason": "input-closed", "accepted_connections": 30,
    "closed_connections": 30, "broken_connections": 0, "accept_errors": 0, "open_max_connections": 1,
}  # fmt: skip


def lines(summary: dict[str, Any], **changes: Any) -> str:
    return f'{{"type":"hello","protocol":1}}\n{json.dumps(summary | changes)}\n'


def test_the_lines_of_both_ends_become_counts() -> None:
    counts = parse(lines(NEAR), lines(FAR), LOAD)
    assert (counts.begun, counts.established, counts.closed, counts.accepted, counts.not_established) == (30,) * 4 + (
        0,
    )
    assert counts.established_per_s == pytest.approx(29 / 0.290004123)
    assert (counts.establishment_p50_ns, counts.establishment_p99_ns) == (68479, 439551)


@pytest.mark.parametrize(("kept", "limit", "is_enough"), [(490, 500, True), (491, 500, False), (None, 20, True)])
def test_kept_connections_need_as_many_open_files(kept: int | None, limit: int, is_enough: bool) -> None:
    hello = f'{{"type":"hello","protocol":1,"open_files_max":{limit}}}\n'
    load = ConnectionLoad(0.3, 100.0, kept)
    if is_enough:
        require_open_files("far end", hello, load)
        assert parse(hello + lines(NEAR), lines(FAR), load).begun == 30
        return
    for check in (partial(require_open_files, "client", hello, load), partial(parse, hello, lines(FAR), load)):
        with pytest.raises(TrialFailed, match=r"the engine's client may open 500: raise the limit \(ulimit -Hn\)"):
            check()


def test_without_a_connection_there_are_no_rate_and_no_times() -> None:
    nothing = dict.fromkeys(("first_established_ns", "last_established_ns"))
    empty = {"count": 0, "p50": None, "p99": None, "max": None}
    lost = {"established_connections": 0, "timed_out_connections": 30, "closed_connections": 0}
    counts = parse(lines(NEAR, establishment_ns=empty, **lost, **nothing), lines(FAR, accepted_connections=0), LOAD)
    assert (counts.established_per_s, counts.not_established, counts.establishment_p50_ns) == (0.0, 30, None)


@pytest.mark.parametrize(
    ("near", "far", "reason"),
    [
        ({"failed_connections": 1}, {}, "30 connections were begun, but 31 have an outcome"),
        ({}, {"accepted_connections": 29}, "30 connections were established, but the far end accepted 29"),
        ({"begun_connections": -1}, {}, "the engine's lines are not as expected"),
        ({"establishment_ns": None}, {}, "the engine's lines are not as expected"),
        ({"type": "error", "message": "cannot wait"}, {}, "the engine's client says: cannot wait"),
        ({}, {"type": "interval"}, "the engine's far end ended without a summary"),
    ],
)
def test_ends_that_contradict_each_other_give_no_counts(near: dict[str, Any], far: dict[str, Any], reason: str) -> None:
    with pytest.raises(TrialFailed, match=reason):
        parse(lines(NEAR, **near), lines(FAR, **far), LOAD)


def test_command_lines() -> None:
    assert " ".join(accept_command("engine", "198.18.4.1", "00")) == (
        "engine accept --bind 198.18.4.1:5204 --session 00"
    )
    common = "engine connect --target 198.18.4.1:5204 --bind 198.18.1.2 --session 00 --duration-s"
    loads = {
        ConnectionLoad(5): "5 --timeout-s 3 --interval-s 0.1 --flat-out --pending-max 64",
        ConnectionLoad(5, 200.0): "5 --timeout-s 3 --interval-s 0.1 --rate 200 --pending-max 801",
        ConnectionLoad(9, 50.0, 10): "9 --timeout-s 3 --interval-s 0.1 --rate 50 --pending-max 201 --keep --count 10",
    }
    for load, words in loads.items():
        argv = connect_command("engine", "198.18.4.1", "00", load, source="198.18.1.2")
        assert " ".join(argv) == f"{common} {words}"
