"""Text that came from elsewhere (names, versions, reasons), made harmless."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that steer a terminal, turn the direction of writing or break a line."""


def one_line(text: str) -> str:
    """Text without control and format characters, runs of white space as one blank."""
    if text.isprintable():  # holds nothing of the kind: nearly every text, and ten times as fast
        return " ".join(text.split())
    visible = "".join(" " if unicodedata.category(character) in _HIDDEN else character for character in text)
    return " ".join(visible.split())
