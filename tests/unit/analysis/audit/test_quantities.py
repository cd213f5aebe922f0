"""Numbers are read as tables print them, and are no better known than that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelbench.analysis.audit.quantities import has_decimal_comma, multiplied, quantity


@pytest.mark.parametrize(
    ("cell", "value", "step"),
    [
        ("94.2 Mbps", 94.2, 0.1),
        ("8129", 8129, 1),
        ("1 234,5", 1234.5, 0.1),
        ("1,234", 1234, 1),
        ("1,234.50", 1234.5, 0.01),
        ("59000", 59000, 1000),
        ("100", 100, 10),
        ("*17.9 Mbps*", 17.9, 0.1),
        ("94 ¹", 94, 1),
        ("2364 (2314-2413)", 2364, 1),
        ("~12 ± 3 %", 12, 1),
        ("-5", -5, 1),
        ("1.5e6", 1.5e6, 1e5),
    ],
)
def test_a_cell_holds_a_number_and_how_well_it_is_known(cell: str, value: float, step: float) -> None:
    found = quantity(cell)
    assert found is not None
    assert [found.value, found.step] == pytest.approx([value, step])


@pytest.mark.parametrize("cell", ["", "-", "none", "AR9341", "929 / 916", "=1+1", "12 of 14", "1e400", "0x10", "٣"])
def test_a_cell_without_one_number_holds_none(cell: str) -> None:
    assert quantity(cell) is None


def test_a_comma_is_a_point_where_the_table_writes_so() -> None:
    assert [has_decimal_comma(cell) for cell in ("94,2", "1,234", "1,234,567", "2,1750", "0,125", "8 129")] == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]
    found = quantity("11,775", comma_is_point=True)
    assert found is not None
    assert found.value == 11.775


@pytest.mark.parametrize(
    ("cell", "value", "step"), [("672k", 672e3, 1e3), ("10.5 kpps", 10.5e3, 100), ("100k", 1e5, 1e3)]
)
def test_a_k_behind_a_number_counts(cell: str, value: float, step: float) -> None:
    found = quantity(cell)
    assert found is not None
    assert [multiplied(found).value, multiplied(found).step] == pytest.approx([value, step])


@given(st.floats(0.001, 1e9), st.integers(0, 4))
def test_what_was_rounded_lies_within_its_rounding(value: float, decimals: int) -> None:
    found = quantity(f"{value:.{decimals}f}")
    assert found is not None
    low, high = found.rounded
    assert low - 1e-9 * value <= value <= high + 1e-9 * value


@given(st.text())
def test_any_text_is_a_number_or_none(text: str) -> None:
    quantity(text)
    has_decimal_comma(text)
