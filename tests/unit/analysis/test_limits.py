"""What limits a row: each limit with its evidence, and no limit that is not seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_spec, make_tcp, make_trial

from tunnelbench.analysis.limits import Finding, Limit, what_limits
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.result import Check, CpuUsage, Sender, TcpMeasurement, TrialRecord, Verdict

LIMITED = Check("tester-limited", Verdict.DOUBTFUL, "a tester's CPU was 99% busy", 6)


def idle_trial(throughput_bps: float = 50e6, **of_tcp: float) -> TcpMeasurement:
    """Nothing is full."""
    return make_tcp(throughput_bps, cpu_s_per_million_packets=30, **of_tcp)  # type: ignore[arg-type]


def cpus(tcp: TcpMeasurement, *shares: float, programs: dict[str, float] | None = None) -> TcpMeasurement:
    """With the router's CPUs busy for these shares, and its programs for theirs of one CPU."""
    wall_s = tcp.window.duration_s
    by_cpu = tuple(
        CpuUsage((number,), wall_s, wall_s * (1 - share), 0, wall_s * share * 0.2, wall_s * share * 0.7, 0)
        for number, share in enumerate(shares, start=1)
    )
    together = CpuUsage(
        tuple(usage.cpus[0] for usage in by_cpu),
        wall_s,
        sum(usage.idle_s for usage in by_cpu),
        0,
        sum(usage.system_s for usage in by_cpu),
        sum(usage.softirq_s for usage in by_cpu),
        0,
    )
    spent = {name: share * wall_s for name, share in (programs or {}).items()}
    window = replace(
        tcp.window,
        router_cpu=together,
        router_by_cpu=by_cpu,
        daemon_cpu_s=sum(spent.values()) if spent else None,
        program_cpu_s=spent,
    )
    return replace(tcp, window=window)


def findings(tcp: TcpMeasurement, *checks: Check) -> tuple[Finding, ...]:
    records: list[TrialRecord] = [make_trial(make_spec(1, 1, "vxlan"), tcp, checks=checks)]
    (row,) = summarise(records)
    return what_limits(row, records)


def test_a_line_at_its_rate() -> None:
    assert findings(idle_trial(93.9e6, physical_limit_bps=94.15e6)) == (
        Finding(Limit.LINE, "99.7% of what the link can carry of this payload"),
    )


def test_a_tester_that_is_full() -> None:
    (found,) = findings(idle_trial(tester_busy_share=0.99), LIMITED)
    assert found == Finding(Limit.TESTER, "a tester's CPU was 99.0% busy, the router's 19.4%")


def test_the_only_cpu_of_the_router_and_whose_work_it_was() -> None:
    (found,) = findings(cpus(idle_trial(), 0.98, programs={"openvpn": 0.9}))
    assert found == Finding(
        Limit.ROUTER_CPU,
        "CPU 1 98.0% busy; openvpn 90.0% of a CPU; by clock ticks softirq 68.6%, system 19.6%",
    )


def test_all_cpus_of_several() -> None:
    (found,) = findings(cpus(idle_trial(), 0.98, 0.97))
    assert found.limit is Limit.ROUTER_CPU
    assert found.evidence.startswith("CPU 1, 2 97.0% busy;")


def test_one_core_of_several() -> None:
    (found,) = findings(cpus(idle_trial(), 0.1, 0.99, 0.2, 0.05))
    assert found.limit is Limit.ONE_CORE
    assert found.evidence.startswith("CPU 2 99.0% busy, the other 3 at most 20.0%;")


def test_a_line_and_a_cpu_that_are_both_full_are_both_told() -> None:
    both = findings(cpus(idle_trial(93.9e6, physical_limit_bps=94.15e6), 0.99))
    assert [found.limit for found in both] == [Limit.LINE, Limit.ROUTER_CPU]


@pytest.mark.parametrize(
    ("sender", "evidence"),
    [
        (
            Sender(5.0, 4.0, 0.0, 120.0),
            "the receiver's window held the sender back 80.0% of its time; round trip 120 ms",
        ),
        (Sender(5.0, 0.0, 3.0, 80.0), "the send buffer held the sender back 60.0% of its time; round trip 80.0 ms"),
    ],
)
def test_a_window_that_is_too_small(sender: Sender, evidence: str) -> None:
    assert findings(replace(idle_trial(), sender=sender)) == (Finding(Limit.WINDOW, evidence),)


def test_a_loss_that_explains_the_rate() -> None:
    """1 % lost at 20 ms: 1448 x 8 / 0.02 x 1.22 / 0.1 = 7.1 Mbit/s."""
    tcp = idle_trial(6e6)
    lossy = replace(tcp, sender=Sender(5, 0, 0, 20.0), retransmits=round(tcp.counters.data_packets * 0.01))
    (found,) = findings(lossy)
    assert found.limit is Limit.LOSS
    assert "1.00% of the segments were sent again" in found.evidence
    assert "84.7% of what such a loss allows" in found.evidence


def test_a_loss_that_allows_for_more_is_no_reason() -> None:
    tcp = idle_trial(1e6)
    lossy = replace(tcp, sender=Sender(5, 0, 0, 20.0), retransmits=round(tcp.counters.data_packets * 0.01))
    assert [found.limit for found in findings(lossy)] == [Limit.UNKNOWN]


def test_where_nothing_is_full_it_is_not_known() -> None:
    assert findings(cpus(idle_trial(), 0.5, 0.8)) == (
        Finding(Limit.UNKNOWN, "the router's busiest CPU was 80.0% busy, the testers' 70.0%"),
    )


def test_a_record_of_before_this_was_kept_can_still_tell_a_full_cpu() -> None:
    full = replace(idle_trial(), window=replace(cpus(idle_trial(), 0.98).window, router_by_cpu=()))
    (found,) = findings(full)
    assert found.limit is Limit.ROUTER_CPU
    several = replace(full, window=replace(cpus(idle_trial(), 0.98, 0.1).window, router_by_cpu=()))
    assert [found.limit for found in findings(several)] == [Limit.UNKNOWN]


def test_a_row_without_figures_has_no_limit() -> None:
    void = Check("foreign-load", Verdict.VOID, "other processes took 9% of a CPU", 12)
    assert findings(idle_trial(), void) == ()


def test_who_is_far_faster_than_a_loss_allows_was_not_held_back_by_it() -> None:
    tcp = make_tcp(90e6)
    lossy = replace(tcp, sender=Sender(5, 0, 0, 20.0), retransmits=round(tcp.counters.data_packets * 0.01))
    assert [found.limit for found in findings(lossy)] == [Limit.UNKNOWN]
