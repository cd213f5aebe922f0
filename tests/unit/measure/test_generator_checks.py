"""The figures that iperf3 reports, against counts of the path and of the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_tcp

from tunnelbench.measure.checks import CONTROL_PACKETS
from tunnelbench.measure.generator_checks import iperf3_figures
from tunnelbench.model.result import Verdict

OK, DOUBTFUL = Verdict.OK, Verdict.DOUBTFUL
CLEAN = replace(make_tcp(), bracket_s=10.2)
PACKETS = CLEAN.counters.data_packets
SAID = f"iperf3 reports {CLEAN.bytes_received} bytes in 10.00 s; its test was planned for 10 s"


@pytest.mark.parametrize(
    ("reported_s", "verdict"), [(10.0, OK), (9.51, OK), (9.49, DOUBTFUL), (10.19, OK), (10.21, DOUBTFUL)]
)
def test_the_time_that_iperf3_reports_fits_the_plan_and_the_clock(reported_s: float, verdict: Verdict) -> None:
    check = iperf3_figures(replace(CLEAN, duration_s=reported_s), 10)
    assert (check.name, check.verdict, check.rule) == ("iperf3-figures", verdict, 16)
    assert check.reason.endswith("its time is wrong") is (verdict is DOUBTFUL), check.reason


@pytest.mark.parametrize(("share", "verdict"), [(1.0, OK), (0.932, OK), (0.93, DOUBTFUL), (0.5, DOUBTFUL)])
def test_the_bytes_that_iperf3_reports_are_those_that_arrived_in_its_time(share: float, verdict: Verdict) -> None:
    arrived = PACKETS - (CLEAN.retransmits or 0) - CONTROL_PACKETS
    check = iperf3_figures(replace(CLEAN, bytes_received=round(arrived * 1448 * share)), 10)
    assert check.verdict is verdict, check.reason
    assert check.reason.endswith("it reports too few bytes") is (verdict is DOUBTFUL)


def test_both_figures_may_be_wrong() -> None:
    wrong = replace(CLEAN, duration_s=20.0, bytes_received=CLEAN.bytes_received // 3)
    assert iperf3_figures(wrong, 10).reason.endswith(": its time is wrong, and it reports too few bytes")


def test_segments_that_were_sent_again_are_not_expected_twice() -> None:
    counters = replace(CLEAN.counters, data_packets=round(PACKETS * 1.5))
    assert iperf3_figures(replace(CLEAN, counters=counters), 10).verdict is DOUBTFUL
    assert iperf3_figures(replace(CLEAN, counters=counters, retransmits=PACKETS // 2), 10).verdict is OK


@pytest.mark.parametrize("mss_bytes", [None, 0])
def test_without_a_segment_size_only_the_time_is_checked(mss_bytes: int | None) -> None:
    check = iperf3_figures(replace(CLEAN, mss_bytes=mss_bytes), 10)
    assert (check.verdict, check.reason) == (OK, f"{SAID}, and started and ended within 10.20 s")
