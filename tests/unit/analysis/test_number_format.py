"""Numbers are written with significant digits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelbench.analysis.number_format import percent, significant


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (94.1478, 4, "94.15"),
        (2363.6, 4, "2364"),
        (28590, 4, "28590"),
        (123456, 4, "123500"),
        (99.96, 3, "100"),
        (0.40092, 3, "0.401"),
        (0.0000012, 3, "0"),
        (0, 4, "0"),
        (-0.00001, 3, "0"),
        (-12.345, 3, "-12.3"),
    ],
)
def test_a_number_keeps_its_significant_digits(value: float, digits: int, expected: str) -> None:
    assert significant(value, digits) == expected


def test_the_bounds_of_a_spread_have_the_decimals_of_its_median() -> None:
    assert significant(0.0949, like=3.1) == "0.095"
    assert significant(110.33, like=9.87) == "110.330"
    assert significant(9.876, 3, like=1234) == "10"


def test_thousands_are_separated_only_when_asked() -> None:
    assert significant(204040.1) == "204000"
    assert significant(204040.1, thousands=True) == "204,000"


def test_a_share_is_written_in_per_cent() -> None:
    assert percent(0.0977) == "9.77%"
    assert percent(1.0) == "100%"
    assert percent(0.1015, like=0.0977) == "10.15%"


@given(st.floats(min_value=1, max_value=1e12), st.integers(min_value=2, max_value=6))
def test_what_is_written_is_within_half_a_digit_of_the_value(value: float, digits: int) -> None:
    written = float(significant(value, digits))
    exponent = math.floor(math.log10(value))
    assert abs(written - value) <= max(0.5001 * 10 ** (exponent - digits + 1), 0.0005001)
