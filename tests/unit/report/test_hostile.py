"""One text that is markup in every format, wherever a text from elsewhere can stand: it is shown, and inert."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Mapping

import pytest
from markdown_it import MarkdownIt
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.report.formats import format_names
from tunnelbench.report.render import render
from tunnelbench.report.text import one_line

LINE = one_line(HOSTILE)


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def is_inert_csv(text: str) -> bool:
    return not any(cell.startswith(("=", "+", "-", "@")) and not _is_number(cell) for cell in cells(text))


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?[\d.e+-]+", cell) is not None


def is_inert_html(text: str) -> bool:
    without_own = re.sub(r"<script(?: [^>]*)?>.*?</script>|<style>.*?</style>", "", text, flags=re.DOTALL)
    return not re.search(r"<script|<b>x|\son\w+=", without_own) and "<script>alert" not in text


def is_inert_markdown(text: str) -> bool:
    drawn = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    return not re.search(r"<(?:script|b|em|a|img|code|del)\b", drawn)


def is_inert_textile(text: str) -> bool:
    bare = re.sub(r"&#\d+;", "", text)
    return not any(active in bare for active in ("<b>", "[[", "{{", "!i", "@", "http:", "www.", "==", "GRE("))


def is_inert_dokuwiki(text: str) -> bool:
    body = "\n".join(line for line in text.splitlines() if not line.startswith("="))  # a heading is not parsed
    bare = re.sub(r"%%.*?%%|<nowiki>.*?</nowiki>", "", body)
    return not any(active in bare for active in ("<", "[[", "{{", "//", "~~", "((", "@", '"', "www.", "``"))


def is_inert_terminal(text: str) -> bool:
    return not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)


def is_inert_json(text: str) -> bool:
    return bool(json.loads(text)) and text.isascii()


INERT: Mapping[str, tuple[Callable[[str], bool], Callable[[str], str]]] = {
    "csv": (is_inert_csv, lambda text: " ".join(cells(text))),
    "dokuwiki": (is_inert_dokuwiki, lambda text: re.sub(r"%%(.*?)%%|<nowiki>(.*?)</nowiki>", r"\1\2", text)),
    "html": (is_inert_html, html.unescape),
    "json": (is_inert_json, lambda text: one_line(json.loads(text)["run"]["plan_title"])),
    "markdown": (is_inert_markdown, lambda text: html.unescape(re.sub(r"\\(.)", r"\1", text))),
    "series": (is_inert_csv, lambda text: " ".join(cells(text))),
    "terminal": (is_inert_terminal, lambda text: text),
    "textile": (is_inert_textile, html.unescape),
}
"""For each format whether nothing is active in it, and what a reader sees."""


def test_every_format_is_tried() -> None:
    assert tuple(INERT) == format_names()


@pytest.mark.parametrize("name", format_names())
def test_hostile_text_is_shown_and_does_nothing(name: str) -> None:
    is_inert, shown = INERT[name]
    text = render(*hostile_run(), name, 100_000)
    assert is_inert(text)
    assert LINE in shown(text)
