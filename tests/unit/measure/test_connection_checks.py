"""The checks of a trial of TCP connections, each with every verdict that it can give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import late_window
from tests.unit.connection_builders import make_connections, make_kept, make_measurement

from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.connection_checks import check_connection_trial
from tunnelbench.model.connections import ConnectionCounts, TrackerReading
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import Verdict

CONTEXT = TrialContext(10.4, {})
SHARED = make_connections()


def verdict(name: str, counts: ConnectionCounts, load: str = FLAT_OUT, **more: Any) -> Verdict | None:
    """Return the verdict of one check; None if the trial has no such check."""
    test = Test.CONNECT if counts.closed else Test.CONCURRENT
    tunnel = TunnelSpec("none", "no tunnel", more.pop("options", {}))
    spec = TrialSpec(1, 1, tunnel, 7, Direction.OUT, test, load)
    measured = make_measurement(counts)
    if "tester_share" in more:
        assert measured.window is not None
        measured = replace(measured, window=replace(measured.window, busiest_tester_share=more.pop("tester_share")))
    found = check_connection_trial(spec, measured, CONTEXT, more.get("testers_per_s"))
    return next((check.verdict for check in found if check.name == name), None)


@pytest.mark.parametrize(("counts", "load"), [(SHARED, FLAT_OUT), (SHARED, "1000"), (make_kept(), "1000")])
def test_a_router_that_is_late_makes_the_times_of_connections_void(counts: ConnectionCounts, load: str) -> None:
    spec = TrialSpec(
        1,
        1,
        TunnelSpec("none", "no tunnel"),
        7,
        Direction.OUT,
        Test.CONNECT if counts.closed else Test.CONCURRENT,
        load,
    )
    found = check_connection_trial(spec, replace(make_measurement(counts), window=late_window()), CONTEXT)
    assert [check.verdict for check in found if check.name == "router-clock"] == [Verdict.VOID]


def test_a_rate_that_was_not_offered_is_void() -> None:
    paced = replace(SHARED, intended_per_s=1000.0)
    assert verdict("offered", paced, "1000") is Verdict.OK
    assert verdict("offered", replace(paced, intended_per_s=1100.0), "1100") is Verdict.VOID
    assert verdict("offered", replace(SHARED, unsent=1)) is Verdict.VOID
    assert verdict("offered", SHARED) is Verdict.OK


def test_failed_connections_are_a_note_unless_their_number_is_the_result() -> None:
    assert verdict("connections", SHARED) is Verdict.OK
    assert verdict("connections", make_connections(lost=3)) is Verdict.NOTE
    assert verdict("connections", make_kept(1500), "2000") is Verdict.OK


@pytest.mark.parametrize(
    ("open_max", "opening_s", "is_limit"),
    [
        (1500, 1.5, True),  # as fast as they were begun, and then no more: a full list
        (1500, 1.7, True),
        (1500, 2.0, False),  # to the end of the opening, at the rate of a path that is slower than the opening
        (1398, 4.0, False),  # repeated SYNs
        (1998, 2.0, False),  # two that were lost, the others established to the end
        (0, 0.0, True),
    ],
)
def test_a_number_is_a_limit_only_if_the_connections_begun_last_were_lost(
    open_max: int, opening_s: float, is_limit: bool
) -> None:
    counts = replace(make_kept(open_max), opening_s=opening_s)
    assert counts.shows_limit is is_limit
    assert verdict("connections", counts, "2000") is (Verdict.OK if is_limit else Verdict.DOUBTFUL)


@pytest.mark.parametrize(("entries", "is_limit"), [(1403, True), (1380, False)])
def test_a_full_list_is_the_limit_although_it_takes_a_late_connection(entries: int, is_limit: bool) -> None:
    """Set a list whose other entries end one by one, each in favour of a connection."""
    counts = replace(make_kept(1398), opening_s=4.0, tracked_most=TrackerReading(entries, 1403))
    assert counts.shows_limit is is_limit
    spec = TrialSpec(
        1, 1, TunnelSpec("none", "tracked", {"firewall": "stateful"}), 7, Direction.OUT, Test.CONCURRENT, "2000"
    )
    reasons = {check.name: check.reason for check in check_connection_trial(spec, make_measurement(counts), CONTEXT)}
    assert reasons["tracked"].endswith("; its limit is 1403" + ", and the list was full" * is_limit)


def test_the_reason_of_lost_connections_names_the_opening_rate() -> None:
    overrun = replace(make_kept(1398), opening_s=4.0)
    spec = TrialSpec(1, 1, TunnelSpec("none", "no tunnel"), 7, Direction.OUT, Test.CONCURRENT, "2000")
    reasons = {check.name: check.reason for check in check_connection_trial(spec, make_measurement(overrun), CONTEXT)}
    assert reasons["connections"].endswith(
        "; some were lost while later ones were established, so the number is no limit: 1000 per second may be too "
        "fast for the path; set a lower connections.opening_rate"
    )


def test_without_lost_connections_no_limit_was_found() -> None:
    assert not make_kept().shows_limit
    assert verdict("connections", make_kept(), "2000") is Verdict.OK


def test_connections_without_their_packets_are_void() -> None:
    assert verdict("packet-count", SHARED) is Verdict.VOID, (
        "the builder's trial carried 8,633 data packets and half the ACKs"
    )
    assert verdict("packet-count", make_connections(1000)) is Verdict.OK


@pytest.mark.parametrize(
    ("share", "testers_per_s", "load", "expected"),
    [
        (0.5, None, FLAT_OUT, Verdict.OK),
        (0.99, None, FLAT_OUT, Verdict.DOUBTFUL),
        (0.99, None, "1000", Verdict.OK),
        (0.5, 1050.0, FLAT_OUT, Verdict.DOUBTFUL),
        (0.5, 5000.0, FLAT_OUT, Verdict.OK),
    ],
)
def test_testers_that_limit_the_rate_make_it_doubtful(
    share: float, testers_per_s: float | None, load: str, expected: Verdict
) -> None:
    assert verdict("tester-limited", SHARED, load, tester_share=share, testers_per_s=testers_per_s) is expected


def test_a_tracking_router_must_have_had_the_open_connections_in_its_list() -> None:
    tracking = {"firewall": "stateful"}
    kept = make_kept(1500)
    assert verdict("tracked", kept, "2000", options=tracking) is Verdict.OK
    assert verdict("tracked", replace(kept, tracked_most=kept.tracked_before), "2000", options=tracking) is Verdict.VOID
    assert verdict("tracked", replace(kept, tracked_most=None), "2000", options=tracking) is Verdict.NOTE
    assert verdict("tracked", kept, "2000") is None
