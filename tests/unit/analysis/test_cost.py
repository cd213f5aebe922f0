"""The cost of a packet follows from the traffic of a router and its busy time."""

from __future__ import annotations

import pytest

from tunnelbench.analysis.cost import CostFit, Flow, MeasuredLoad, fit_cost

SIZES = (100, 500, 1000, 1500)


def line(size: float, factor: float = 1.0) -> MeasuredLoad:
    """Packets of 10 microseconds and 2 nanoseconds a byte, each with half an acknowledgement of 52 bytes."""
    flows = (Flow("data", 1, size), Flow("data", 0.5, 26))
    return MeasuredLoad(factor * (1.5 * 10e-6 + (size + 26) * 2e-9), flows)


def test_fixed_and_per_byte_cost_are_found_from_data_with_their_acknowledgements() -> None:
    found = fit_cost([line(size) for size in SIZES], ["data"])
    assert found.fixed_s("data").value == pytest.approx(10e-6)
    assert found.per_byte_s("data").value == pytest.approx(2e-9)
    assert found.packet_s("data", 700).value == pytest.approx(11.4e-6)
    assert found.packet_s("data", 700).error == pytest.approx(0, abs=1e-12)


def test_the_error_grows_with_the_scatter_and_away_from_what_was_measured() -> None:
    def scattered(share: float) -> CostFit:
        signs = (1, -1, 1, -1)
        return fit_cost([line(size, 1 + sign * share) for size, sign in zip(SIZES, signs, strict=True)], ["data"])

    inside = scattered(0.01).packet_s("data", 750).error
    outside = scattered(0.01).packet_s("data", 9000).error
    worse = scattered(0.1).packet_s("data", 750).error
    assert inside is not None
    assert outside is not None
    assert worse is not None
    assert inside < outside
    assert 5 * inside < worse < 20 * inside


def test_two_sizes_make_a_line_whose_error_is_not_known() -> None:
    found = fit_cost([line(100), line(1500)], ["data"])
    assert found.packet_s("data", 700).value == pytest.approx(11.4e-6)
    assert found.packet_s("data", 700).error is None


def test_an_error_that_is_known_is_the_error_even_without_scatter() -> None:
    loads = [MeasuredLoad(load.busy, load.flows, 0.05) for load in map(line, SIZES)]
    found = fit_cost(loads, ["data"], errors_are_known=True).packet_s("data", 750)
    assert found.error is not None
    assert 0.02 < found.error / found.value < 0.05  # four readings of 5 % each


def test_one_size_makes_no_line() -> None:
    with pytest.raises(ValueError, match="determine the unknowns"):
        fit_cost([line(700), line(700), line(700)], ["data"])
