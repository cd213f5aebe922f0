"""Format of `--help`: a command in a text is not broken at the end of a line."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from tunnelbench.model.text import NO_BREAK_SPACE

COMMAND = re.compile(r'`[^`]+`|eval "[^"]+"|(?:sudo )?\btunnelbench [a-z]+\b(?: (?:fish \| source|references))?')
"""Commands in the texts of the verbs: TunnelBench with a verb, and all that stands between backticks."""


def glued(text: str) -> str:
    """Return a text in which the spaces of commands are no-break spaces, so that a line cannot end there."""
    return COMMAND.sub(lambda found: found[0].replace(" ", NO_BREAK_SPACE), text)


class HelpFormat(click.HelpFormatter):
    """click's format, which folds texts at every space, without a break inside a command."""

    def write_text(self, text: str) -> None:
        super().write_text(glued(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, glued(text)) for name, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(NO_BREAK_SPACE, " ")
