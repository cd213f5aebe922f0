"""Markdown, as a real parser reads it."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.report.figures import table_figures
from tunnelbench.report.formats.markdown import escape
from tunnelbench.report.markup import result_columns
from tunnelbench.report.render import render
from tunnelbench.report.text import one_line

COLUMNS = result_columns(table_figures("tcp"), has_tests=False)

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OURS = {"h1", "h2", "h3", "ul", "li", "strong", "blockquote", "p", "table", "thead", "tbody", "tr", "th", "td", "br"}


class Page(HTMLParser):
    """Elements of a page, and the text of each cell, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._in_cell = False
        self.feed(PARSER.render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"td", "th"}:
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.tables[-1][-1][-1] += data

    @property
    def rows(self) -> list[list[str]]:
        """Return the rows of the first table."""
        return self.tables[0]


def test_the_table_has_all_rows_and_columns() -> None:
    page = Page(render(make_run(), make_records(), "markdown"))
    assert page.rows[0] == [column.title for column in COLUMNS]
    assert len(page.rows) == 1 + 36
    assert {len(row) for row in page.rows} == {len(COLUMNS)}
    assert page.elements == OURS


def test_a_tunnel_is_named_in_its_first_row_only() -> None:
    page = Page(render(make_run(), make_records(), "markdown"))
    assert [row[0] for row in page.rows[5:13]] == ["none", "", "", "", "vxlan", "", "", ""]


def test_every_row_of_a_table_below_has_the_cells_of_its_header() -> None:
    _, *below = Page(render(make_run(), make_records(), "markdown")).tables
    assert below
    assert all(len(row) == len(table[0]) for table in below for row in table)


def test_hostile_text_changes_neither_the_table_nor_the_page() -> None:
    page = Page(render(*hostile_run(), "markdown"))
    assert page.elements <= OURS
    assert {len(row) for row in page.rows} == {len(COLUMNS)}
    assert len(page.rows) == 1 + 3
    assert page.rows[1][0] == one_line(HOSTILE)
    assert f"TunnelBench: {one_line(HOSTILE)}" in page.text
    assert page.text.count("<script>alert(1)</script>") >= 10


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\\`*_{}[]()<>#+-.!|~:&;=\"'1 ")))
def test_any_text_reads_as_it_is_alone_and_in_a_list(text: str) -> None:
    line = one_line(text)
    page = Page(f"- {escape(line)}\n")
    assert page.elements <= {"ul", "li", "p"}
    assert page.text.strip() == line
