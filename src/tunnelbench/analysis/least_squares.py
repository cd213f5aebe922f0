"""Weighted linear least squares with its errors, and the quantile of Student's t that makes intervals of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SINGULAR_BELOW = 1e-10
"""A pivot this small beside 1, the columns being scaled to that length: they do not tell the unknowns apart."""


@dataclass(frozen=True)
class Fit:
    """The unknowns that fit some observations best, in the order of the columns."""

    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    """Of the values, the errors of the observations being those given."""
    residuals: tuple[float, ...]
    """Observed less fitted, each in units of its error."""

    @property
    def freedom(self) -> int:
        """Observations beyond the unknowns."""
        return len(self.residuals) - len(self.values)

    @property
    def scatter(self) -> float | None:
        """How large the residuals are, in units of the given errors: sqrt(chi square / freedom). None: no freedom."""
        return math.sqrt(sum(each * each for each in self.residuals) / self.freedom) if self.freedom else None

    def at(self, row: Sequence[float]) -> float:
        """What is expected where the unknowns have these factors."""
        return sum(factor * value for factor, value in zip(row, self.values, strict=True))

    def variance_at(self, row: Sequence[float]) -> float:
        """Variance of `at(row)`, the errors of the observations being those given."""
        return sum(
            first * second * self.covariance[i][j] for i, first in enumerate(row) for j, second in enumerate(row)
        )


def fit(rows: Sequence[Sequence[float]], observed: Sequence[float], errors: Sequence[float]) -> Fit:
    """Minimise the sum of ((observed - row * values) / error)^2.

    By the normal equations, their columns scaled to length one. ValueError where the rows do not determine every
    value: too few of them, or columns that depend on each other.
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
    """Of a symmetric matrix with ones on its diagonal, by Gauss-Jordan elimination with pivots."""
    size = len(matrix)
    work = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(work[row][column]))
        if abs(work[pivot][column]) < SINGULAR_BELOW:
            raise ValueError("the observations do not tell the unknowns apart")
        work[column], work[pivot] = work[pivot], work[column]
        divisor = work[column][column]
        work[column] = [each / divisor for each in work[column]]
        for row in range(size):
            if row != column and (factor := work[row][column]):
                work[row] = [each - factor * by for each, by in zip(work[row], work[column], strict=True)]
    return [row[size:] for row in work]


def student_t_quantile(probability: float, freedom: int) -> float:
    """The t below which Student's distribution lies with a probability of at least a half; ValueError below that.

    By bisection of the distribution: 1 - I(v / (v + t^2); v/2, 1/2) / 2 (Abramowitz and Stegun 26.7.1).
    """
    if not (0.5 <= probability < 1 and freedom >= 1):
        raise ValueError(f"no quantile for a probability of {probability} and {freedom} degrees of freedom")

    def tail(t: float) -> float:
        return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2

    low, high = 0.0, 1.0
    while tail(high) > 1 - probability:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if tail(middle) > 1 - probability else (low, middle)
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I(x; a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly: I(x; a, b) = 1 - I(1 - x; b, a)
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front / a / _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, evaluated from in front (Lentz 1976)."""
    value = upper = 1.0
    lower = 0.0
    for step in range(1, 1000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / ((1 + term * lower) or 1e-300)
        upper = (1 + term / upper) or 1e-300
        value *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return value
