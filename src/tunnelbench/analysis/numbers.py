"""How numbers are written: a few significant digits, as many decimals for the bounds of a spread as for its median."""

from __future__ import annotations

import math

MOST_DECIMALS = 3
"""Nothing that is reported here is known better; a share of 0.0000012 is 0."""


def significant(value: float, digits: int = 4, *, like: float | None = None, thousands: bool = False) -> str:
    """`value` with so many significant digits and no exponent.

    `like`: with the decimals of that value instead of its own. `thousands`: with commas between groups of three digits.
    """
    reference = value if like is None else like
    places = _places(round(reference, _places(reference, digits)), digits)
    return f"{round(value, places) + 0.0:{',' if thousands else ''}.{max(0, places)}f}"


def percent(share: float, *, like: float | None = None) -> str:
    """A share of 1 in per cent, three digits."""
    return significant(share * 100, 3, like=None if like is None else like * 100) + "%"


def _places(value: float, digits: int) -> int:
    """Decimal places, negative where digits before the point are rounded away."""
    if value == 0:
        return 0
    return min(MOST_DECIMALS, digits - 1 - math.floor(math.log10(abs(value))))
