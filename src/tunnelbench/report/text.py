"""Removes control characters from texts of other programs and machines for reports, and formats durations."""

from __future__ import annotations

import unicodedata

UNFOLDED_WIDTH = 10_000
"""Width larger than any line, used for output that must not be folded [columns]."""

INDENT = "  "
COLUMN_GAP = "  "
"""Blanks before the lines of a table in a terminal, and between its columns."""

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that control a terminal, change the direction of writing or break a line."""


def hides_characters(text: str) -> bool:
    """Return True if a text has control or format characters."""
    return any(unicodedata.category(character) in _HIDDEN for character in text)


def one_line(text: str) -> str:
    """Return text without control and format characters, runs of white space as one blank."""
    if text.isprintable():  # holds none of them: true for nearly every text, and ten times as fast
        return " ".join(text.split())
    visible = "".join(" " if unicodedata.category(character) in _HIDDEN else character for character in text)
    return " ".join(visible.split())


def length(seconds: float) -> str:
    """Return a time such as `2 d 3:04:05`, `3:04:05` or `12.5 s`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} d {hours}:{minutes:02}:{rest:02}" if days else f"{hours}:{minutes:02}:{rest:02}"
