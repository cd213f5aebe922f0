"""Tables out of text: one module a format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tunnelbench.analysis.audit.tables import csv, html, markdown, textile
from tunnelbench.analysis.audit.tables.table import Table
from tunnelbench.model.errors import WrongInput

READERS: Mapping[str, Callable[[str], list[Table]]] = {
    "csv": csv.read,
    "html": html.read,
    "markdown": markdown.read,
    "textile": textile.read,
}

_HTML = re.compile(r"<table[\s>]", re.IGNORECASE)
_TEXTILE = re.compile(r"^\|(?:_|[/\\]\d+|[<>=^~])+\.", re.MULTILINE)


def read(text: str, format_name: str | None = None) -> list[Table]:
    """The tables of a text, in its order; by its looks where no format is named.

    WrongInput, with one sentence, where there is none or where one is larger than any table of results.
    """
    name = format_name or looks_like(text)
    tables = [table for table in READERS[name](text) if table.rows]
    if not tables:
        raise WrongInput(f"there is no {name} table in it", "say what it is: --input csv|html|markdown|textile")
    return tables


def looks_like(text: str) -> str:
    """The format that a text is most likely in."""
    if _HTML.search(text):
        return "html"
    if _TEXTILE.search(text):
        return "textile"
    if any(map(markdown.is_rule, text.splitlines())):
        return "markdown"
    return "csv"
