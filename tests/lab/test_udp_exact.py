"""The engine's counts equal the counters of a router with known behaviour, to the packet."""

from __future__ import annotations

import json
from functools import partial

import pytest
from tests.lab.bench import NO_TUNNEL, measure
from tests.lab.exact import counted, plain_path, set_rules

from tunnelbench.measure.search import MlrSearch
from tunnelbench.measure.udp_exchange import as_point
from tunnelbench.model.plan import Direction, Plan, Test, UdpTraffic
from tunnelbench.model.search import PDR_LOSS_RATIO, Classification
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic.engine import SenderLoad

pytestmark = pytest.mark.lab

SEARCH = MlrSearch(classification=Classification(0.5, 1.5), initial_trial_s=0.25, relative_width=0.05)
BOTH = pytest.mark.parametrize("direction", list(Direction))


@BOTH
# Beside other tests, a few packets at the high rate were lost before they came to the router's counters.
@pytest.mark.parametrize("rate_pps", [500.0, pytest.param(20_000.0, marks=pytest.mark.alone)])
def test_every_hundredth_packet_is_lost_and_counted(
    testbed: NetnsTestbed, direction: Direction, rate_pps: float
) -> None:
    with plain_path(testbed, direction) as exchanger:
        set_rules(testbed.router, "numgen inc mod 100 == 99 counter name dropped drop")
        counts = exchanger.exchange(SenderLoad("18", 1.0, rate_pps))
    truth = counted(testbed.router)
    assert truth["dropped"] == (truth["dropped"] + truth["passed"]) // 100
    assert counts.sent_packets == truth["dropped"] + truth["passed"]
    assert counts.received_packets + counts.tester_dropped_packets == truth["passed"]
    assert counts.path_lost_packets == truth["dropped"]
    assert counts.duplicated_packets == counts.reordered_packets == counts.corrupted_packets == 0


@pytest.mark.alone  # as at the high rate above
@pytest.mark.parametrize("sizes", ["18", "1472", "imix"])
def test_random_loss_is_the_loss_that_the_router_counted(testbed: NetnsTestbed, sizes: str) -> None:
    with plain_path(testbed, sizes=sizes) as exchanger:
        set_rules(testbed.router, "numgen random mod 1000 < 3 counter name dropped drop")
        counts = exchanger.exchange(SenderLoad(sizes, 1.0, 20_000))
    truth = counted(testbed.router)
    assert truth["dropped"] > 0
    assert counts.sent_packets == truth["dropped"] + truth["passed"]
    assert counts.path_lost_packets == truth["dropped"]
    assert counts.received_packets + counts.tester_dropped_packets == truth["passed"]


def test_an_echo_loses_what_is_dropped_either_way(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        set_rules(testbed.router, "numgen inc mod 51 == 50 counter name dropped drop")
        counts = exchanger.exchange(SenderLoad("18", 1.0, 4000, is_echo=True))
    truth = counted(testbed.router)
    # A packet that is dropped on its way there comes to the router once, every other twice.
    assert counts.sent_packets * 2 - truth["dropped"] <= truth["dropped"] + truth["passed"] <= counts.sent_packets * 2
    assert counts.path_lost_packets == truth["dropped"] == (truth["dropped"] + truth["passed"]) // 51
    assert counts.received_packets == counts.sent_packets - truth["dropped"]
    reached = counts.reached_packets or 0
    assert counts.sent_packets + reached == truth["dropped"] + truth["passed"]


def test_a_limit_with_a_burst_passes_what_the_router_says(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        # The limit is far below the rate, so that a sender that a busy machine slows down exceeds it as well.
        set_rules(testbed.router, "limit rate over 1000/second burst 100 packets counter name dropped drop")
        counts = exchanger.exchange(SenderLoad("18", 1.0, 8000))
    truth = counted(testbed.router)
    assert truth["dropped"] > 0
    assert 100 <= truth["passed"] <= 1000 * counts.receiving_s + 100 + 25
    assert counts.path_lost_packets == truth["dropped"]
    assert counts.received_packets == truth["passed"]


def test_a_shaper_drops_what_the_counts_say(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        # fmt: off
        testbed.router.run(["tc", "qdisc", "add", "dev", testbed.wan_device, "root", "handle", "1:",
                            "tbf", "rate", "2mbit", "burst", "3000", "limit", "20000"])
        # fmt: on
        counts = exchanger.exchange(SenderLoad("100", 1.0, 4000))
        shown = testbed.router.run(["tc", "-s", "-j", "qdisc", "show", "dev", testbed.wan_device]).stdout
    (shaper,) = json.loads(shown)
    assert shaper["drops"] > 0
    assert counts.path_lost_packets == shaper["drops"]
    # ARP goes through the shaper, too.
    assert 0 <= shaper["packets"] - counts.received_packets <= 3


def test_a_search_loses_what_the_router_dropped_and_never_finds_more_than_its_limit(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        set_rules(testbed.router, "limit rate over 7300/second burst 5 packets counter name dropped drop")
        run = MlrSearch(classification=Classification(0.5, 1.5), initial_trial_s=0.25, relative_width=0.05).find(
            exchanger.point, 100_000
        )
    found = run.bounds(PDR_LOSS_RATIO)
    assert sum(point.lost_packets for point in run.points) == counted(testbed.router)["dropped"]
    assert found.upper_pps is not None
    # On a busy machine the sender stalls and sends bursts, which are dropped: the lower bound may be far below the
    # limit. benches/search.py measures how far.
    assert found.lower_pps is None or found.lower_pps <= 7300 / (1 - PDR_LOSS_RATIO) + 20


@pytest.mark.alone  # beside other tests, the testers lose some of the echoes
def test_a_search_of_echoes_finds_half_of_what_a_router_forwards_in_both_directions(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        set_rules(testbed.router, "limit rate over 4000/second burst 40 packets counter name dropped drop")
        run = SEARCH.find(partial(exchanger.point, is_echo=True), 20_000)
    found = run.bounds(PDR_LOSS_RATIO)
    assert sum(point.lost_packets for point in run.points) == counted(testbed.router)["dropped"]
    assert found.upper_pps is not None
    # The lower bound may be lower on a busy machine, as in the search one way.
    assert found.lower_pps is None or found.lower_pps <= 2000 / (1 - PDR_LOSS_RATIO) + 40


@pytest.mark.alone
@BOTH
def test_a_trial_of_echo_search_finds_half_of_what_a_router_forwards_both_ways(
    testbed: NetnsTestbed, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a calibration, the search would begin with a flood, of which other queues than the limit drop packets.
    monkeypatch.setattr("tunnelbench.measure.udp_trial.UNKNOWN_LIMIT_PPS", 20_000.0)
    set_rules(testbed.router, "limit rate over 4000/second burst 40 packets counter name dropped drop")
    udp = UdpTraffic((18,), (direction,), (Test.ECHO_SEARCH,), repeats=1, trial_s=0.5, confirm_s=0, search_limit_s=8)
    (record,) = measure(testbed, Plan("lab", "", (NO_TUNNEL,), None, 1, udp=udp))
    assert record.udp is not None, record.reason
    (run,) = record.udp.searches
    found = run.bounds(PDR_LOSS_RATIO)
    print(found, run.ended, len(run.points))
    assert sum(point.lost_packets for point in run.points) == counted(testbed.router)["dropped"]
    assert found.upper_pps is not None
    # The shortest trials last 0.125 s. In each, the burst is 320 packets/s more, half of them on their way back.
    assert found.lower_pps is None or found.lower_pps <= 2000 / (1 - PDR_LOSS_RATIO) + 160


def test_a_burst_within_the_limit_comes_through_whole_and_a_longer_one_does_not(testbed: NetnsTestbed) -> None:
    with plain_path(testbed) as exchanger:
        set_rules(testbed.router, "limit rate over 10/second burst 200 packets counter name dropped drop")
        whole = as_point(exchanger.exchange(SenderLoad("18", burst_packets=150)))
        cut = as_point(exchanger.exchange(SenderLoad("18", burst_packets=500)))
    assert (whole.offered_packets, whole.lost_packets) == (150, 0)
    assert cut.offered_packets == 500
    assert cut.lost_packets == counted(testbed.router)["dropped"]
