"""Text from files and programs, made fit to be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line and without control characters: what others wrote must not steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(count: int, what: str) -> str:
    """So many of what is named in the singular: `1 row`, `2 rows`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
