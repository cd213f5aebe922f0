"""Weighted linear least squares with errors, and the quantile of Student's t for their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SINGULAR_BELOW = 1e-10
"""Smallest usable pivot, with columns scaled to length 1. Below it the observations do not determine the unknowns."""


@dataclass(frozen=True)
class Fit:
    """Unknowns that fit some observations best, in the order of the columns."""

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    """Covariance of the values, if the errors of the observations are those given."""
    residuals: tuple[float, ...]
    """Observed minus fitted values, each divided by its error."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom: observations minus unknowns."""
        return len(self.residuals) - len(self.values)

    @property
    def scatter(self) -> float | None:
        """Ratio of the residuals to the given errors: sqrt(chi square / degrees of freedom); None: no degree of
        freedom."""
        return math.sqrt(sum(each * each for each in self.residuals) / self.freedom) if self.freedom else None

    def at(self, row: Sequence[float]) -> float:
        """Return the sum of the fitted values, each multiplied by its factor in `row`."""
        return sum(factor * value for factor, value in zip(row, self.values, strict=True))

    def variance_at(self, row: Sequence[float]) -> float:
        """Return the variance of `at(row)`, if the errors of the observations are those given."""
        return sum(
            first * second * self.covariance[i][j] for i, first in enumerate(row) for j, second in enumerate(row)
        )


def fit(rows: Sequence[Sequence[float]], observed: Sequence[float], errors: Sequence[float]) -> Fit:
    """Minimise the sum of ((observed - row * values) / error)^2.

    It solves the normal equations, with columns scaled to length one. Raises ValueError if the rows do not determine
    every value: there are too few rows, or columns depend on each other.
    """
    weighted = [[factor / error for factor in row] for row, error in zip(rows, errors, strict=True)]
    target = [value / error for value, error in zip(observed, errors, strict=True)]
    columns = list(zip(*weighted, strict=True))
    lengths = [math.hypot(*column) for column in columns]
    if not columns or len(weighted) < len(columns) or not all(lengths):
        raise ValueError("too few observations")
    scaled = [[factor / length for factor in column] for column, length in zip(columns, lengths, strict=True)]
    inverse = _inverse([[_dot(one, other) for other in scaled] for one in scaled])
    projected = [_dot(column, target) for column in scaled]
    values = tuple(_dot(row, projected) / length for row, length in zip(inverse, lengths, strict=True))
    covariance = tuple(
        tuple(inverse[i][j] / (lengths[i] * lengths[j]) for j in range(len(lengths))) for i in range(len(lengths))
    )
    residuals = tuple(value - _dot(row, values) for row, value in zip(weighted, target, strict=True))
    return Fit(values, covariance, residuals)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def _inverse(matrix: list[list[float]]) -> list[list[float]]:
    """Invert a symmetric matrix with ones on its diagonal, by Gauss-Jordan elimination with pivots."""
    size = len(matrix)
    work = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(work[row][column]))
        if abs(work[pivot][column]) < SINGULAR_BELOW:
            raise ValueError("the observations do not determine the unknowns")
        work[column], work[pivot] = work[pivot], work[column]
        divisor = work[column][column]
        work[column] = [each / divisor for each in work[column]]
        for row in range(size):
            if row != column and (factor := work[row][column]):
                work[row] = [each - factor * by for each, by in zip(work[row], work[column], strict=True)]
    return [row[size:] for row in work]


def student_t_quantile(probability: float, freedom: int) -> float:
    """Return the t below which a value of Student's distribution lies with the given probability.

    It bisects the distribution. Raises ValueError if the probability is below a half.
    """
    if not (0.5 <= probability < 1 and freedom >= 1):
        raise ValueError(f"no quantile for a probability of {probability} and {freedom} degrees of freedom")
    wanted = 2 * probability - 1
    low, high = 0.0, 1.0
    while _probability_within(high, freedom) < wanted:
        low, high = high, high * 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _probability_within(middle, freedom) < wanted else (low, middle)
    return middle


def _probability_within(t: float, freedom: int) -> float:
    """Return the probability that a value of Student's distribution lies between -t and t.

    Source: Abramowitz and Stegun 26.7.3 for odd and 26.7.4 for even degrees of freedom.
    """
    angle = math.atan(t / math.sqrt(freedom))
    is_odd = freedom % 2
    term = total = math.sin(angle) * (math.cos(angle) if is_odd else 1.0)
    for step in range(2 + is_odd, freedom, 2):
        term *= math.cos(angle) ** 2 * (step - 1) / step
        total += term
    if freedom == 1:
        total = 0.0
    return (angle + total) * 2 / math.pi if is_odd else total
