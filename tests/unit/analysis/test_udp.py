"""Rows of UDP: medians over trials and searches."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from tests.unit.builders import make_records, make_spec, make_trial
from tests.unit.udp_builders import make_counts, make_point, make_search, make_udp_records

from tunnelbench.analysis.summary import summarise
from tunnelbench.analysis.udp import UdpRow, summarise_udp
from tunnelbench.model.plan import FLAT_OUT, Test
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.model.udp import UdpMeasurement


def row(rows: tuple[UdpRow, ...], tunnel: str, test: Test, load: str = "", payload: int = 18) -> UdpRow:
    wanted = (tunnel, test, load, payload)
    (found,) = (r for r in rows if (r.tunnel.name, r.test, r.load, r.payload_bytes) == wanted)
    return found


def trial(udp: UdpMeasurement, test: Test, load: str = "", tunnel: str = "none", round_number: int = 1) -> TrialRecord:
    spec = replace(make_spec(round_number, round_number, tunnel, 18), test=test, load=load)
    return replace(make_trial(spec), measurement=udp)


def test_each_test_and_load_has_a_row_and_tcp_none() -> None:
    rows = summarise_udp((*make_records(1), *make_udp_records()))
    assert len(rows) == len({(r.tunnel.name, r.payload_bytes, r.direction, r.test, r.load) for r in rows})
    assert Test.TCP not in {each.test for each in rows}
    assert summarise(make_udp_records()) == ()


def test_ndr_and_pdr_are_medians_of_all_searches_with_their_spread() -> None:
    ndrs = [90e3, 100e3, 110e3, 95e3]
    records = [
        trial(UdpMeasurement(None, searches=(make_search(ndrs[0], 120e3), make_search(ndrs[1], 121e3))), Test.SEARCH),
        trial(
            UdpMeasurement(None, searches=(make_search(ndrs[2], 122e3), make_search(ndrs[3], 123e3))),
            Test.SEARCH,
            round_number=2,
        ),
    ]
    (found,) = summarise_udp(records)
    assert found.figures is not None
    assert found.figures.ndr_pps is not None
    assert found.figures.pdr_pps is not None
    assert (found.figures.ndr_pps.median, found.figures.ndr_pps.low, found.figures.ndr_pps.high) == (
        97.5e3,
        90e3,
        110e3,
    )
    assert found.figures.pdr_pps.median == 121.5e3
    assert found.figures.searches == found.figures.complete_searches == 4


@pytest.mark.parametrize(
    ("counts", "refuted"),
    [
        (make_counts(100, intended_pps=100), False),
        (make_counts(100, intended_pps=100, lost=1), True),
        (make_counts(90, intended_pps=100), None),
        (make_counts(90, intended_pps=100, lost=1), True),
        (make_counts(100, intended_pps=100, lost=2, tester_dropped_packets=2), None),
        (None, None),
    ],
    ids=["no loss", "loss", "short", "short with loss", "dropped by the receiver", "no trial"],
)
def test_a_confirming_trial_refutes_by_losing_on_the_path(counts: object, refuted: bool | None) -> None:
    found = UdpMeasurement(counts, searches=(make_search(100, 110),))  # type: ignore[arg-type]
    assert found.is_refuted is refuted


def test_shares_are_of_the_baselines_pdr() -> None:
    rows = summarise_udp(make_udp_records())
    figures = row(rows, "vxlan", Test.SEARCH).figures
    baseline = row(rows, "none", Test.SEARCH).figures
    assert figures is not None
    assert baseline is not None
    assert figures.share_of_baseline is not None
    assert figures.pdr_pps is not None
    assert baseline.pdr_pps is not None
    assert figures.share_of_baseline.median == pytest.approx(figures.pdr_pps.median / baseline.pdr_pps.median)
    given = row(rows, "vxlan", Test.RATE, "5000").figures
    assert given is not None
    assert given.share_of_baseline is None, "a rate that both carry shows no difference"


def test_small_udp_is_compared_with_small_tcp_of_the_same_tunnel() -> None:
    records = (*make_records(1), *make_udp_records())
    tcp_rows = summarise(records)
    found = row(summarise_udp(records, tcp_rows), "none", Test.SEARCH)
    place = ("none", 76, found.direction)
    (tcp,) = (r.figures for r in tcp_rows if (r.tunnel.name, r.payload_bytes, r.direction) == place)
    assert tcp is not None
    assert found.figures is not None
    assert found.figures.pdr_pps is not None
    carried = tcp.data_pps.median + tcp.ack_pps.median
    assert found.over_tcp == pytest.approx(found.figures.pdr_pps.median / carried)
    assert row(summarise_udp(make_udp_records()), "vxlan", Test.SEARCH).over_tcp is None


def test_points_that_the_testers_failed_at_are_not_on_the_curve() -> None:
    points = (make_point(100.0), make_point(200.0, 50), make_point(300.0, 10, offered_packets=200))
    (found,) = summarise_udp([trial(UdpMeasurement(None, points=points), Test.LOSS_CURVE)])
    assert found.figures is not None
    assert found.figures.curve == ((100.0, 0.0), (200.0, 0.25))


def test_trials_without_a_figure_say_why() -> None:
    found = row(summarise_udp(make_udp_records()), "vxlan", Test.ECHO, FLAT_OUT)
    assert found.figures is None
    assert found.reasons == ("the engine's far end does not listen: no output",)
    refused = row(summarise_udp(make_udp_records()), "tinc BF-CBC, SHA-1", Test.SEARCH)
    assert refused.classes[Outcome.REFUSED] == 1  # type: ignore[index]


def test_rates_are_given_as_payload_and_on_the_cable() -> None:
    found = row(summarise_udp(make_udp_records()), "none", Test.RATE, "5000")
    assert found.frame_bytes == 64
    assert found.payload_bps(1000) == 18 * 8 * 1000
    assert found.layer_1_bps(148_809.5) == pytest.approx(100e6, rel=1e-5)
    mix = row(summarise_udp(make_udp_records()), "none", Test.RATE, "5000", 0)
    assert mix.frame_bytes == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)
    assert mix.payload_bps(12) == 8 * median([7 * 18 + 4 * 548 + 1472])
