"""The checks of a virtual router whose CPU has a fixed speed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_spec, make_tcp

from tunnelbench.measure.checks import TrialContext, check_trial
from tunnelbench.measure.speed_checks import is_surely_the_limit, router_clock
from tunnelbench.model.counters import Window
from tunnelbench.model.result import Check, TcpMeasurement, Verdict

CLEAN = make_tcp()
WINDOW_S = CLEAN.window.duration_s


def trial(
    busy_share: float = 1.0, lost_share: float = 0.0, tester_share: float = 0.5, foreign_share: float = 0.0
) -> TcpMeasurement:
    """A trial through a router of fixed speed; the shares are those of the window."""
    window = replace(
        CLEAN.window,
        router_cpu=replace(CLEAN.window.router_cpu, wall_s=WINDOW_S, idle_s=WINDOW_S * (1 - busy_share)),
        busiest_tester_share=tester_share,
        router_instructions=round(busy_share * WINDOW_S * 125e6),
        router_clock_lost_s=lost_share * WINDOW_S,
    )
    return replace(CLEAN, window=window, bracket_s=10.0, foreign_cpu_s=foreign_share * 10)


def checks(tcp: TcpMeasurement, *, load: str = "", is_calibration: bool = False) -> dict[str, Check]:
    context = TrialContext(10.0, {"cc1": tcp.foreign_cpu_s}, is_calibration=is_calibration)
    return {check.name: check for check in check_trial(replace(make_spec(), load=load), tcp, context)}


@pytest.mark.parametrize(
    ("busy_share", "lost_share", "verdict", "words"),
    [
        (1.0, 0.0, Verdict.OK, "the router's clock kept the time of this machine"),
        (0.99, 0.009, Verdict.OK, "the router's clock lost 0.9% of the time"),
        (0.95, 0.012, Verdict.OK, "the router's clock lost 1.2% of the time"),
        (0.98, 0.02, Verdict.VOID, "lost 2.0% of the time: the host was too slow for this speed"),
        (0.5, 0.05, Verdict.OK, "the router's clock lost 5.0% of the time"),
        (0.5, 0.07, Verdict.VOID, "lost 7.0% of the time: the host was too slow for this speed"),
        (1.0, -0.009, Verdict.OK, "the router's clock gained 0.9% of the time"),
        (0.5, -0.02, Verdict.OK, "the router's clock gained 2.0% of the time"),
        (1.0, -0.02, Verdict.VOID, "gained 2.0% of the time: it caught up after the host was too slow for this speed"),
    ],
)
def test_a_router_whose_clock_lost_or_gained_time_makes_a_trial_void(
    busy_share: float, lost_share: float, verdict: Verdict, words: str
) -> None:
    check = checks(trial(busy_share, lost_share))["router-clock"]
    assert (check.verdict, check.rule) == (verdict, 14)
    assert check.reason.endswith(words)


@pytest.mark.parametrize(
    ("busy_share", "lost_share", "verdict"),
    [(0.05, 0.2, Verdict.OK), (0.9, 0.2, Verdict.VOID), (0.05, 0.6, Verdict.VOID)],
)
def test_a_paced_load_may_find_the_router_late_if_it_has_time_left(
    busy_share: float, lost_share: float, verdict: Verdict
) -> None:
    (check,) = router_clock(trial(busy_share * (1 - lost_share), lost_share).window, is_paced=True)
    assert check.verdict is verdict


def test_a_router_without_a_fixed_speed_has_no_check_of_its_clock() -> None:
    assert router_clock(CLEAN.window) == ()
    assert "router-clock" not in checks(CLEAN)
    assert not is_surely_the_limit(CLEAN.window)
    assert not is_surely_the_limit(None)


def window_of(busy_share: float, lost_share: float = 0.0) -> Window:
    return trial(busy_share, lost_share).window


def test_a_router_is_the_limit_if_it_used_up_the_time_on_its_own_clock() -> None:
    assert is_surely_the_limit(window_of(0.96))
    assert not is_surely_the_limit(window_of(0.94))
    assert is_surely_the_limit(window_of(0.94, lost_share=0.05))


@pytest.mark.parametrize(
    ("busy_share", "load", "verdict", "words"),
    [
        (1.0, "", Verdict.OK, "; the router's speed is fixed, and the testers offered enough"),
        (0.9, "", Verdict.VOID, "other processes took 90.0% of a CPU (cc1 9.00 s)"),
        (0.6, "100", Verdict.OK, "; the router's speed is fixed, and the testers offered enough"),
    ],
)
def test_background_load_matters_to_a_router_of_fixed_speed_if_it_is_not_the_limit(
    busy_share: float, load: str, verdict: Verdict, words: str
) -> None:
    check = checks(trial(busy_share, foreign_share=0.9), load=load)["foreign-load"]
    assert check.verdict is verdict
    assert check.reason.endswith(words)


def test_background_load_beside_the_calibration_matters_as_ever() -> None:
    tcp = trial(busy_share=0.0, foreign_share=0.9)
    assert checks(tcp, is_calibration=True)["foreign-load"].verdict is Verdict.VOID


@pytest.mark.parametrize(("busy_share", "verdict"), [(1.0, Verdict.OK), (0.9, Verdict.DOUBTFUL)])
def test_busy_testers_are_no_limit_of_a_router_that_used_up_its_speed(busy_share: float, verdict: Verdict) -> None:
    assert checks(trial(busy_share, tester_share=1.0))["tester-limited"].verdict is verdict
