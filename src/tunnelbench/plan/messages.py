"""Functions that word the error messages of plan and testbed files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST_QUOTE = 60
"""Length at which a message cuts a value [characters]."""


def quoted(text: str) -> str:
    """Return the text in double quotes, cut if it is long."""
    return f'"{text}"' if len(text) <= LONGEST_QUOTE else f'"{text[:LONGEST_QUOTE]}..."'


def value_text(value: Any) -> str:
    """Return a value as a message names it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int():
            # Python refuses to convert integers of thousands of digits, which TOML allows in hexadecimal
            return str(value) if value.bit_length() <= 64 else "a number of more than 64 bits"
        case float():
            return repr(value)
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


SHORT_WORD = 3
"""Length of a word that resembles only words of about its own length [characters]."""
SHORT_WORD_DIFFERENCE = 1
"""Largest difference between the lengths of a short word and of a word that it resembles [characters]."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, ignoring case, or None."""
    return next(iter(similar(word, known)), None)


def similar(word: str, known: Iterable[str]) -> list[str]:
    """Return at most three similar known words, ignoring case, the most similar one first.

    A word of up to three letters resembles only words of about its own length: `upd` resembles `udp`, but `on` does
    not resemble `none`.
    """
    is_short = len(word) <= SHORT_WORD
    by_lower = {
        candidate.lower(): candidate
        for candidate in known
        if not is_short or abs(len(candidate) - len(word)) <= SHORT_WORD_DIFFERENCE
    }
    return [by_lower[found] for found in difflib.get_close_matches(word.lower(), by_lower)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or an empty text if no known word is similar."""
    meant = nearest(word, known)
    return f"; did you mean {meant}?" if meant else ""


def not_one_of(value: Any, known: Sequence[str]) -> str:
    """Return `"x" is not one of a, b; did you mean a?`."""
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    if len(known) == 1:
        return f"must be {known[0]}, not {value_text(value)}{hint}"
    return f"{value_text(value)} is not one of {', '.join(known)}{hint}"


def key_text(path: Sequence[str | int]) -> str:
    """Return a key as the user would name it: `tunnel[2].cipher`, blocks counted from 1.

    The column of an error identifies a value in a list: the key of each value of `cipher = ["a", "b"]` is `cipher`.
    """
    if len(path) > 2 and isinstance(path[-1], int):
        path = path[:-1]
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            text += "." * bool(text) + (part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else quoted(part))
    return text
