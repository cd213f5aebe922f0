"""Turns tables and paragraphs of the library `rich` into text, for terminals and for files."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.text import Text


def printed(parts: Iterable[RenderableType], width: int, *, has_colour: bool) -> str:
    """Return parts below each other as text; only with `has_colour` it has escape sequences."""
    output = io.StringIO()
    console = Console(
        file=output,
        width=width,
        force_terminal=has_colour,
        color_system="standard" if has_colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # the caller, not this console, obeys COLUMNS and NO_COLOR
    )
    for part in parts:
        # rich ignores the no_wrap of a text.
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().split("\n")[:-1])
