"""The tests of UDP on a simulated router: what is asked for, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.builders import make_spec, make_tcp, make_trial
from tests.unit.measure.simulated import SimulatedRouter
from tests.unit.udp_builders import make_counts, make_search

from tunnelbench.host.host import LocalHost
from tunnelbench.measure import udp_trial
from tunnelbench.measure.checks import TrialContext
from tunnelbench.measure.counters import Arrivals
from tunnelbench.measure.meter import without
from tunnelbench.measure.udp_exchange import Exchanger, as_point
from tunnelbench.measure.udp_trial import OfferedUdp, UdpMeter
from tunnelbench.model.counters import PathCounters
from tunnelbench.model.errors import NotBegun
from tunnelbench.model.plan import (
    CALIBRATION_KIND,
    FLAT_OUT,
    IDLE,
    IDLE_PPS,
    Direction,
    Test,
    TrialSpec,
    TunnelSpec,
    UdpTraffic,
)
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, CatchUp, SearchPoint
from tunnelbench.model.testbed import Link, TestbedSpec
from tunnelbench.model.udp import UdpCounts, UdpMeasurement
from tunnelbench.testbed.base import Testbed
from tunnelbench.traffic.engine import SenderLoad

HERE = LocalHost("tester", Path("/nowhere"), ())
TRAFFIC = UdpTraffic(repeats=2, confirm_s=5.0)


@dataclass
class SimulatedExchanger:
    """Offers loads to a simulated router, bursts to its bucket."""

    router: SimulatedRouter
    loads: list[SenderLoad] = field(default_factory=list)
    sizes: str = "18"
    sender_pps: float = 1e6
    path: Any = field(default_factory=lambda: SimpleNamespace(place=None))
    log: list[Any] = field(default_factory=list)

    def exchange(self, load: SenderLoad, accompany: Callable[[Any], None] | None = None) -> UdpCounts:
        self.loads.append(load)
        if load.burst_packets is not None:
            lost = max(0, load.burst_packets - self.router.burst_packets)
            sending_s = load.burst_packets / self.sender_pps
            return make_counts(
                load.burst_packets / 2, lost=lost, intended_packets=load.burst_packets, sending_s=sending_s
            )
        rate_pps = load.rate_pps or 1e6
        point = self.router.measure(load.duration_s or 0.0, rate_pps, catch_up=load.catch_up)
        return make_counts(
            rate_pps,
            intended_pps=load.rate_pps,
            duration_s=load.duration_s,
            intended_packets=point.intended_packets,
            sent_packets=point.offered_packets,
            received_packets=point.forwarded_packets,
        )

    def beside(self) -> SimulatedExchanger:
        return self

    def take_in(self, _: SimulatedExchanger) -> None:
        """Do nothing, because both exchangers are the same object."""

    def point(
        self, duration_s: float, offered_pps: float, *, catch_up: CatchUp = CatchUp.FULL, is_echo: bool = False
    ) -> SearchPoint:
        load = SenderLoad("18", duration_s, offered_pps, catch_up=catch_up, is_echo=is_echo)
        return as_point(self.exchange(load), is_even=catch_up.is_even)

    @property
    def as_exchanger(self) -> Exchanger:
        return cast("Exchanger", self)


class QuietMonitor:
    """Monitor of a timed trial that returns a fixed window."""

    def __init__(self, *_: Any) -> None:
        self.looks_at_sockets, self.flowing_packets = True, 20

    def accompany(self, _: Any) -> None:
        """Do nothing, because the exchange has ended already."""

    def window(self) -> Any:
        return make_tcp().window

    sampling = ()
    misplaced = ()
    quota_files = ()

    def close(self) -> None:
        """Do nothing, because nothing was started."""


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> UdpMeter:
    monkeypatch.setattr(udp_trial, "TrialMonitor", QuietMonitor)
    monkeypatch.setattr(udp_trial, "read_arrivals", lambda *_: Arrivals(0, 0, 0))
    monkeypatch.setattr("tunnelbench.traffic.engine.locate", lambda: "engine")
    monkeypatch.setattr(UdpMeter, "_pinged", lambda *_: nullcontext(None))
    return UdpMeter(cast("Testbed", SimpleNamespace(client=HERE, server=HERE)), TRAFFIC, lambda *_: None)


def spec_of(test: Test, load: str = "", tunnel: str = "vxlan", round_number: int = 1) -> TrialSpec:
    return replace(make_spec(1, round_number, tunnel, 18, Direction.OUT), test=test, load=load)


def traffic_of(
    meter: UdpMeter, router: SimulatedRouter, test: Test, load: str = ""
) -> tuple[OfferedUdp, list[SenderLoad]]:
    exchanger = SimulatedExchanger(router)
    return meter._traffic(spec_of(test, load), exchanger.as_exchanger), exchanger.loads


def record_of(spec: TrialSpec, udp: UdpMeasurement, verdict: Verdict = Verdict.OK) -> TrialRecord:
    record = make_trial(spec, checks=(Check("foreign-load", verdict, "", 12),))
    return replace(record, measurement=udp)


def calibrated(meter: UdpMeter, pps: float, verdict: Verdict = Verdict.OK) -> None:
    """The testers' limit, as a calibration would tell it."""
    spec = replace(spec_of(Test.RATE, FLAT_OUT), tunnel=TunnelSpec(CALIBRATION_KIND, "testers"), round=0)
    meter.remember(record_of(spec, UdpMeasurement(make_counts(pps)), verdict))


def test_searches_are_repeated_and_the_ndr_is_confirmed_by_one_long_trial(meter: UdpMeter) -> None:
    calibrated(meter, 400_000)
    traffic, loads = traffic_of(meter, SimulatedRouter(20_000), Test.SEARCH)
    runs = traffic.parts["searches"]
    assert len(runs) == 2
    assert all(run.points[0].intended_pps == pytest.approx(400_000, rel=0.001) for run in runs)
    *_, last = loads
    assert last.duration_s == 5.0
    assert last.rate_pps == pytest.approx(runs[0].bounds(NDR_LOSS_RATIO).lower_pps)
    assert traffic.counts is not None
    assert traffic.window is not None


def test_a_search_of_echoes_starts_at_the_testers_echoes_and_confirms_by_echoes(meter: UdpMeter) -> None:
    calibrated(meter, 400_000)
    echoes = replace(spec_of(Test.ECHO, FLAT_OUT), tunnel=TunnelSpec(CALIBRATION_KIND, "testers"), round=0)
    meter.remember(record_of(echoes, UdpMeasurement(make_counts(90_000))))
    traffic, loads = traffic_of(meter, SimulatedRouter(20_000), Test.ECHO_SEARCH)
    assert all(load.is_echo for load in loads)
    assert traffic.parts["searches"][0].points[0].intended_pps == pytest.approx(90_000, rel=0.001)
    assert loads[-1].duration_s == 5.0
    assert loads[-1].rate_pps == pytest.approx(20_000, rel=0.01)


def test_a_search_without_a_calibration_finds_the_testers_limit_itself(meter: UdpMeter) -> None:
    calibrated(meter, 400_000, Verdict.VOID)
    traffic, _ = traffic_of(meter, SimulatedRouter(20_000), Test.SEARCH)
    assert traffic.parts["searches"][0].points[0].intended_pps == udp_trial.UNKNOWN_LIMIT_PPS
    assert traffic.parts["searches"][0].bounds(PDR_LOSS_RATIO).lower_pps == pytest.approx(20_000, rel=0.01)


def test_where_nothing_gets_through_nothing_is_confirmed(meter: UdpMeter) -> None:
    traffic, loads = traffic_of(meter, SimulatedRouter(0, burst_packets=0), Test.SEARCH)
    assert traffic.counts is None
    assert all(load.duration_s != 5.0 for load in loads)


def test_delays_are_taken_idle_and_at_shares_of_the_pdr(meter: UdpMeter) -> None:
    searches = (make_search(90_000, 100_000), make_search(90_000, 110_000), make_search(90_000, 120_000))
    meter.remember(record_of(spec_of(Test.SEARCH), UdpMeasurement(None, searches=searches)))
    router = SimulatedRouter(1e6)
    _, (idle,) = traffic_of(meter, router, Test.LATENCY, IDLE)
    assert (idle.rate_pps, idle.takes_delays) == (IDLE_PPS, True)
    for load, pps in (("10%", 11_000), ("90%", 99_000)):
        _, asked = traffic_of(meter, router, Test.LATENCY, load)
        (background,) = (each for each in asked if not each.takes_delays)
        (probe,) = (each for each in asked if each.takes_delays)
        assert (background.rate_pps or 0) + (probe.rate_pps or 0) == pytest.approx(pps)
        assert (probe.rate_pps or 0) <= pps * 0.05
        assert background.port != probe.port


@pytest.mark.parametrize("change", [{"round_number": 2}, {"tunnel": "none"}])
def test_a_pdr_holds_for_its_own_tunnel_and_round(meter: UdpMeter, change: dict[str, Any]) -> None:
    found = UdpMeasurement(None, searches=(make_search(90_000, 100_000),))
    meter.remember(record_of(spec_of(Test.SEARCH, **change), found))
    with pytest.raises(NotBegun, match="the load is 50%, but no search of this round found the PDR"):
        traffic_of(meter, SimulatedRouter(1e6), Test.LATENCY, "50%")


def test_a_void_search_has_no_pdr(meter: UdpMeter) -> None:
    found = UdpMeasurement(None, searches=(make_search(90_000, 100_000),))
    meter.remember(record_of(spec_of(Test.SEARCH), found, Verdict.VOID))
    with pytest.raises(NotBegun):
        traffic_of(meter, SimulatedRouter(1e6), Test.LATENCY, "50%")


@pytest.mark.parametrize(
    ("test", "load", "rate_pps", "is_echo"),
    [(Test.RATE, "5000", 5000.0, False), (Test.RATE, FLAT_OUT, None, False), (Test.ECHO, "5000", 5000.0, True)],
)
def test_a_rate_is_offered_as_the_plan_says(
    meter: UdpMeter, test: Test, load: str, rate_pps: float | None, is_echo: bool
) -> None:
    _, (asked,) = traffic_of(meter, SimulatedRouter(1e6), test, load)
    assert (asked.rate_pps, asked.is_echo, asked.duration_s) == (rate_pps, is_echo, TRAFFIC.duration_s)


def test_a_loss_curve_has_loads_on_both_sides_of_what_comes_through(meter: UdpMeter) -> None:
    traffic, _ = traffic_of(meter, SimulatedRouter(20_000), Test.LOSS_CURVE)
    curve = sorted((point.intended_pps, point.loss_ratio) for point in traffic.parts["points"])
    assert [loss == 0 for _, loss in curve[:5]] == [True] * 5
    assert curve[0][0] == pytest.approx(10_000, rel=0.01)
    assert curve[-2] == (pytest.approx(30_000, rel=0.01), pytest.approx(1 / 3, abs=0.01))


@pytest.mark.parametrize("bucket", [1, 40, 777, 5000])
def test_the_longest_burst_is_that_of_the_bucket(meter: UdpMeter, bucket: int) -> None:
    traffic, _ = traffic_of(meter, SimulatedRouter(1.0, burst_packets=bucket), Test.BURST)
    found = UdpMeasurement(None, bursts=traffic.parts["bursts"]).longest_burst_packets
    assert found is not None
    assert bucket * 0.97 - 1 <= found <= bucket


def test_packets_of_a_short_trial_may_exceed_the_rate_of_the_link_by_its_burst(meter: UdpMeter) -> None:
    meter.testbed.spec = TestbedSpec("lab", "netns")
    counts = make_counts(1000, lost=0)
    context = TrialContext(3.0, {}, link_mbps=8 * 84 * 1000 / 1e6, link_burst_bytes=84 * 20)
    udp, _ = meter.judge(spec_of(Test.RATE, "1000"), OfferedUdp(counts=counts), make_tcp().counters, context)
    assert isinstance(udp, UdpMeasurement)
    assert udp.physical_limit_pps == pytest.approx(1000 + 20 / counts.receiving_s)


def test_bursts_end_at_the_longest_that_the_testers_could_send(meter: UdpMeter) -> None:
    calibrated(meter, 1000)
    traffic, loads = traffic_of(meter, SimulatedRouter(1.0, burst_packets=10**9), Test.BURST)
    assert max(load.burst_packets or 0 for load in loads) == 2000
    assert UdpMeasurement(None, bursts=traffic.parts["bursts"]).longest_burst_packets == 2000


def test_bursts_end_where_one_takes_too_long_to_send_that_comes_through_whole(meter: UdpMeter) -> None:
    exchanger = SimulatedExchanger(SimulatedRouter(1.0, burst_packets=10**9), sender_pps=5000)
    traffic = meter._traffic(spec_of(Test.BURST), exchanger.as_exchanger)
    longest = UdpMeasurement(None, bursts=traffic.parts["bursts"]).longest_burst_packets
    assert longest == max(load.burst_packets or 0 for load in exchanger.loads) == 16384  # 3.3 s


def test_what_arrived_before_and_after_the_traffic_is_not_counted_as_its_own() -> None:
    counted = without(PathCounters(100, 9000, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0), (Arrivals(5, 700, 4), Arrivals(1, 80, 0)))
    assert (counted.data_packets, counted.data_bytes, counted.ack_packets) == (94, 8220, 46)


def test_the_physical_limit_counts_the_fragments_that_the_tunnels_mtu_makes(meter: UdpMeter) -> None:
    meter.testbed = cast("Testbed", SimpleNamespace(spec=SimpleNamespace(link=Link())))
    context = TrialContext(3.0, {}, link_mbps=10.0, wire_bytes=lambda inner, _: inner + 126, inner_mtu_bytes=1280)
    spec = replace(spec_of(Test.RATE, "700"), payload_bytes=1472)
    offered = OfferedUdp(counts=make_counts(700, intended_pps=700))
    udp, _ = meter.judge(spec, offered, PathCounters(700, 0, 0, 0, 0, 0, 0, 0, 700, 0, 0, 0), context)
    assert isinstance(udp, UdpMeasurement)
    assert udp.physical_limit_pps == pytest.approx(10e6 / 8 / (1276 + 126 + 244 + 126))  # 705.4
