"""The verdicts on a UDP trial, each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.builders import late_window, make_spec, make_tcp
from tests.unit.udp_builders import make_counts, make_point, make_search

from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.udp_checks import check_delays, check_packet_state, check_udp_trial
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.frames import IMIX, udp_limit_pps, wire_bytes
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, TrialSpec
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.search import SearchRun
from tunnelbench.model.udp import ClientHandshakes, HandshakeCounts, UdpCounts, UdpMeasurement

PACKETS = 10_000
COUNTERS = PathCounters(
    data_packets=PACKETS,
    data_bytes=PACKETS * 60,
    ack_packets=0,
    forwarded_packets=PACKETS,
    outer_expected_packets=PACKETS,
    outer_expected_bytes=PACKETS * 46,
    outer_other_packets=0,
    outer_other_bytes=0,
    wan_packets=PACKETS,
    fragments_created=0,
    reassembled=0,
    dropped_packets=0,
)


def spec_of(test: Test = Test.RATE, load: str = "5000") -> TrialSpec:
    return replace(make_spec(payload_bytes=18, direction=Direction.OUT), test=test, load=load)


def measured(counts: UdpCounts | None = None, **changes: Any) -> UdpMeasurement:
    fields: dict[str, Any] = {
        "counters": COUNTERS,
        "window": replace(make_tcp().window, busiest_tester_share=0.5),
        "bracket_s": 3.0,
    }
    return UdpMeasurement(counts or make_counts(5000, intended_pps=5000), **{**fields, **changes})


def verdicts(udp: UdpMeasurement, spec: TrialSpec | None = None, **changes: Any) -> dict[str, Check]:
    arguments: dict[str, Any] = {
        "outer": "udp port 4789",
        "exact_outer_packets": True,
        "foreign": {},
    }
    received_packets, testers_pps = changes.pop("received_packets", PACKETS), changes.pop("testers_pps", 600_000.0)
    context = TrialContext(udp.bracket_s, **{**arguments, **changes})
    found = check_udp_trial(spec or spec_of(), udp, context, received_packets, testers_pps)
    return {check.name: check for check in found}


def test_a_trial_without_fault_is_ok_in_every_check() -> None:
    found = verdicts(measured())
    assert {check.verdict for check in found.values()} == {Verdict.OK}
    assert {"offered", "receiver-drops", "pacing", "packet-count", "merged-frames", "tester-limited"} <= set(found)


@pytest.mark.parametrize(
    ("udp", "name", "verdict"),
    [
        (measured(make_counts(4990, intended_pps=5000)), "offered", Verdict.VOID),
        (measured(make_counts(4996, intended_pps=5000)), "offered", Verdict.OK),
        (measured(make_counts(lost=3, tester_dropped_packets=3)), "receiver-drops", Verdict.DOUBTFUL),
        (measured(make_counts(intended_pps=5000, stalls=1, stall_max_s=0.004)), "pacing", Verdict.NOTE),
        (measured(make_counts(duplicated_packets=1)), "packet-state", Verdict.NOTE),
        (measured(make_counts(foreign_packets=1)), "packet-state", Verdict.NOTE),
        (measured(make_counts(late_packets=1)), "packet-state", Verdict.NOTE),
        (measured(counters=replace(COUNTERS, data_packets=0)), "merged-frames", Verdict.VOID),
        (measured(counters=replace(COUNTERS, data_bytes=PACKETS * 90)), "merged-frames", Verdict.VOID),
        (measured(counters=replace(COUNTERS, forwarded_packets=9000)), "merged-frames", Verdict.VOID),
        (measured(counters=replace(COUNTERS, data_packets=10_500)), "packet-count", Verdict.DOUBTFUL),
        (measured(counters=replace(COUNTERS, data_packets=10_500, reassembled=9)), "packet-count", Verdict.OK),
        (measured(counters=replace(COUNTERS, outer_other_bytes=200_000)), "outer-protocol-in-trial", Verdict.VOID),
        (measured(physical_limit_pps=4000.0), "physical-limit", Verdict.DOUBTFUL),
        (measured(physical_limit_pps=5000.0), "physical-limit", Verdict.OK),
        (measured(make_counts(550_000)), "tester-limited", Verdict.DOUBTFUL),
        (measured(foreign_cpu_s=0.3), "foreign-load", Verdict.VOID),
    ],
)
def test_each_fault_has_its_verdict(udp: UdpMeasurement, name: str, verdict: Verdict) -> None:
    found = verdicts(udp)
    assert found[name].verdict is verdict, found[name].reason


@pytest.mark.parametrize(
    ("received", "has_own_router", "verdict"),
    [(10_070, False, Verdict.OK), (10_071, False, Verdict.DOUBTFUL), (10_071, True, Verdict.OK)],
)
def test_an_engine_that_counts_more_than_arrived_is_doubtful(
    received: int, has_own_router: bool, verdict: Verdict
) -> None:
    found = verdicts(measured(), received_packets=received, has_own_router=has_own_router)["packet-count"]
    assert found.verdict is verdict
    assert (": more than arrived" in found.reason) is (verdict is Verdict.DOUBTFUL)


def test_a_busy_sender_limits_only_what_is_offered_flat_out() -> None:
    busy = measured(make_counts(5000), window=replace(make_tcp().window, busiest_tester_share=1.0))
    assert verdicts(busy, spec_of(load=FLAT_OUT))["tester-limited"].verdict is Verdict.DOUBTFUL
    assert verdicts(busy, spec_of(load="5000"))["tester-limited"].verdict is Verdict.OK


def of_search(counts: UdpCounts | None = None, **changes: Any) -> dict[str, Check]:
    searches = changes.pop("searches", (make_search(90_000, 95_000),))
    return verdicts(measured(counts, searches=searches, **changes), spec_of(Test.SEARCH, ""))


@pytest.mark.parametrize(
    ("counts", "word", "verdict"),
    [
        (make_counts(intended_pps=5000), "confirmed", Verdict.OK),
        (make_counts(intended_pps=5000, lost=1), "refuted", Verdict.NOTE),
        (make_counts(4000, intended_pps=5000), "neither confirmed nor refuted", Verdict.NOTE),
    ],
)
def test_the_long_trial_confirms_or_refutes_in_words(counts: UdpCounts, word: str, verdict: Verdict) -> None:
    found = of_search(counts)["confirmation"]
    assert found.reason.endswith(f": {word}")
    assert found.verdict is verdict


def test_a_confirming_trial_that_falls_short_leaves_the_search_standing() -> None:
    assert of_search(make_counts(4000, intended_pps=5000))["offered"].verdict is Verdict.DOUBTFUL


def test_a_search_that_ran_out_of_time_is_doubtful() -> None:
    cut = replace(make_search(90_000, 95_000), ended="no bounds in 120 s")
    found = of_search(searches=(make_search(90_000, 95_000), cut))["search"]
    assert found.verdict is Verdict.DOUBTFUL
    assert found.reason == "1 of 2 searches ended within their time limit; no bounds in 120 s"


@pytest.mark.parametrize(
    ("loss_ratio", "limit_pps", "loads", "verdict"),
    [
        (0.01, None, (2_000, 5_000, 40_000), Verdict.DOUBTFUL),
        (0.003, None, (4_000, 10_000, 40_000), Verdict.NOTE),
        (0.01, 20_000, (1_500, 19_000, 40_000, 80_000), Verdict.DOUBTFUL),
        (0.01, None, (10_000, 40_000), Verdict.OK),
        (0.0, 20_000, (20_020, 21_000, 40_000, 300_000), Verdict.OK),
        (0.0, None, (1_000, 40_000), Verdict.OK),
    ],
    ids=["1 %", "below the PDR's", "with a limit above", "a narrow range", "a limit alone", "no loss"],
)
def test_loss_that_does_not_depend_on_the_load_is_found(
    loss_ratio: float, limit_pps: int | None, loads: tuple[int, ...], verdict: Verdict
) -> None:
    points = []
    for load in loads:
        carried = min(load, limit_pps or load) * (1 - loss_ratio)
        points.append(make_point(load, forwarded_packets=round(carried)))
    found = of_search(searches=(SearchRun(tuple(points)),))["steady-loss"]
    assert found.verdict is verdict, found


def test_a_bound_at_which_the_testers_failed_is_theirs() -> None:
    points = (make_point(90_000), make_point(90_000), make_point(91_000, offered_packets=80_000))
    found = of_search(searches=(SearchRun((*points, points[-1])),))["tester-limited"]
    assert found.verdict is Verdict.DOUBTFUL
    assert "the testers could not send or receive 2 of 2 upper bounds" in found.reason


def test_a_delay_between_two_clocks_is_unknown() -> None:
    assert "an unknown number late" in check_packet_state(make_counts(late_packets=None)).reason
    assert "0 late" in check_packet_state(make_counts(late_packets=0)).reason
    spec = replace(make_spec(1, 1, "vxlan", 18, Direction.OUT), test=Test.LATENCY)
    found = {clocks: check.verdict for clocks in (True, False) for check in check_delays(spec, has_one_clock=clocks)}
    assert found == {True: Verdict.OK, False: Verdict.NOTE}
    assert check_delays(replace(spec, test=Test.RATE), has_one_clock=False) == ()


@pytest.mark.parametrize(
    ("gap_s", "stall_s", "verdict"),
    [
        (0.5, 0.04, Verdict.OK),
        (0.5, 0.06, Verdict.DOUBTFUL),
        (0.002, 0.0009, Verdict.OK),
        (0.002, 0.0015, Verdict.DOUBTFUL),
        (None, 0.0, Verdict.VOID),
    ],
)
def test_a_gap_that_the_sender_may_have_made_is_doubtful(gap_s: float | None, stall_s: float, verdict: Verdict) -> None:
    counts = make_counts(5000, intended_pps=5000, longest_gap_s=gap_s, stall_max_s=stall_s)
    assert verdicts(measured(counts), spec_of(Test.REKEY))["gap"].verdict is verdict
    assert "gap" not in verdicts(measured(counts))


@pytest.mark.parametrize(("lines", "verdict"), [(["TLS"], Verdict.OK), ([], Verdict.VOID)])
def test_a_rekey_trial_without_a_change_of_keys_is_void(lines: list[str], verdict: Verdict) -> None:
    found = verdicts(measured(make_counts(longest_gap_s=0.1)), spec_of(Test.REKEY), rekeys=lines, must_rekey=True)
    assert found["rekeys"].verdict is verdict
    assert lines or found["rekeys"].reason.endswith("set a longer udp.duration_s")


@pytest.mark.parametrize(
    ("others", "own", "expected"),
    [
        (["client-2/"], [], (Verdict.OK, Verdict.OK)),
        ([], [], (Verdict.VOID, Verdict.OK)),
        (["client-2/"], ["client-1/"], (Verdict.OK, Verdict.VOID)),
        ([], ["client-1/"], (Verdict.VOID, Verdict.VOID)),
    ],
)
def test_only_other_clients_change_keys_while_the_packets_of_one_are_timed(
    others: list[str], own: list[str], expected: tuple[Verdict, Verdict]
) -> None:
    udp, given = measured(make_counts(longest_gap_s=0.1)), {"rekeys": others, "own_rekeys": own, "must_rekey": True}
    found = verdicts(udp, spec_of(Test.REKEY), **given)
    assert (found["rekeys"].verdict, found["kept-keys"].verdict) == expected
    assert all(line in found["rekeys"].reason for line in others)
    assert all(line in found["kept-keys"].reason for line in own)
    assert "kept-keys" not in verdicts(udp, spec_of(Test.REKEY), rekeys=others, must_rekey=True)


def test_a_calibration_is_not_held_to_a_router() -> None:
    found = {
        check.name
        for check in check_udp_trial(
            spec_of(load=FLAT_OUT), measured(make_counts()), TrialContext(1.0, {}, is_calibration=True)
        )
    }
    assert "offered" in found
    assert found.isdisjoint({"merged-frames", "router-cpu", "tester-limited"})


@pytest.mark.parametrize(
    ("finished", "failed", "tester_share", "handshakes", "limited"),
    [
        (5, 0, 0.5, Verdict.OK, Verdict.OK),
        (5, 1, 0.5, Verdict.NOTE, Verdict.OK),
        (1, 0, 0.5, Verdict.VOID, Verdict.OK),
        (5, 0, 0.97, Verdict.OK, Verdict.DOUBTFUL),
    ],
)
def test_new_tunnels_that_fail_or_that_a_tester_limits_are_named(
    finished: int, failed: int, tester_share: float, handshakes: Verdict, limited: Verdict
) -> None:
    counts = HandshakeCounts(9, failed, (ClientHandshakes(finished, 4.0),))
    window = replace(make_tcp().window, busiest_tester_share=tester_share)
    found = verdicts(measured(handshakes=counts, window=window), spec_of(Test.HANDSHAKE))
    assert (found["handshakes"].verdict, found["tester-limited"].verdict) == (handshakes, limited)
    assert "handshakes" not in verdicts(measured(), spec_of(Test.HANDSHAKE))


@pytest.mark.parametrize(
    ("test", "load", "verdict"),
    [
        (Test.RATE, "5000", Verdict.OK),
        (Test.RATE, FLAT_OUT, Verdict.VOID),
        (Test.ECHO, "5000", Verdict.VOID),
        (Test.REKEY, "5000", Verdict.VOID),
        (Test.HANDSHAKE, "5000", Verdict.VOID),
    ],
)
def test_a_late_router_may_do_no_harm_only_to_trials_without_times(test: Test, load: str, verdict: Verdict) -> None:
    found = verdicts(measured(window=late_window()), spec_of(test, load))["router-clock"]
    assert found.verdict is verdict


def test_fast_ethernet_carries_148809_of_the_smallest_frames() -> None:
    assert udp_limit_pps(100, ((18, 1),), wire_bytes, 1500) == pytest.approx(148_809.5, abs=0.1)
    assert udp_limit_pps(100, ((1472, 1),), wire_bytes, 1500) == pytest.approx(8127.4, abs=0.1)
    mean = (7 * 84 + 4 * 614 + 1538) / 12
    assert udp_limit_pps(100, IMIX, wire_bytes, 1500) == pytest.approx(100e6 / 8 / mean, rel=1e-9)


def test_a_tunnels_headers_count_on_the_wan() -> None:
    plain = udp_limit_pps(100, ((1000, 1),), wire_bytes, 1500)
    assert udp_limit_pps(100, ((1000, 1),), lambda inner, mtu: wire_bytes(inner + 50, mtu), 1500) == pytest.approx(
        plain * 1066 / 1116
    )
