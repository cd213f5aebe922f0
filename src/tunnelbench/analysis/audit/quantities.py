"""Numbers of printed tables, with units in English and French, and with the precision of their digits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

LEAST_DIGITS = 2
"""The first digits of a whole number count as exact; zeros after this many digits may come from rounding."""
LONGEST_NUMBER_CELL = 200
"""Longest cell that is read as a number [characters]; a longer cell is prose."""


@dataclass(frozen=True)
class Quantity:
    """A printed number, in the unit of its column."""

    value: float
    step: float
    """Value of the last printed digit. The error is half a step if the number was rounded, and a whole step if digits
    were cut off."""
    unit: str = ""
    """Text after the number in its cell, such as `Mbps`, `k` or `%`."""

    @property
    def rounded(self) -> tuple[float, float]:
        """Range of the value before it was rounded."""
        return self.value - self.step / 2, self.value + self.step / 2

    @property
    def cut(self) -> tuple[float, float]:
        """Range of the value before it was rounded or cut off."""
        return self.value - self.step, self.value + self.step

    def times(self, factor: float) -> Quantity:
        """Convert to another unit."""
        return replace(self, value=self.value * factor, step=self.step * factor)


_PRINTED_NUMBER = re.compile(
    r"""[~≈≃<>*_'"\s]*
    (?P<sign>[+\-\u2212]?)\s?
    (?P<digits>\d{1,3}(?:[ \u00a0\u202f'\u2019]\d{3})+(?:[.,]\d+)?   # 1 234,5
      |\d{1,3}(?:,\d{3})+(?:\.\d+)?                       # 1,234.5
      |\d{1,18}(?:[.,]\d{1,18})?)
    (?P<exponent>[eE][+-]?\d{1,2})?
    \s*(?P<rest>.*)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_REMARK = re.compile(r"\(.*\)|\[.*\]|±.*|\+/-.*|[¹²³⁴-⁹*†‡]+", re.DOTALL)
_UNIT = re.compile(r"[a-zA-Zµéè%/.\s]{0,24}")
_THOUSANDS = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6}


def quantity(cell: str, *, comma_is_point: bool = False) -> Quantity | None:
    """Return the number of a cell; None if it contains no number or several numbers.

    Remarks in brackets, footnotes and a spread after the number are ignored. A formula is not a number.
    """
    found = _PRINTED_NUMBER.fullmatch(cell) if len(cell) <= LONGEST_NUMBER_CELL else None
    if found is None:
        return None
    unit = _REMARK.sub("", found["rest"]).strip()
    if not _UNIT.fullmatch(unit):
        return None
    digits = re.sub(r"[ \u00a0\u202f'\u2019]", "", found["digits"])
    whole, point, decimals = _split_digits(digits, comma_is_point)
    power = int((found["exponent"] or "e0")[1:])
    value = float(f"{whole}.{decimals or 0}") * 10.0**power
    step = 10.0 ** (power - len(decimals)) if point else 10.0 ** (power + _open_zeros(whole))
    if not math.isfinite(value):
        return None
    return Quantity(-value if found["sign"] in {"-", "\u2212"} else value, step, unit)


def has_decimal_comma(cell: str) -> bool:
    """Return True if a cell shows that the table uses a decimal comma.

    Examples are `94,2`, `0,125`, and `8 129`, which separates its thousands with a space.
    """
    return _DECIMAL_COMMA.search(cell) is not None


_DECIMAL_COMMA = re.compile(
    r"(?<![\d,.])(?:\d+,(?:\d{1,2}|\d{4,})|0,\d+)(?![\d,])|^\W*\d{1,3}(?: \d{3})+(?:,\d+)?\W*$", re.ASCII
)


def multiplied(found: Quantity) -> Quantity:
    """Apply a `k` or `M` after the number: 672k is 672000 with a precision of a thousand."""
    letter = found.unit[:1]
    if letter in _THOUSANDS and (len(found.unit) == 1 or found.unit[1:2] in {"p", "P", " ", "/"}):
        step = 10.0 ** math.floor(math.log10(found.step)) if found.step >= 1 else found.step
        return replace(found, value=found.value * _THOUSANDS[letter], step=min(step, 1.0) * _THOUSANDS[letter])
    return found


def _split_digits(digits: str, comma_is_point: bool) -> tuple[str, bool, str]:
    """Return the digits before the point, True if there is a point, and the decimals."""
    if "," in digits and "." in digits:
        digits = digits.replace(",", "")
    elif "," in digits:
        is_thousands = not comma_is_point and re.fullmatch(r"\d{1,3}(?:,\d{3})+", digits)
        digits = digits.replace(",", "" if is_thousands else ".")
    whole, point, decimals = digits.partition(".")
    return whole, bool(point), decimals


def _open_zeros(whole: str) -> int:
    """Return how many zeros at the end of a whole number may come from rounding, such as two for 8100."""
    significant = whole.lstrip("0")
    zeros = len(significant) - len(significant.rstrip("0"))
    return max(0, min(zeros, len(significant) - LEAST_DIGITS))
