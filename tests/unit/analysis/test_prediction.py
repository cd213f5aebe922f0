"""Predictions of figures: exact cases, the coverage of the interval, and what is not known."""

from __future__ import annotations

import math
from random import Random

import pytest

from tunnelbench.analysis.prediction import MOST_TRIED, Basis, CpuFacts, KnownFigure, MeasuredTunnel, Predictor

A = MeasuredTunnel("through-device", "openvpn", "openvpn AES", "in")
B = MeasuredTunnel("through-device", "none", "none", "in", is_encrypted=False)
C = MeasuredTunnel("through-device", "tinc", "tinc AES", "in")
ELSEWHERE = MeasuredTunnel("on-device", "openvpn", "openvpn AES", "in")


def product(devices: dict[str, float], tunnels: dict[MeasuredTunnel, float]) -> list[KnownFigure]:
    """Figures that are exactly the product of an effect of the device and one of the tunnel."""
    return [KnownFigure(name, where, a * b) for name, a in devices.items() for where, b in tunnels.items()]


def test_an_exact_product_is_predicted_exactly() -> None:
    figures = product({"one": 1, "two": 3, "three": 7, "four": 9}, {A: 10, B: 100, C: 20})
    found = Predictor(figures, {}).predict("two", A)
    assert found is not None
    assert found.basis is Basis.OTHER_TUNNELS
    assert found.mbps == pytest.approx(30)
    assert found.factor == pytest.approx(1)
    assert found.figures == 7, "three devices with both, and one figure of its own"


def test_figures_of_another_class_do_not_take_part() -> None:
    figures = product({"one": 1, "two": 3, "three": 7}, {A: 10, B: 100, C: 20})
    assert Predictor(figures, {}).predict("two", ELSEWHERE) is None
    assert Predictor([*figures, KnownFigure("four", ELSEWHERE, 5)], {}).predict("four", A) is None


def test_the_same_cpu_gives_the_mean_of_its_devices() -> None:
    facts = {name: CpuFacts("soc") for name in "abc"} | {"d": CpuFacts("other"), "e": CpuFacts("other")}
    figures = [KnownFigure("a", A, 80), KnownFigure("b", A, 125), KnownFigure("d", A, 10), KnownFigure("e", A, 10)]
    found = Predictor(figures, facts).predict("c", A)
    assert found is not None
    assert (found.basis, found.figures) == (Basis.SAME_CPU, 2)
    assert found.mbps == pytest.approx(100)
    # Two groups of two: residuals of +-ln(1.25), 0, 0; two degrees of freedom; t = 2.92.
    spread = math.sqrt(2 * math.log(1.25) ** 2 / 2)
    assert math.log(found.high_mbps / found.mbps) == pytest.approx(2.92 * spread * math.sqrt(1.5), rel=1e-3)
    assert found.is_known is (found.factor <= 3)


def test_a_clock_gives_a_line_of_the_logarithms() -> None:
    facts = {str(mhz): CpuFacts(clock_mhz=mhz) for mhz in (200, 400, 800, 1600)}
    figures = [KnownFigure(str(mhz), A, mhz / 20) for mhz in (200, 400, 1600)]
    found = Predictor(figures, facts).predict("800", A)
    assert found is not None
    assert found.basis is Basis.CLOCK
    assert found.mbps == pytest.approx(40)


def test_a_wide_interval_is_not_known() -> None:
    facts = {str(mhz): CpuFacts(clock_mhz=mhz) for mhz in (200, 400, 800, 1600)}
    figures = [KnownFigure("200", A, 10), KnownFigure("400", A, 90), KnownFigure("1600", A, 30)]
    found = Predictor(figures, facts).predict("800", A)
    assert found is not None
    assert not found.is_known
    assert Predictor(figures, {}).predict("800", A) is None


def test_two_devices_with_both_tunnels_give_no_prediction() -> None:
    figures = product({"one": 1, "two": 3}, {A: 10, C: 20})
    assert Predictor([*figures, KnownFigure("three", C, 140)], {}).predict("three", A) is None


def test_other_ciphers_of_the_same_kind_are_left_out_with_the_figure() -> None:
    other_cipher = MeasuredTunnel("through-device", "openvpn", "openvpn none", "in", is_encrypted=False)
    figures = product({str(n): n for n in range(1, 9)}, {A: 10, other_cipher: 30})
    tried = Predictor(figures, {}).validate()
    assert (tried.figures, tried.cases) == (8, ())


def test_the_interval_holds_about_nine_of_ten_figures() -> None:
    noise = Random(20)
    tunnels = {MeasuredTunnel("through-device", f"kind{n}", str(n), "in"): 2.0**n for n in range(6)}
    figures = [
        KnownFigure(each.device, each.measurement, each.mbps * math.exp(noise.gauss(0, 0.1)))
        for each in product({str(n): 10 + n for n in range(60)}, tunnels)
    ]
    tried = Predictor(figures, {}).validate()
    assert (tried.figures, len(tried.cases)) == (360, 360)
    assert tried.covered / len(tried.cases) == pytest.approx(0.9, abs=0.04)
    assert tried.median_error == pytest.approx(0.0674 * math.sqrt(2), rel=0.2), "both figures vary"


def test_the_most_telling_measurement_is_that_with_the_steadiest_quotient() -> None:
    figures = product({"one": 1, "two": 3, "three": 7}, {A: 10, C: 20})
    figures += [KnownFigure("one", B, 100), KnownFigure("two", B, 110), KnownFigure("three", B, 900)]
    found = Predictor(figures, {}).most_informative(A)
    assert found is not None
    assert found[0] == C
    assert found[1] == pytest.approx(1)
    assert Predictor(figures[:2], {}).most_informative(A) is None


@pytest.mark.parametrize("clock_mhz", [1000.001, 1000.0000001, 1000 + 2e-13])
def test_a_line_through_clocks_that_are_nearly_the_same_is_no_prediction(clock_mhz: float) -> None:
    facts = {"one": CpuFacts(clock_mhz=1000), "two": CpuFacts(clock_mhz=clock_mhz), "three": CpuFacts(clock_mhz=1000)}
    figures = [KnownFigure("one", A, 1), KnownFigure("two", A, 1000), KnownFigure("three", A, 2)]
    predictor = Predictor(figures, facts | {"four": CpuFacts(clock_mhz=1), "five": CpuFacts(clock_mhz=1e6)})
    assert predictor.predict("four", A) is None
    assert predictor.predict("five", A) is None


def test_thousands_of_figures_are_predicted_without_a_look_at_each_for_each() -> None:
    """A look at each figure for each prediction takes some ten minutes."""
    noise = Random(5)
    names = [f"{n}" for n in range(2000)]
    facts = {name: CpuFacts(f"soc {n % 1000}", 500 + n % 700) for n, name in enumerate(names)}
    figures = [KnownFigure(name, where, 100 * math.exp(noise.gauss(0, 0.2))) for name in names for where in (A, C)]
    predictor = Predictor(figures, facts)
    assert predictor.validate().figures == MOST_TRIED
    newcomers = Predictor(figures[: len(figures) // 2], facts)
    assert all(newcomers.predict(name, A) for name in names[1000:])
    assert newcomers.most_informative(A) is not None


def test_predictions_are_those_of_the_formulas_without_the_figure() -> None:
    """Compare the sums that are kept with those of a predictor that never had the figure."""
    noise = Random(3)
    tunnels = {MeasuredTunnel("through-device", f"kind{n}", str(n), "in"): 2.0**n for n in range(3)}
    devices = {str(n): 10.0 + n for n in range(12)}
    facts = {name: CpuFacts(f"soc {int(name) % 4}", 300 + 50 * int(name)) for name in devices}
    figures = [
        KnownFigure(each.device, each.measurement, each.mbps * math.exp(noise.gauss(0, 0.1)))
        for each in product(devices, tunnels)
    ]
    whole = Predictor(figures, facts)
    for each in figures:
        kind = each.measurement.kind
        others = [one for one in figures if (one.device, one.measurement.kind) != (each.device, kind)]
        found, expected = (one.predict(each.device, each.measurement) for one in (whole, Predictor(others, facts)))
        assert found is not None
        assert expected is not None
        assert (found.basis, found.figures) == (expected.basis, expected.figures)
        assert (found.low_mbps, found.high_mbps) == pytest.approx((expected.low_mbps, expected.high_mbps))
