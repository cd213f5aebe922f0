"""Tables of a text, with one module for each format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tunnelbench.analysis.audit.tables import csv, html, markdown, textile
from tunnelbench.analysis.audit.tables.table import PublishedTable
from tunnelbench.model.errors import WrongInput

READERS: Mapping[str, Callable[[str], list[PublishedTable]]] = {
    "csv": csv.read,
    "html": html.read,
    "markdown": markdown.read,
    "textile": textile.read,
}

_HTML = re.compile(r"<table[\s>]", re.IGNORECASE)
_TEXTILE = re.compile(r"^\|(?:_|[/\\]\d+|[<>=^~])+\.", re.MULTILINE)


def read(text: str, format_name: str | None = None) -> list[PublishedTable]:
    """Return the tables of a text in order; without a format name the format is detected.

    Raises WrongInput if there is no table, or if a table is too large.
    """
    name = format_name or looks_like(text)
    tables = [table for table in READERS[name](text) if table.rows]
    if not tables:
        raise WrongInput(f"contains no {name} table", "name the format: --input csv|html|markdown|textile")
    return tables


def looks_like(text: str) -> str:
    """Return the most likely format of a text."""
    if _HTML.search(text):
        return "html"
    if _TEXTILE.search(text):
        return "textile"
    if any(map(markdown.is_rule, text.splitlines())):
        return "markdown"
    return "csv"
