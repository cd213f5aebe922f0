"""Least squares and Student's t, held against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from tunnelbench.analysis.least_squares import fit, student_t_quantile

FACTORS = st.floats(-50, 50).map(lambda value: round(value, 3))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[list[float]], list[float], list[float]]:
    """Rows, observations and errors of something that can be solved."""
    unknowns = draw(st.integers(1, 4))
    count = draw(st.integers(unknowns, unknowns + 8))
    rows = [[draw(FACTORS) for _ in range(unknowns)] for _ in range(count)]
    assume(np.linalg.matrix_rank(np.array(rows)) == unknowns)
    lengths = np.linalg.norm(np.array(rows), axis=0)
    assume(lengths.min() > 0.01)
    assume(np.linalg.cond(np.array(rows) / lengths) < 100)
    observed = [draw(st.floats(-1000, 1000)) for _ in range(count)]
    errors = [draw(st.floats(0.1, 10)) for _ in range(count)]
    assume(max(errors) / min(errors) < 20)
    return rows, observed, errors


@settings(deadline=None)
@given(problems())
def test_values_and_covariance_are_those_of_scipy(problem: tuple[list[list[float]], list[float], list[float]]) -> None:
    rows, observed, errors = problem
    found = fit(rows, observed, errors)
    weighted = np.array(rows) / np.array(errors)[:, None]
    values, *_ = linalg.lstsq(weighted, np.array(observed) / np.array(errors))
    covariance = linalg.inv(weighted.T @ weighted)
    scale = max(1.0, float(np.abs(values).max()))
    assert np.allclose(found.values, values, atol=1e-5 * scale, rtol=1e-4)
    assert np.allclose(found.covariance, covariance, rtol=1e-3, atol=1e-6 * float(np.abs(covariance).max()))
    expected = (np.array(observed) - np.array(rows) @ values) / np.array(errors)
    assert np.allclose(found.residuals, expected, atol=1e-3 * max(1.0, float(np.abs(expected).max())))


def test_a_line_through_exact_points_is_that_line_and_its_error_at_a_point_follows() -> None:
    found = fit([[1, 0], [1, 1], [1, 2]], [2, 5, 8], [1, 1, 1])
    assert found.values == pytest.approx((2, 3))
    assert found.scatter == pytest.approx(0, abs=1e-9)
    assert found.at([1, 10]) == pytest.approx(32)
    assert found.variance_at([1, 1]) == pytest.approx(1 / 3)  # the middle of three: as their mean


def test_where_there_are_as_many_unknowns_as_observations_the_scatter_is_not_known() -> None:
    assert fit([[1, 0], [1, 1]], [2, 5], [1, 1]).scatter is None


@pytest.mark.parametrize(
    "rows",
    [[[1.0, 2.0]], [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], [[1.0, 0.0], [2.0, 0.0]], []],
    ids=["too few", "the same column twice", "an empty column", "none"],
)
def test_what_does_not_determine_the_values_is_refused(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="observations"):
        fit(rows, [1.0] * len(rows), [1.0] * len(rows))


@given(st.floats(0.51, 0.9999), st.integers(1, 500))
def test_the_quantile_of_student_is_that_of_scipy(probability: float, freedom: int) -> None:
    expected = float(stats.t.ppf(probability, freedom))
    assert math.isclose(student_t_quantile(probability, freedom), expected, rel_tol=1e-7, abs_tol=1e-7)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_a_quantile_that_there_is_not_is_refused(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_t_quantile(probability, freedom)
