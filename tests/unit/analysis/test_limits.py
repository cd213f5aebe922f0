"""Limits of a row are reported with their evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_spec, make_tcp, make_trial

from tunnelbench.analysis.limits import Limit, LimitFinding, find_limits
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.counters import CpuUsage
from tunnelbench.model.result import Check, Sender, TcpMeasurement, TrialRecord, Verdict

LIMITED = Check("tester-limited", Verdict.DOUBTFUL, "a tester's CPU was 99% busy", 6)


def idle_trial(throughput_bps: float = 50e6, **of_tcp: float) -> TcpMeasurement:
    """Nothing is full."""
    return make_tcp(throughput_bps, cpu_s_per_million_packets=30, **of_tcp)  # type: ignore[arg-type]


def cpus(tcp: TcpMeasurement, *shares: float, programs: dict[str, float] | None = None) -> TcpMeasurement:
    """Return a trial with these busy shares of the router's CPUs, and of its programs."""
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


def findings(tcp: TcpMeasurement, *checks: Check) -> tuple[LimitFinding, ...]:
    records: list[TrialRecord] = [make_trial(make_spec(1, 1, "vxlan"), tcp, checks=checks)]
    (row,) = summarise(records)
    return find_limits(row, records)


def test_a_line_at_its_rate() -> None:
    assert findings(idle_trial(93.9e6, physical_limit_bps=94.15e6)) == (
        LimitFinding(Limit.LINE, "99.7% of the link's limit for this payload"),
    )


def test_a_tester_that_is_full() -> None:
    (found,) = findings(idle_trial(tester_busy_share=0.99), LIMITED)
    assert found == LimitFinding(Limit.TESTER, "a tester's CPU was 99.0% busy, the router's 19.4%")


def test_the_only_cpu_of_the_router_and_whose_work_it_was() -> None:
    (found,) = findings(cpus(idle_trial(), 0.98, programs={"openvpn": 0.9}))
    assert found == LimitFinding(
        Limit.ROUTER_CPU,
        "CPU 1 98.0% busy; openvpn 90.0% of a CPU; by clock ticks softirq 68.6%, system 19.6%",
    )


def test_a_sending_program_that_offered_too_little() -> None:
    slow = replace(idle_trial(), sender=Sender(0.5, 0.4, 0.0, 0.2))
    assert findings(slow) == (
        LimitFinding(Limit.APPLICATION, "application-limited: data was in flight for 10.0% of the time only"),
    )


@pytest.mark.parametrize(
    ("name", "limit"),
    [("router-queues", Limit.QUEUE), ("router-losses", Limit.LOSS), ("retransmits", Limit.LOSS)],
)
def test_a_queue_or_a_loss_of_the_router_that_a_check_found(name: str, limit: Limit) -> None:
    assert findings(idle_trial(), Check(name, Verdict.NOTE, "tbf on wan", 9)) == (LimitFinding(limit, "tbf on wan"),)
    (unknown,) = findings(idle_trial(), Check(name, Verdict.OK, "none", 9))
    assert unknown.limit is Limit.UNKNOWN


def test_all_cpus_of_several() -> None:
    (found,) = findings(cpus(idle_trial(), 0.98, 0.97))
    assert found.limit is Limit.ROUTER_CPU
    assert found.evidence.startswith("CPU 1, 2 97.0% busy;")


def test_one_core_of_several() -> None:
    (found,) = findings(cpus(idle_trial(), 0.1, 0.99, 0.2, 0.05))
    assert found.limit is Limit.ONE_CORE
    assert found.evidence.startswith("CPU 2 99.0% busy, the other 3 at most 20.0%;")


def test_a_full_line_and_a_full_cpu_are_both_reported() -> None:
    both = findings(cpus(idle_trial(93.9e6, physical_limit_bps=94.15e6), 0.99))
    assert [found.limit for found in both] == [Limit.LINE, Limit.ROUTER_CPU]


@pytest.mark.parametrize(
    ("sender", "evidence"),
    [
        (
            Sender(5.0, 4.0, 0.0, 120.0),
            "the receiver's window limited the sender 80.0% of the time; round trip 120 ms",
        ),
        (Sender(5.0, 0.0, 3.0, 80.0), "the send buffer limited the sender 60.0% of the time; round trip 80.0 ms"),
    ],
)
def test_a_window_that_is_too_small(sender: Sender, evidence: str) -> None:
    assert findings(replace(idle_trial(), sender=sender)) == (LimitFinding(Limit.WINDOW, evidence),)


def test_a_loss_that_explains_the_rate() -> None:
    """1 % lost at 20 ms: 1448 x 8 / 0.02 x 1.22 / 0.1 = 7.1 Mbit/s."""
    tcp = idle_trial(6e6)
    lossy = replace(tcp, sender=Sender(5, 0, 0, 20.0), retransmits=round(tcp.counters.data_packets * 0.01))
    (found,) = findings(lossy)
    assert found.limit is Limit.LOSS
    assert "1.00% of the segments were retransmitted" in found.evidence
    assert "84.7% of TCP's rate at this loss" in found.evidence


def test_a_loss_that_allows_for_more_is_no_reason() -> None:
    tcp = idle_trial(1e6)
    lossy = replace(tcp, sender=Sender(5, 0, 0, 20.0), retransmits=round(tcp.counters.data_packets * 0.01))
    assert [found.limit for found in findings(lossy)] == [Limit.UNKNOWN]


def test_where_nothing_is_full_it_is_not_known() -> None:
    assert findings(cpus(idle_trial(), 0.5, 0.8)) == (
        LimitFinding(Limit.UNKNOWN, "the router's busiest CPU was 80.0% busy, the testers' 70.0%"),
    )


def test_an_older_record_still_shows_a_full_cpu() -> None:
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


@pytest.mark.parametrize(("mbps", "is_paced"), [(337, False), (499, True)])
def test_a_paced_row_is_limited_by_the_plan_only_if_it_carried_the_rate(mbps: float, is_paced: bool) -> None:
    trial = make_trial(replace(make_spec(1, 1, "vxlan"), load="500"), idle_trial(mbps * 1e6))
    (row,) = summarise([trial])
    limits = [finding.limit for finding in find_limits(row, [trial])]
    assert (limits == [Limit.APPLICATION]) is is_paced
