"""Rows: what the trials of one tunnel, payload and direction say together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.builders import make_plan, make_proof, make_records, make_spec, make_tcp, make_trial

from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row, TrialClass, summarise, trial_class
from tunnelbench.model.counters import Ping
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Check, Outcome, TcpMeasurement, TrialRecord, Verdict

LIMITED = Check("tester-limited", Verdict.DOUBTFUL, "the testers' CPU was 97% busy", 6)
FOREIGN = Check("foreign-load", Verdict.VOID, "other processes took 9% of a CPU", 12)


def rounds_of(
    tunnel: str, throughputs_bps: Sequence[float], *, first: int = 1, checks: tuple[Check, ...] = (), **of_tcp: float
) -> list[TrialRecord]:
    """One trial a round of one tunnel."""
    return [
        make_trial(make_spec(first + number, number + 1, tunnel), make_tcp(throughput_bps, **of_tcp), checks=checks)  # type: ignore[arg-type]
        for number, throughput_bps in enumerate(throughputs_bps)
    ]


def row_of(rows: Sequence[Row], tunnel: str) -> Row:
    (found,) = [row for row in rows if row.tunnel.name == tunnel]
    return found


def figures_of(rows: Sequence[Row], tunnel: str) -> Figures:
    figures = row_of(rows, tunnel).figures
    assert figures is not None
    return figures


def test_rows_are_in_the_order_of_the_plan_whatever_the_order_of_the_records() -> None:
    rows = summarise(tuple(reversed(make_records())))
    first_round = [
        (spec.tunnel.name, spec.payload_bytes, spec.direction) for spec in make_plan().trials() if spec.round == 1
    ]
    assert [
        (row.tunnel.name, row.payload_bytes, row.direction) for row in rows if not row.is_calibration
    ] == first_round
    assert all(row.is_calibration for row in rows[:4])


def test_every_trial_is_counted_in_one_class() -> None:
    records = make_records()
    rows = summarise(records)
    assert sum(row.trials for row in rows) == len(records)
    vxlan = next(row for row in rows if (row.tunnel.name, row.payload_bytes, row.direction) == ("vxlan", 76, "out"))
    assert {each: count for each, count in vxlan.classes.items() if count} == {TrialClass.OK: 2, TrialClass.VOID: 1}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (make_trial(), TrialClass.OK),
        (make_trial(checks=(Check("a", Verdict.NOTE, "", 4), Check("b", Verdict.OK, "", 4))), TrialClass.NOTE),
        (make_trial(checks=(LIMITED,)), TrialClass.DOUBTFUL),
        (make_trial(checks=(FOREIGN, LIMITED)), TrialClass.VOID),
        (make_trial(outcome=Outcome.VOID, reason="iperf3 died"), TrialClass.VOID),
        (make_trial(outcome=Outcome.REFUSED, reason="in the clear"), TrialClass.REFUSED),
        (make_trial(outcome=Outcome.UNAVAILABLE, reason="no module"), TrialClass.UNAVAILABLE),
    ],
)
def test_a_trial_has_the_class_of_its_worst_check_or_of_its_outcome(record: TrialRecord, expected: TrialClass) -> None:
    assert trial_class(record) is expected


def test_figures_are_the_median_and_the_range_of_the_trials_that_count() -> None:
    trials = rounds_of("vxlan", [100e6, 300e6, 200e6])
    trials.append(make_trial(make_spec(9, 4, "vxlan"), make_tcp(900e6), checks=(FOREIGN,)))
    assert figures_of(summarise(trials), "vxlan").throughput_bps == Estimate(200e6, 100e6, 300e6, 3)


def test_a_row_without_a_trial_that_counts_has_reasons_and_no_figures() -> None:
    trials = [
        make_trial(make_spec(1, 1, "tinc BF-CBC, SHA-1"), outcome=Outcome.REFUSED, reason="went over TCP"),
        make_trial(make_spec(2, 2, "tinc BF-CBC, SHA-1"), outcome=Outcome.REFUSED, reason="went over TCP"),
        make_trial(make_spec(3, 3, "tinc BF-CBC, SHA-1"), make_tcp(), checks=(FOREIGN,)),
    ]
    (row,) = summarise(trials)
    assert row.figures is None
    assert row.reasons == ("went over TCP", FOREIGN.reason)


def test_the_share_of_the_baseline_pairs_the_trials_of_a_round() -> None:
    trials = rounds_of("none", [100e6, 200e6, 400e6]) + rounds_of("vxlan", [50e6, 100e6, 200e6], first=11)
    assert figures_of(summarise(trials), "vxlan").share_of_baseline == Estimate(0.5, 0.5, 0.5, 3)


def test_a_round_whose_baseline_is_void_takes_the_median_of_the_other_rounds() -> None:
    trials = [
        *rounds_of("none", [100e6, 200e6]),
        make_trial(make_spec(3, 3), make_tcp(1e6), checks=(FOREIGN,)),
        *rounds_of("vxlan", [50e6, 100e6, 120e6], first=11),
    ]
    assert figures_of(summarise(trials), "vxlan").share_of_baseline == Estimate(0.5, 0.5, 0.8, 3)


def test_without_any_round_in_common_the_share_is_the_ratio_of_the_medians() -> None:
    trials = rounds_of("none", [100e6, 200e6, 300e6]) + [
        make_trial(make_spec(10 + number, 10 + number, "vxlan"), make_tcp(throughput))
        for number, throughput in enumerate([20e6, 60e6, 80e6])
    ]
    share = figures_of(summarise(trials), "vxlan").share_of_baseline
    assert share is not None
    assert share.median == pytest.approx(60 / 200)


def test_without_a_baseline_there_is_no_share() -> None:
    assert figures_of(summarise(rounds_of("vxlan", [1e6])), "vxlan").share_of_baseline is None


def test_the_baseline_is_that_of_the_same_payload_and_direction() -> None:
    trials = [
        make_trial(make_spec(1, 1, "none", 1448, Direction.IN), make_tcp(100e6)),
        make_trial(make_spec(2, 1, "none", 1448, Direction.OUT), make_tcp(200e6)),
        make_trial(make_spec(3, 1, "vxlan", 1448, Direction.OUT), make_tcp(100e6)),
    ]
    share = figures_of(summarise(trials), "vxlan").share_of_baseline
    assert share is not None
    assert share.median == 0.5


@pytest.mark.parametrize(
    ("share", "line_speed", "above"),
    [(0.989, False, False), (0.991, True, False), (1.004, True, False), (1.006, False, True)],
)
def test_line_speed_is_within_one_per_cent_of_the_limit(share: float, line_speed: bool, above: bool) -> None:
    limit = 94.15e6
    figures = figures_of(summarise(rounds_of("vxlan", [limit * share] * 3, physical_limit_bps=limit)), "vxlan")
    assert (figures.is_line_speed, figures.is_above_limit) == (line_speed, above)


def test_without_a_limit_nothing_is_line_speed() -> None:
    figures = figures_of(summarise(rounds_of("vxlan", [1e9])), "vxlan")
    assert not figures.is_line_speed
    assert not figures.is_above_limit


def test_a_capacity_is_extrapolated_only_where_testers_were_the_limit() -> None:
    free = figures_of(summarise(rounds_of("vxlan", [1e8] * 3, cpu_s_per_million_packets=25)), "vxlan")
    assert free.extrapolated_pps is None
    assert free.extrapolated_bps is None
    limited = figures_of(
        summarise(rounds_of("vxlan", [1e8] * 3, cpu_s_per_million_packets=25, checks=(LIMITED,))), "vxlan"
    )
    assert limited.is_tester_limited
    assert limited.extrapolated_pps == pytest.approx(40_000, rel=1e-3)
    assert limited.extrapolated_bps == pytest.approx(40_000 / 1.5 * 1448 * 8, rel=1e-3)


def test_one_tester_limited_trial_of_three_does_not_make_the_row_so() -> None:
    trials = [*rounds_of("vxlan", [100000000.0, 100000000.0]), make_trial(make_spec(3, 3, "vxlan"), checks=(LIMITED,))]
    row = row_of(summarise(trials), "vxlan")
    assert row.figures is not None
    assert not row.figures.is_tester_limited
    assert row.doubtful_checks == ("tester-limited",)


def test_pings_are_summed_and_the_worst_of_all_trials_is_shown() -> None:
    trials = [
        make_trial(make_spec(number, number), make_tcp(ping=ping))
        for number, ping in enumerate([Ping(100, 100, 0.4), Ping(100, 90, 80.0), Ping(100, 0, None)], start=1)
    ]
    figures = figures_of(summarise(trials), "none")
    assert (figures.ping_worst_ms, figures.pings_lost, figures.pings_sent) == (80.0, 110, 300)


def test_cpu_shares_come_from_the_window() -> None:
    figures = figures_of(
        summarise(rounds_of("vxlan", [1448 * 8 * 20_000], cpu_s_per_million_packets=20, daemon_cpu_s=3.2)), "vxlan"
    )
    assert figures.router_busy_share.median == pytest.approx(0.6)
    assert figures.router_system_share.median == pytest.approx(0.18)
    assert figures.router_softirq_share.median == pytest.approx(0.12)
    assert figures.daemon_share is not None
    assert figures.daemon_share.median == pytest.approx(0.4)


class TestBestOfAGroup:
    def test_the_highest_throughput_and_the_lowest_cost_are_best(self) -> None:
        trials = rounds_of("vxlan", [300e6, 310e6], cpu_s_per_million_packets=6) + rounds_of(
            "wireguard-go", [100e6, 110e6], first=11, cpu_s_per_million_packets=20
        )
        rows = summarise(trials)
        assert row_of(rows, "vxlan").best == {
            "throughput_bps",
            "data_pps",
            "cpu_s_per_million_packets",
            "cpu_s_per_gigabit",
        }
        assert row_of(rows, "wireguard-go").best == frozenset()

    def test_rows_that_tie_are_all_best(self) -> None:
        trials = (
            rounds_of("vxlan", [300e6, 310e6, 320e6])
            + rounds_of("wireguard-go", [290e6, 305e6, 306e6], first=11)
            + rounds_of("openvpn none, none", [200e6, 210e6, 299e6], first=21)
        )
        rows = summarise(trials)
        assert [row.tunnel.name for row in rows if "throughput_bps" in row.best] == ["vxlan", "wireguard-go"]

    def test_the_baseline_is_not_in_the_group(self) -> None:
        rows = summarise(
            rounds_of("none", [900e6] * 2)
            + rounds_of("vxlan", [300e6] * 2, first=11)
            + rounds_of("wireguard-go", [100e6] * 2, first=21)
        )
        assert row_of(rows, "none").best == frozenset()
        assert "throughput_bps" in row_of(rows, "vxlan").best

    def test_the_calibration_is_not_in_the_group(self) -> None:
        testers_alone = make_trial(make_plan().calibrations()[0], make_tcp(900e6))
        rows = summarise([testers_alone, *rounds_of("vxlan", [300e6] * 2), *rounds_of("wireguard-go", [100e6] * 2)])
        assert [row.tunnel.name for row in rows if "throughput_bps" in row.best] == ["vxlan"]

    def test_a_tunnel_without_rivals_is_not_the_best(self) -> None:
        assert row_of(summarise(rounds_of("vxlan", [300e6])), "vxlan").best == frozenset()

    def test_throughput_is_not_ranked_in_a_group_with_a_tester_limited_row(self) -> None:
        rows = summarise(
            rounds_of("vxlan", [300e6] * 2, cpu_s_per_million_packets=6)
            + rounds_of("wireguard-go", [100e6] * 2, first=11, checks=(LIMITED,), cpu_s_per_million_packets=20)
        )
        assert row_of(rows, "vxlan").best == {"cpu_s_per_million_packets", "cpu_s_per_gigabit"}

    def test_other_payloads_and_directions_are_other_groups(self) -> None:
        trials = [
            make_trial(make_spec(1, 1, "vxlan", 1448, Direction.IN), make_tcp(300e6)),
            make_trial(make_spec(2, 1, "wireguard-go", 1448, Direction.OUT), make_tcp(100e6)),
            make_trial(make_spec(3, 1, "openvpn none, none", 76, Direction.IN), make_tcp(100e6)),
        ]
        assert all(row.best == frozenset() for row in summarise(trials))


def test_versions_come_from_the_proof() -> None:
    trials = [
        make_trial(make_spec(1, 1, "vxlan"), outcome=Outcome.VOID, reason="iperf3 died"),
        make_trial(make_spec(2, 2, "vxlan"), proof=make_proof("vxlan")),
    ]
    assert row_of(summarise(trials), "vxlan").versions == {"router.linux": "6.18", "server.linux": "6.18"}


def test_the_calibration_costs_the_router_nothing_and_beats_no_tunnel() -> None:
    rows = summarise(make_records())
    calibration = [row for row in rows if row.is_calibration]
    assert len(calibration) == 4
    for row in calibration:
        assert row.figures is not None
        assert row.figures.throughput_bps.median == pytest.approx(3.1e6 * row.payload_bytes)
        assert row.figures.cpu_s_per_million_packets is None
        assert row.best == frozenset()
    assert {row.tunnel.name for row in rows if "cpu_s_per_million_packets" in row.best} == {"vxlan"}


def test_no_records_make_no_rows() -> None:
    assert summarise(()) == ()


def test_a_measurement_without_packets_has_no_cost() -> None:
    measurement: TcpMeasurement = make_tcp(0.0)
    figures = figures_of(summarise([make_trial(make_spec(1, 1, "vxlan"), measurement)]), "vxlan")
    assert figures.cpu_s_per_million_packets is None
    assert figures.cpu_s_per_gigabit is None
