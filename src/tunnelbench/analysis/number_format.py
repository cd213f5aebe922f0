"""Numbers as text: a few significant digits, and the same decimals for the bounds of a spread as for its median."""

from __future__ import annotations

import math

from tunnelbench.analysis.statistics import Estimate

MOST_DECIMALS = 3
"""Numbers have at most this many decimals, because no figure is more accurate: 0.0000012 is printed as 0."""


def significant(value: float, digits: int = 4, *, like: float | None = None, thousands: bool = False) -> str:
    """Return `value` with so many significant digits and no exponent.

    With `like`, the text has as many decimals as `like` has in this format. With `thousands`, commas separate groups of
    three digits.
    """
    reference = value if like is None else like
    places = _places(round(reference, _places(reference, digits)), digits)
    return f"{round(value, places) + 0.0:{',' if thousands else ''}.{max(0, places)}f}"


def percent(share: float, *, like: float | None = None) -> str:
    """Return a share of 1 in per cent, with three significant digits."""
    return significant(share * 100, 3, like=None if like is None else like * 100) + "%"


def percent_in_words(share: float) -> str:
    """Return a share of 1 in per cent as sentences have it: with a space before the sign (SI brochure, 5.4.7)."""
    return percent(share).replace("%", " %")


def with_range(value: str, low: str, high: str) -> str:
    """Return a figure with its range in parentheses, such as `3.2 (3.1-3.4)`; without it if it has no extent."""
    return value if low == high else f"{value} ({low}-{high})"


def estimate_text(found: Estimate, digits: int) -> str:
    """Return a median with so many significant digits, and its range."""
    return with_range(*(significant(each, digits) for each in (found.median, found.low, found.high)))


def _places(value: float, digits: int) -> int:
    """Return the decimal places, negative if digits before the point are rounded."""
    if value == 0:
        return 0
    return min(MOST_DECIMALS, digits - 1 - math.floor(math.log10(abs(value))))


def count_text(value: float) -> str:
    """Return a count, or a median of counts, without the zeros of a whole number: `250`, `2.5`, `12,345`."""
    return f"{value:,.1f}".removesuffix(".0")
