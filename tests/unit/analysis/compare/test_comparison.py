"""Two results: what is tested, what ties, what cannot be said, and how often chance is taken for a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from tests.unit.builders import make_records, make_run, make_spec, make_tcp, make_trial
from tests.unit.udp_builders import make_search

from tunnelbench.analysis.compare.comparison import Comparison, ComparisonVerdict, compare
from tunnelbench.analysis.compare.differences import bench_ratios, differences
from tunnelbench.analysis.compare.labels import row_labels
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import Direction, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import Check, RunRecord, TrialRecord
from tunnelbench.model.result import Verdict as CheckVerdict
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.reference import read_reference
from tunnelbench.report.compare import sheet, within_texts
from tunnelbench.report.compare_screen import comparison_screen
from tunnelbench.report.document import Style
from tunnelbench.report.no_match import no_match_text

TUNNELS = ("none", "vxlan", "wireguard-go", "tinc AES-128-CBC, SHA-1")


def side(name: str, mbps: Sequence[float], cost: float = 3.0, tunnel: str = "none") -> Side:
    """A run of one row with these throughputs, one a round."""
    records = [
        make_trial(
            make_spec(number, number, tunnel), make_tcp(value * 1e6, cpu_s_per_million_packets=cost + number / 1000)
        )
        for number, value in enumerate(mbps, start=1)
    ]
    return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)


def verdicts(a: Sequence[float], b: Sequence[float]) -> ComparisonVerdict:
    line = compare(side("a", a), side("b", b)).rows[0]
    assert line.figure is ComparedFigure.THROUGHPUT
    return line.verdict


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((100, 101, 102, 103, 104), (110, 111, 112, 113, 114), ComparisonVerdict.FASTER),
        ((110, 111, 112, 113, 114), (100, 101, 102, 103, 104), ComparisonVerdict.SLOWER),
        ((100, 101, 102, 103, 104), (104, 111, 112, 113, 114), ComparisonVerdict.TIE),
        ((100, 101, 102, 103, 104), (100, 101, 102, 103, 104), ComparisonVerdict.TIE),
        ((100.0, 100.1, 100.2, 100.3, 100.4), (101.0, 101.1, 101.2, 101.3, 101.4), ComparisonVerdict.TIE),
        ((100, 101, 102), (110, 111, 112), ComparisonVerdict.HIGHER),
        ((110, 111, 112), (100, 101, 102), ComparisonVerdict.LOWER),
        ((100, 101, 102), (101, 111, 112), ComparisonVerdict.TIE),
        ((100, 101, 102, 103, 104), (110, 111, 112, 113), ComparisonVerdict.HIGHER),
    ],
)
def test_a_row_is_faster_slower_a_tie_or_not_tested(
    a: tuple[float, ...], b: tuple[float, ...], verdict: ComparisonVerdict
) -> None:
    assert verdicts(a, b) is verdict


def test_too_few_rounds_say_what_cannot_be_said() -> None:
    (line, _) = compare(side("a", (100, 101, 102)), side("b", (110, 111, 112))).rows
    assert line.p is None
    assert line.remarks == ("3 against 3 trials are too few to show a difference (p at least 0.1)",)


def test_four_against_eight_are_reported_as_untested() -> None:
    """Four against eight samples can reach p = 0.004; the rule of five on each side excludes them."""
    line = compare(side("a", (100, 101, 102, 103)), side("b", range(110, 118))).rows[0]
    assert line.p is None
    assert line.remarks == ("4 against 8 trials are not tested: a test needs 5 on each side",)


def test_a_difference_that_code_layout_may_make_is_a_tie_that_says_so() -> None:
    values = [100 + k / 10 for k in range(5)]
    (line, _) = compare(side("a", values), side("b", [value * 1.02 for value in values])).rows
    assert line.p == pytest.approx(2 / 252)
    assert line.remarks == ("different, but by less than 3%, which the layout of code in memory can cause",)


def test_a_ratio_is_that_of_the_medians_with_its_interval() -> None:
    (line, cost) = compare(side("a", (100, 101, 102, 103, 104), 3.0), side("b", (90, 91, 92, 93, 94), 3.3)).rows
    assert line.ratio is not None
    assert line.ratio.value == pytest.approx(92 / 102)
    assert (line.ratio.low, line.ratio.high) == pytest.approx((90 / 104, 94 / 100))
    assert line.worse_by() == pytest.approx(1 - 92 / 102)
    assert cost.verdict is ComparisonVerdict.DEARER
    assert cost.worse_by() == pytest.approx(0.1, abs=1e-3)


def limited(name: str, mbps: float, *, is_limited: bool = True, rounds: int = 5) -> Side:
    check = Check("tester-limited", CheckVerdict.DOUBTFUL, "testers 97 % busy", 6)
    records = [
        make_trial(make_spec(number, number), make_tcp((mbps + number) * 1e6), checks=(check,) * is_limited)
        for number in range(1, rounds + 1)
    ]
    return side_of_run(make_run(run_id=name, trials_planned=rounds), records)


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize(
    ("a_mbps", "a_is_limited", "b_mbps", "is_open"),
    [(100, False, 80, True), (80, False, 100, False), (100, True, 80, True), (80, True, 100, True)],
)
def test_a_lower_bound_leaves_open_whether_it_is_lower(
    a_mbps: float, a_is_limited: bool, b_mbps: float, is_open: bool, rounds: int
) -> None:
    a, b = limited("a", a_mbps, is_limited=a_is_limited, rounds=rounds), limited("b", b_mbps, rounds=rounds)
    found = compare(a, b)
    assert (found.rows[0].verdict is ComparisonVerdict.UNDECIDED) is is_open
    assert found.regressions(0.05) == ()
    assert (found.rows[0] in found.tested) is (rounds == 5 and not is_open)
    backwards = compare(b, a)
    assert (backwards.rows[0].verdict is ComparisonVerdict.UNDECIDED) is is_open
    # The CPU time of a packet is the router's own, whoever was the limit.
    assert ComparisonVerdict.UNDECIDED not in {row.verdict for row in found.rows if not row.figure.is_rate}


def test_a_tester_limited_throughput_is_never_a_regression_of_the_router() -> None:
    found = compare(limited("a", 100), limited("b", 80))
    assert found.rows[0].verdict is ComparisonVerdict.UNDECIDED
    assert found.rows[0].is_tester_limited
    assert found.regressions(0.05) == ()


def test_rows_without_a_figure_say_why() -> None:
    run = make_run()
    found = compare(side_of_run(run, make_records(5)), side_of_run(run, make_records(5)))
    missing = [line for line in found.rows if line.verdict is ComparisonVerdict.MISSING]
    assert {line.pair.a.name for line in missing} == {"tinc BF-CBC, SHA-1", "wireguard"}
    assert all(line.remarks[0].startswith("A and B: ") for line in missing)


def test_a_run_differs_from_itself_in_nothing() -> None:
    run = make_run()
    itself = compare(side_of_run(run, make_records(5)), side_of_run(run, make_records(5)))
    assert itself.different == ()
    assert (itself.only_in_a, itself.only_in_b) == ((), ())
    assert differences(itself.a, itself.b) == ()
    assert bench_ratios(itself.a, itself.b)["1448 in"] == 1.0


def of_two_runs(noise: float, seed: int, slower_by: float = 0.0, drift: float = 0.0) -> Comparison:
    """Two runs of four tunnels, two payloads and two directions in five rounds, equal but for chance."""
    random = Random(seed)

    def run(name: str, factor: float) -> Side:
        records: list[TrialRecord] = []
        whole = factor * random.lognormvariate(0, drift)
        for number in range(1, 6):
            for tunnel in TUNNELS:
                for payload in (1448, 76):
                    for direction in Direction:
                        spec = make_spec(len(records) + 1, number, tunnel, payload, direction)
                        bps = 1e6 * payload * whole * random.lognormvariate(0, noise)
                        cost = 10 / whole * random.lognormvariate(0, noise / 2)
                        tcp = make_tcp(bps, payload_bytes=payload, cpu_s_per_million_packets=cost)
                        records.append(make_trial(spec, tcp))
        return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)

    return compare(run("a", 1.0), run("b", 1.0 - slower_by))


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_two_equal_runs_differ_in_far_fewer_than_five_per_cent_of_the_rows(noise: float) -> None:
    found = [of_two_runs(noise, seed) for seed in range(40)]
    tested = sum(len(each.tested) for each in found)
    different = sum(len(each.different) for each in found)
    assert tested == 40 * (16 * 2 + 12 * 2)  # throughput and CPU, and these over the baseline's
    assert different / tested <= 0.015  # ALPHA, and what 1280 rows scatter about it
    above = sum(len(each.different) > 0.05 * len(each.tested) for each in found)
    assert above <= 2


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_a_router_that_is_slower_by_ten_per_cent_is_found(noise: float) -> None:
    for seed in range(10):
        found = of_two_runs(noise, seed, slower_by=0.1)
        own = [line for line in found.rows if not line.figure.is_relative]  # all tunnels are slower, the baseline too
        assert sum(line.verdict.is_worse for line in own) >= 0.8 * len(own)
        assert found.regressions(0.05)
        assert not [line for line in found.different if not line.verdict.is_worse]


def of_a_drifting_machine(seed: int, *, rounds: int, slower_by: float) -> tuple[RunRecord, list[TrialRecord]]:
    """A run on a machine of unsteady speed: a baseline, a tunnel, and the same tunnel slower by so much."""
    random = Random(seed)
    whole = random.uniform(0.7, 1.3)
    records: list[TrialRecord] = []
    for number in range(1, rounds + 1):
        now = whole * random.uniform(0.8, 1.2)
        for tunnel, factor in (("none", 1.0), ("vxlan", 0.6), ("wireguard-go", 0.6 * (1 - slower_by))):
            speed = now * factor * random.lognormvariate(0, 0.01)
            spec = make_spec(len(records) + 1, number, tunnel)
            records.append(make_trial(spec, make_tcp(1e9 * speed, cpu_s_per_million_packets=3 / speed)))
    return make_run(run_id=str(seed), trials_planned=len(records)), records


@pytest.mark.parametrize(("slower_by", "verdict"), [(0.1, ComparisonVerdict.SLOWER), (0.0, ComparisonVerdict.TIE)])
def test_paired_rounds_find_a_difference_on_a_machine_of_unsteady_speed(
    slower_by: float, verdict: ComparisonVerdict
) -> None:
    found = []
    for seed in range(20):
        whole = side_of_run(*of_a_drifting_machine(seed, rounds=10, slower_by=slower_by))
        comparison = compare(whole.only("vxlan"), whole.only("wireguard-go"))
        assert comparison.is_paired
        assert [line.figure for line in comparison.rows] == [ComparedFigure.THROUGHPUT, ComparedFigure.COST]
        found.append(comparison.rows[0])
    assert sum(line.verdict is verdict for line in found) >= 19
    ratios = [line.ratio.value for line in found if line.ratio is not None]
    assert ratios == [pytest.approx(1 - slower_by, abs=0.03)] * 20


@pytest.mark.parametrize(("slower_by", "verdict"), [(0.1, ComparisonVerdict.SLOWER), (0.0, ComparisonVerdict.TIE)])
def test_a_share_of_the_baseline_is_compared_between_runs_of_an_unsteady_machine(
    slower_by: float, verdict: ComparisonVerdict
) -> None:
    of_share, of_cost = [], []
    for seed in range(20):
        before = side_of_run(*of_a_drifting_machine(seed, rounds=7, slower_by=0.0))
        after = side_of_run(*of_a_drifting_machine(seed + 100, rounds=7, slower_by=slower_by))
        lines = {(line.pair.a.name, line.figure): line for line in compare(before, after).rows}
        of_share.append(lines["wireguard-go", ComparedFigure.SHARE].verdict)
        of_cost.append(lines["wireguard-go", ComparedFigure.COST_SHARE].verdict)
    assert of_share.count(verdict) >= 19
    assert (
        of_cost.count(ComparisonVerdict.DEARER if verdict is ComparisonVerdict.SLOWER else ComparisonVerdict.TIE) >= 19
    )


def test_two_tunnels_of_one_run_need_eight_rounds_and_say_so() -> None:
    whole = side_of_run(*of_a_drifting_machine(1, rounds=7, slower_by=0.5))
    line = compare(whole.only("vxlan"), whole.only("wireguard-go")).rows[0]
    assert (line.verdict, line.p) == (ComparisonVerdict.LOWER, None)
    assert "7 rounds are too few to show a difference (p at least 0.016)" in line.remarks


def test_tunnels_of_two_runs_are_not_pairs() -> None:
    before, after = (side_of_run(*of_a_drifting_machine(seed, rounds=8, slower_by=0)) for seed in (1, 2))
    found = compare(before.only("vxlan"), after.only("wireguard-go"))
    assert not found.is_paired
    assert {line.figure for line in found.rows} >= {ComparedFigure.THROUGHPUT, ComparedFigure.SHARE}


def on_a_bench(name: str, speed: float, router: float) -> Side:
    """A run whose machine and whose router have these speeds, calibrated."""
    testers = TunnelSpec("back-to-back", "testers back to back")
    records = [make_trial(TrialSpec(0, 0, testers, 1448, Direction.IN), make_tcp(1e10 * speed))]
    for number in range(1, 6):
        tcp = make_tcp((1e9 + number * 1e6) * speed * router)
        records.append(make_trial(make_spec(number, number), tcp))
    return side_of_run(make_run(run_id=name, trials_planned=6), records)


def test_a_difference_made_by_the_bench_is_a_tie_one_made_by_the_router_is_not() -> None:
    before = on_a_bench("a", 1.0, 1.0)
    slower_bench, slower_router = on_a_bench("b", 0.7, 1.0), on_a_bench("c", 0.98, 0.9)
    line = compare(before, slower_bench).rows[0]
    assert line.verdict is ComparisonVerdict.TIE
    assert line.remarks == ("different, but not by more than the testers without a router (43%)",)
    assert compare(before, slower_router).rows[0].verdict is ComparisonVerdict.SLOWER
    assert compare(side("x", [1, 2, 3, 4, 5]), side("y", [1, 2, 3, 4, 5])).bench_moved is None


def of_fixed_speed(
    name: str, *, bench: float = 1.0, work: float = 1.0, is_limited: bool = False, busy: float = 0.99, load: str = ""
) -> Side:
    """A calibrated run with a router of fixed speed, where a packet takes so much work, and with so fast a bench."""
    checks = (Check("tester-limited", CheckVerdict.DOUBTFUL, "testers 97 % busy", 6),) if is_limited else ()
    testers = TunnelSpec("back-to-back", "testers back to back")
    records = [make_trial(TrialSpec(0, 0, testers, 1448, Direction.IN), make_tcp(1e10 * bench))]
    for number in range(1, 6):
        bps = (1e8 + number * 1e5) / work
        packets_per_s = bps / 8 / 1448 * 1.5
        tcp = make_tcp(bps, cpu_s_per_million_packets=busy * 1e6 / packets_per_s)
        window = replace(tcp.window, router_instructions=1_000_000_000 + number, router_clock_lost_s=0.0)
        spec = replace(make_spec(number, number), load=load)
        records.append(make_trial(spec, replace(tcp, window=window), checks=checks))
    return side_of_run(make_run(run_id=name, trials_planned=6), records)


def test_a_regression_at_fixed_speed_is_found_even_if_the_bench_moved() -> None:
    before, after = of_fixed_speed("a"), of_fixed_speed("b", bench=0.7, work=1.05)
    found = {line.figure: line.verdict for line in compare(before, after).regressions(0.03)}
    assert found[ComparedFigure.INSTRUCTIONS] is ComparisonVerdict.DEARER
    assert found[ComparedFigure.THROUGHPUT] is ComparisonVerdict.SLOWER
    assert compare(before, after).regressions(0.06) == ()
    assert compare(before, of_fixed_speed("c", bench=0.7)).regressions(0.0) == ()


def test_a_tester_limited_rate_is_judged_by_the_bench_at_fixed_speed_too() -> None:
    before, after = of_fixed_speed("a", is_limited=True), of_fixed_speed("b", bench=0.7, work=1.05, is_limited=True)
    verdicts = {line.figure: line.verdict for line in compare(before, after).rows}
    assert verdicts[ComparedFigure.THROUGHPUT] is ComparisonVerdict.TIE
    assert verdicts[ComparedFigure.INSTRUCTIONS] is ComparisonVerdict.DEARER


@pytest.mark.parametrize(
    ("busy", "load", "verdict"),
    [
        (0.99, "", ComparisonVerdict.SLOWER),
        (0.85, "", ComparisonVerdict.TIE),
        (0.85, "100", ComparisonVerdict.SLOWER),
    ],
)
def test_a_rate_at_full_speed_is_the_routers_own_only_if_the_router_is_full(
    busy: float, load: str, verdict: ComparisonVerdict
) -> None:
    before = of_fixed_speed("a", busy=busy, load=load)
    after = of_fixed_speed("b", bench=0.7, work=1.05, busy=busy, load=load)
    verdicts = {line.figure: line.verdict for line in compare(before, after).rows}
    assert verdicts[ComparedFigure.THROUGHPUT] is verdict
    assert verdicts[ComparedFigure.INSTRUCTIONS] is ComparisonVerdict.DEARER


def test_a_router_is_full_by_its_own_clock() -> None:
    """The clock of the router stood still for a tenth of the window, in which it could not work."""
    records = []
    for number in range(1, 6):
        tcp = make_tcp(1e8, cpu_s_per_million_packets=0.88e6 / (1e8 / 8 / 1448 * 1.5))
        window = replace(tcp.window, router_instructions=10**9, router_clock_lost_s=0.1 * tcp.window.duration_s)
        records.append(make_trial(make_spec(number, number), replace(tcp, window=window)))
    (row,) = side_of_run(make_run(), records).rows
    assert row.is_router_full


def with_limited_baseline(name: str, baseline_mbps: float, limited_rounds: Sequence[int]) -> Side:
    """A run of a baseline, which the testers limited in some rounds, and of one tunnel, which is always as fast."""
    check = Check("tester-limited", CheckVerdict.DOUBTFUL, "testers 97 % busy", 6)
    records = []
    for number in range(1, 8):
        checks = (check,) if number in limited_rounds else ()
        tcp = make_tcp((baseline_mbps + number) * 1e6)
        records.append(make_trial(make_spec(2 * number, number), tcp, checks=checks))
        records.append(make_trial(make_spec(2 * number + 1, number, "vxlan"), make_tcp((100 + number) * 1e6)))
    return side_of_run(make_run(run_id=name, trials_planned=14), records)


def test_faster_testers_do_not_lower_the_share_of_a_baseline_that_they_limit() -> None:
    found = compare(with_limited_baseline("a", 500, range(1, 8)), with_limited_baseline("b", 700, range(1, 8)))
    assert ComparedFigure.SHARE not in {line.figure for line in found.rows}
    assert ComparedFigure.COST_SHARE in {line.figure for line in found.rows}
    assert found.regressions(0.03) == ()


def test_a_share_needs_a_baseline_of_its_round_that_the_testers_did_not_limit() -> None:
    row = with_limited_baseline("a", 500, (2, 5)).rows[1]
    assert [*row.figures[ComparedFigure.SHARE]] == [1, 3, 4, 6, 7]
    assert len(row.figures[ComparedFigure.COST_SHARE]) == 7


def some_of(name: str, kept: Mapping[tuple[str, int], int], mbps: float = 100) -> Side:
    """A run with so many trials that count of each tunnel and payload."""
    records = [
        make_trial(make_spec(number, number, tunnel, payload), make_tcp((mbps + number) * 1e6, payload_bytes=payload))
        for (tunnel, payload), rounds in kept.items()
        for number in range(1, rounds + 1)
    ]
    return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)


@pytest.mark.parametrize(
    ("in_a", "in_b", "untested"),
    [
        (7, 7, []),
        (7, 5, []),
        (7, 4, ["vxlan 1448 down"]),
        (4, 7, []),
        (4, 4, []),
    ],
)
def test_each_row_with_enough_trials_in_a_needs_a_test(in_a: int, in_b: int, untested: Sequence[str]) -> None:
    a, b = (some_of(name, {("vxlan", 1448): count, ("vxlan", 76): 7}) for name, count in (("a", in_a), ("b", in_b)))
    found = compare(a, b)
    assert [f"{pair.a.name} {pair.a.place_in_words}" for pair in found.untested] == untested


def test_a_tunnel_without_any_tested_row_is_untested() -> None:
    a = some_of("a", {("vxlan", 1448): 4, ("none", 1448): 7})
    assert [pair.a.name for pair in compare(a, a).untested] == ["vxlan"]


def with_options(name: str, tunnel: str, kind: str, **options: str | int) -> tuple[RunRecord, list[TrialRecord]]:
    spec = TunnelSpec(kind, tunnel, options)
    records = [
        make_trial(TrialSpec(number, number, spec, 1448, Direction.IN), make_tcp((40 + number / 10) * 1e6))
        for number in range(1, 6)
    ]
    return make_run(run_id=name, trials_planned=5), records


def test_rows_match_by_settings_then_by_name_then_by_kind() -> None:
    a = side_of_run(*with_options("a", "x", "openvpn", cipher="BF-CBC", auth="SHA1"))
    same = side_of_run(*with_options("b", "y", "openvpn", cipher="BF-CBC", auth="SHA1"))
    other = side_of_run(*with_options("c", "z", "openvpn", cipher="none", auth="SHA1", mssfix=0))
    tinc = side_of_run(*with_options("d", "x", "tinc", cipher="bf-cbc"))
    assert compare(a, same).rows[0].pair.unlike == ()
    assert compare(a, other).rows[0].pair.unlike == ("cipher: BF-CBC against none", "mssfix: not set against 0")
    unmatched = compare(a, tinc)
    assert unmatched.rows == ()
    assert (len(unmatched.only_in_a), len(unmatched.only_in_b)) == (1, 1)


def test_rows_with_another_packet_filter_are_kept_apart() -> None:
    plain = side_of_run(*with_options("a", "x", "openvpn", cipher="none"))
    filtered = side_of_run(*with_options("b", "x", "openvpn", cipher="none", firewall="stateful", rules=5))
    found = compare(plain, filtered)
    assert found.rows == ()
    assert (len(found.only_in_a), len(found.only_in_b)) == (1, 1)
    same = side_of_run(*with_options("c", "y", "openvpn", cipher="BF-CBC", firewall="stateful", rules=5))
    assert compare(filtered, same).rows[0].pair.unlike == ("cipher: none against BF-CBC",)


@pytest.mark.parametrize("other", [{"clients": 5}, {"clients": 1, "handshakes": 8}])
def test_rows_with_other_clients_are_kept_apart(other: dict[str, int]) -> None:
    alone = side_of_run(*with_options("a", "x", "openvpn", cipher="none", clients=1))
    several = side_of_run(*with_options("b", "x", "openvpn", cipher="none", **other))
    found = compare(alone, several)
    assert found.rows == ()
    assert (len(found.only_in_a), len(found.only_in_b)) == (1, 1)


@pytest.mark.parametrize("sizes", [{"window_bytes": 65_536}, {"write_bytes": 8192}])
def test_rows_with_other_sizes_of_iperf3_are_kept_apart(sizes: dict[str, int]) -> None:
    usual = side_of_run(*with_options("a", "x", "openvpn", cipher="none"))
    other = side_of_run(*with_options("b", "x", "openvpn", cipher="none", **sizes))
    assert compare(usual, other).rows == ()
    same = side_of_run(*with_options("c", "x", "openvpn", cipher="none", **sizes))
    assert compare(other, same).rows


def test_a_published_result_is_not_compared_with_a_filtered_row() -> None:
    options = {"cipher": "BF-CBC", "auth": "SHA1", "transport": "udp", "firewall": "stateful-nat"}
    filtered = side_of_run(*with_options("a", "OpenVPN", "openvpn", **options))
    assert compare(filtered, side_of_reference(read_reference("wr841n-2014"))).rows == ()


def test_what_differs_between_two_runs_is_said() -> None:
    run, records = with_options("a", "x", "openvpn", cipher="none")
    later = replace(
        run,
        run_id="b",
        tunnelbench_version="0.2.0",
        host_facts={**run.host_facts, "kernel": "6.19.1", "cpu_mhz": 1.0},
        plan_text="rounds = 5\n[tcp]\nduration_s = 2\n",
        testbed_text='kind = "netns"\nlink_mbps = 100\n',
    )
    found = {
        each.what: (each.a, each.b) for each in differences(side_of_run(run, records), side_of_run(later, records))
    }
    assert found == {
        "TunnelBench": ("0.1.0", "0.2.0"),
        "kernel": ("6.18.0", "6.19.1"),
        "plan: rounds": ("3", "5"),
        "testbed: link_mbps": ("not stated", "100"),
    }


def test_a_run_is_compared_with_published_figures_of_the_same_settings() -> None:
    run, records = with_options("a", "OpenVPN", "openvpn", cipher="BF-CBC", auth="SHA1", transport="udp")
    (line,) = compare(side_of_run(run, records), side_of_reference(read_reference("wr841n-2014"))).rows
    assert line.pair.b.name == "openvpn BF-CBC SHA1"
    assert line.ratio is not None
    assert line.ratio.value == pytest.approx(17.9 / 40.3)
    assert line.verdict is ComparisonVerdict.LOWER
    tinc, records = with_options("b", "tinc", "tinc", cipher="bf-cbc", digest="sha1")
    (line,) = compare(side_of_reference(read_reference("wr841n-2014")), side_of_run(tinc, records)).rows
    assert line.pair.a.figures[ComparedFigure.THROUGHPUT] == {1: 15.9}


def test_what_a_published_table_does_not_state_is_said() -> None:
    run, records = with_options("a", "x", "openvpn", cipher="BF-CBC", auth="SHA1", transport="udp")
    found = compare(side_of_run(run, records), side_of_reference(read_reference("apu1d-2014")))
    assert found.rows == ()  # 1448 asked for and carried; published are 1354 and 112
    aes, records = with_options("b", "x", "openvpn", cipher="AES-128-CBC", auth="SHA1", transport="tcp")
    found = compare(side_of_run(aes, records), side_of_reference(read_reference("alix-2d3-2010")))
    assert found.rows == ()  # out is published, in was measured
    gcm, records = with_options("c", "x", "openvpn", cipher="AES-256-GCM", auth="SHA1", transport="udp")
    lines = compare(side_of_run(gcm, records), side_of_reference(read_reference("openvpn-2017"))).rows
    assert [line.pair.b.figures[ComparedFigure.THROUGHPUT] for line in lines] == [
        {1: 900},
        {1: 600},
        {1: 840},
        {1: 400},
    ], "a record with an MTU of 9000 is no figure of 1448 bytes"
    assert [line.pair.unlike[0] for line in lines[1:]] == ["cipher aes-256-gcm against not stated"] * 3
    assert all("payload 1448 against not stated" in line.remarks for line in lines)
    large = [replace(record, spec=replace(record.spec, payload_bytes=8948)) for record in records]
    lines = compare(side_of_run(gcm, large), side_of_reference(read_reference("openvpn-2017"))).rows
    assert {1: 2850} in [line.pair.b.figures[ComparedFigure.THROUGHPUT] for line in lines]
    plain, records = with_options("d", "x", "openvpn", cipher="none", auth="none", transport="udp")
    found = compare(side_of_run(plain, records), side_of_reference(read_reference("openvpn-2017")))
    assert found.rows == (), "a program whose cipher is not stated encrypts"


def test_published_rows_of_one_measured_row_have_labels_on_the_first_screen() -> None:
    run, records = with_options("a", "x", "openvpn", cipher="AES-128-GCM", auth="SHA1", transport="udp")
    own, published = side_of_run(run, records), side_of_reference(read_reference("openvpn-2017"))
    expected = ["openvpn 2.3, Linux client", "openvpn 2.4, Linux client", "openvpn 2.4, Windows 7 client, about 400"]
    for found in (compare(own, published), compare(published, own)):
        labels = row_labels(found)
        assert [labels[id(line.pair)][0] for line in found.rows] == ["openvpn 2.3", "openvpn 2.4", "openvpn 2.4"]
        text = comparison_screen(found, Style())
        assert [text.count(f"Mbit/s ({label})") for label in expected] == [1, 1, 1]
        sheets = [row[-1] for row in sheet(found, {}).rows]
        assert ["published: openvpn 2.3" in remarks for remarks in sheets] == [True, False, False]


def test_a_single_published_row_has_no_label() -> None:
    run, records = with_options("a", "OpenVPN", "openvpn", cipher="BF-CBC", auth="SHA1", transport="udp")
    assert row_labels(compare(side_of_run(run, records), side_of_reference(read_reference("wr841n-2014")))) == {}


def no_match(a: Side, b: Side) -> str:
    found = compare(a, b)
    assert found.rows == ()
    text = no_match_text(found)
    assert text in " ".join(comparison_screen(found, Style()).split())
    assert any(text in caution for caution in sheet(found, {}).cautions)
    return text


def test_another_test_than_published_is_the_reason_that_no_row_matches() -> None:
    measured, published = side("a", (100,)), side_of_reference(read_reference("pentium3-it168"))
    needed = ' To match, a plan needs [udp] with test = "echo-search" and payload_bytes = [18].'
    a = 'A has TCP with 1448 bytes, and B has the test "echo-search" with 18 bytes.'
    assert no_match(measured, published) == f'Both sides have "none", but the tests differ: {a}{needed}'
    b = 'A has the test "echo-search" with 18 bytes, and B has TCP with 1448 bytes.'
    assert no_match(published, measured) == f'Both sides have "none", but the tests differ: {b}{needed}'
    run, records = with_options("b", "OpenVPN", "openvpn", cipher="AES-128-CBC", auth="SHA1", transport="udp")
    text = no_match(side_of_run(run, records), published)
    assert text.endswith("payload_bytes = [18, 512, 1400].")


def test_other_payloads_than_published_are_the_reason_that_no_row_matches() -> None:
    run, records = with_options("a", "x", "openvpn", cipher="none", auth="none", transport="udp")
    text = no_match(side_of_run(run, records), side_of_reference(read_reference("apu1d-2014")))
    assert text.startswith(
        'Both sides have "x", but the payloads differ: A has TCP with 1448 bytes, and B has TCP with '
    )
    assert " To match, a plan needs [tcp] with payload_bytes = [" in text


def test_other_settings_or_kinds_of_tunnels_are_the_reason_that_no_row_matches() -> None:
    published = side_of_reference(read_reference("openvpn-2017"))
    run, records = with_options("a", "x", "openvpn", cipher="none", auth="none", transport="udp")
    assert no_match(side_of_run(run, records), published).startswith(
        "The same kind of tunnel is on both sides, but its settings or conditions differ"
    )
    assert no_match(side("b", (100,)), published) == "No tunnel is on both sides."


def test_two_runs_without_a_common_test_get_no_advice_on_a_plan() -> None:
    run, records = with_options("b", "none", "none")
    udp = UdpMeasurement(None, searches=(make_search(60_000, 61_000),))
    searched = [replace(each, spec=replace(each.spec, test=Test.SEARCH), measurement=udp) for each in records]
    text = no_match(side("a", (100,)), side_of_run(run, searched))
    assert text.endswith('A has TCP with 1448 bytes, and B has the test "search" with 1448 bytes.')


def test_a_search_of_echoes_is_compared_with_echoes_that_were_published() -> None:
    run, records = with_options("a", "none", "none")
    udp = UdpMeasurement(None, searches=(make_search(60_000, 61_000),))
    published = side_of_reference(read_reference("pentium3-it168"))
    for test, expected in ((Test.ECHO_SEARCH, [(60_000, 47_000)]), (Test.SEARCH, [])):
        own = [
            replace(record, spec=replace(record.spec, payload_bytes=18, test=test), measurement=udp)
            for record in records
        ]
        lines = compare(side_of_run(run, own), published).rows
        assert [
            (line.pair.a.figures[ComparedFigure.NDR][1], line.pair.b.figures[ComparedFigure.NDR][1]) for line in lines
        ] == expected


def test_figures_of_the_device_itself_are_compared_with_their_like_alone() -> None:
    run, records = with_options("a", "x", "wireguard", port=1)
    on_device = side_of_reference(read_reference("wireguard-by-device"))
    with pytest.raises(WrongInput, match="on the device itself"):
        compare(side_of_run(run, records), on_device)
    with pytest.raises(WrongInput, match="on the device itself"):
        compare(on_device, side_of_reference(read_reference("wr841n-2014")))
    with pytest.raises(WrongInput, match="a cipher alone"):
        compare(side_of_run(run, records), side_of_reference(read_reference("cipher-speed")))


def reproduced(a: Sequence[float], b: Sequence[float], **facts: str) -> tuple[Comparison, Sequence[str]]:
    """Compare two runs of one row, the second with other facts, and return what `--within 3` says."""
    other = side("b", b)
    found = compare(side("a", a), replace(other, facts={**other.facts, **facts}))
    return found, [*within_texts(found, 0.03)]


def test_figures_within_the_limit_are_reproduced() -> None:
    found, texts = reproduced((100, 101, 102), (97.9, 99, 100))
    assert found.apart(0.03) == ()
    assert texts == ["B is within 3 % of A's: 2 figures."]


@pytest.mark.parametrize(("b", "words"), [((105, 106, 107), "5.0 % higher"), ((95, 96, 97), "5.0 % lower")])
def test_a_figure_beyond_the_limit_is_named_with_what_can_be_the_reason(b: tuple[float, ...], words: str) -> None:
    found, texts = reproduced((100, 101, 102), b, kernel="7.0")
    assert [line.figure for line in found.apart(0.03)] == [ComparedFigure.THROUGHPUT]
    assert texts == [
        f"B is not within 3 % of A's: 1 of 2 figures. none 1448 down: Mbit/s {words}.",
        "What can be the reason: kernel: 6.18.0 against 7.0.",
    ]


def late_at_fixed_speed(
    name: str, per_packet: float, lost_share: float = 0.001, *, rounds: int = 3, **facts: str
) -> Side:
    """A run of one row on a router of fixed speed that executes so many instructions for each packet."""
    records = []
    for number in range(1, rounds + 1):
        tcp = make_tcp(1e8, cpu_s_per_million_packets=per_packet / 125)
        packets = tcp.window.data_packets + tcp.window.ack_packets
        window = replace(
            tcp.window,
            router_instructions=round(packets * per_packet),
            router_clock_lost_s=lost_share * tcp.window.duration_s,
        )
        records.append(make_trial(make_spec(number, number), replace(tcp, window=window)))
    made = side_of_run(make_run(run_id=name, trials_planned=len(records)), records)
    return replace(made, facts={**made.facts, **facts})


def test_reasons_at_fixed_speed_are_those_of_virtual_machines_and_testers() -> None:
    a = late_at_fixed_speed("a", 9000, guest_qemu="7.2", kernel="6.1", cpus="2", cpu_model="X")
    b = late_at_fixed_speed("b", 9900, 0.008, guest_qemu="8.2", kernel="6.9", cpus="4", cpu_model="Y")
    found = compare(a, b)
    assert [line.figure for line in found.own_figures] == [ComparedFigure.THROUGHPUT, ComparedFigure.INSTRUCTIONS]
    assert [*within_texts(found, 0.03)] == [
        "B is not within 3 % of A's: 1 of 2 figures. none 1448 down: instructions/packet 10.0 % higher.",
        (
            "What can be the reason: kernel: 6.1 against 6.9; cpus: 2 against 4; guest_qemu: 7.2 against 8.2; "
            "the router's clock lost up to 0.1 % of a trial in A; the router's clock lost up to 0.8 % of a trial in B."
        ),
    ]
    (_, reason) = within_texts(compare(a, replace(b, facts=a.facts)), 0.03)
    assert reason.startswith("What can be the reason: programs, kernels and settings are the same; the router's clock")


def test_a_row_that_is_missing_is_not_reproduced() -> None:
    a, b = side("a", (100, 101, 102)), side("b", (100, 101, 102))
    more = replace(a, rows=(*a.rows, *side("c", (100, 101, 102), tunnel="vxlan").rows))
    assert next(iter(within_texts(compare(more, b), 0.03))) == (
        "B is not within 3 % of A's: 0 of 2 figures. only in A: vxlan (1448 down)."
    )
    assert [*within_texts(compare(a, replace(b, rows=())), 0.03)] == []
    why = ("the router's clock fell behind",)
    void = replace(b, rows=tuple(replace(row, figures={}, remarks=why) for row in a.rows))
    (first, _) = within_texts(compare(a, void), 0.03)
    assert first == (
        "B is not within 3 % of A's: 1 of 1 figure. none 1448 down: Mbit/s has no figure on one side "
        "(B: the router's clock fell behind)."
    )
