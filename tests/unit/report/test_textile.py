"""Textile as Redmine reads it: the spans of its cells add up, and no text is markup by accident."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.report.figures import table_figures
from tunnelbench.report.formats.textile import escape
from tunnelbench.report.markup import result_columns
from tunnelbench.report.render import render
from tunnelbench.report.text import one_line

COLUMNS = result_columns(table_figures("tcp"), has_tests=False)

CELL = re.compile(r"\|(?P<attributes>_?(?:/\d+)?[<>=]*\. )?(?P<text>[^|]*)(?=\|)")


@dataclass(frozen=True)
class Cell:
    text: str
    rows: int = 1
    is_header: bool = False


def tables(text: str) -> list[list[list[Cell]]]:
    """All tables: blocks that begin with `|`; a line that does not end with `|` goes on in the next one."""
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    return [[cells(row) for row in re.sub(r"(?<!\|)\n", "<br>", block.rstrip("\n")).split("\n")] for block in blocks]


def cells(row: str) -> list[Cell]:
    assert row.startswith("|")
    assert row.endswith("|")
    found = []
    for match in CELL.finditer(row):
        attributes = match["attributes"] or ""
        span = re.search(r"/(\d+)", attributes)
        found.append(Cell(match["text"].strip(), int(span[1]) if span else 1, attributes.startswith("_")))
    return found


def filled(table: list[list[Cell]]) -> list[list[Cell]]:
    """The table with every spanning cell repeated in the rows that it covers; a cell too many or too few fails."""
    width = len(table[0])
    open_cells: list[tuple[Cell, int]] = [(Cell(""), 0)] * width
    full = []
    for row in table:
        waiting = iter(row)
        line = []
        for column in range(width):
            cell, left = open_cells[column]
            if not left:
                cell = next(waiting)
                left = cell.rows
            open_cells[column] = (cell, left - 1)
            line.append(cell)
        assert list(waiting) == []
        full.append(line)
    assert all(left == 0 for _, left in open_cells)
    return full


def test_the_spans_of_all_cells_add_up() -> None:
    table, *_ = tables(render(make_run(), make_records(), "textile"))
    full = filled(table)
    assert [html.unescape(cell.text) for cell in full[0]] == [column.title for column in COLUMNS]
    assert len(full) == 1 + 36
    assert {len(row) for row in full} == {len(COLUMNS)}


def test_a_tunnel_spans_its_rows_and_a_payload_its_directions() -> None:
    table, *_ = tables(render(make_run(), make_records(), "textile"))
    first, second, third, fourth = table[5:9]
    assert first[:4] == [Cell("none", 4, is_header=True), Cell("linux 6.18 (6.18)", 4), Cell("1448", 2), Cell("down")]
    assert second[0] == Cell("up")
    assert third[:2] == [Cell("76", 2), Cell("down")]
    assert fourth[0] == Cell("up")


def test_versions_are_lines_of_one_cell() -> None:
    table, *_ = tables(render(make_run(), make_records(), "textile"))
    versions = [row[1].text for row in filled(table) if row[0].text == "openvpn AES-128-GCM"]
    assert versions == ["openvpn 2.6.14 (2.6.14)<br>OpenSSL 3.0.19 (3.0.19)"] * 4


def test_one_direction_alone_spans_nothing() -> None:
    only_in = [record for record in make_records() if record.spec.direction == "in" and record.spec.payload_bytes == 76]
    table, *_ = tables(render(make_run(), only_in, "textile"))
    assert {cell.rows for row in table for cell in row} == {1}
    assert table[2][0] == Cell("none", is_header=True)


def test_every_row_of_a_table_below_has_the_cells_of_its_header() -> None:
    _, *below = tables(render(make_run(), make_records(), "textile"))
    assert below
    for table in below:
        assert {len(row) for row in table} == {len(table[0])}
        assert all(cell.is_header for cell in table[0])


def test_the_best_of_a_group_is_bold() -> None:
    table, *_ = tables(render(make_run(), make_records(), "textile"))
    cost = [column.title for column in COLUMNS].index("CPU s per Mpackets")
    bold = {row[0].text for row in filled(table)[1:] if row[cost].text.startswith("*")}
    assert bold == {"vxlan"}


def test_hostile_text_changes_neither_the_table_nor_the_page() -> None:
    text = render(*hostile_run(), "textile")
    table, *_ = tables(text)
    full = filled(table)
    assert len(full) == 1 + 3
    assert html.unescape(full[1][0].text) == one_line(HOSTILE)
    assert html.unescape(full[3][0].text) == one_line(f"={HOSTILE}")
    for active in ("<b>", "[[", "{{", "!i", "@", '"t"', "http:", "www.", "#12", "-del-", "+", "^", "~", "==", "GRE("):
        assert active not in re.sub(r"&#\d+;", "", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)


@pytest.mark.parametrize("note", ["h1. x", "bq. x", "# x", "* x", "|x|", "<pre>"])
def test_a_note_is_a_paragraph_whatever_it_begins_with(note: str) -> None:
    text = render(make_run(notes=(note,)), make_records(), "textile")
    assert f"\n\np. {escape(note)}\n\n" in text
    assert all(table[0][0].text == "Tunnel" for table in tables(text))


@given(st.text())
def test_any_text_reads_as_it_is(text: str) -> None:
    line = one_line(text)
    assert html.unescape(escape(line)) == "".join(html.unescape(f"&#{ord(character)};") for character in line)


@given(st.text(alphabet=" *_-+^~%@!|\"'[]{}<>#=:.()&;aB1"))
def test_nothing_active_is_left(text: str) -> None:
    left = re.sub(r"&#\d+;", "\N{WHITE SQUARE}", escape(text))
    assert not re.search(r"[*+^~@!|\"\[\]{}<>#=&]", left)
    assert not re.search(
        r"(?<!\w)-|-(?!\w)|(?<![^\W_])_|_(?![^\W_])|(?<!\d)%|:(?=[^\s\d])|(?<! )\(|(?<!\d)\.(?=\w)", left
    )
