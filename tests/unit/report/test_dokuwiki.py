"""DokuWiki: the cells of its tables add up, and no text is markup by accident.

What the escapes become was seen with DokuWiki 2022-07-31a, through its own parser.
"""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.report.figures import table_figures
from tunnelbench.report.formats.dokuwiki import escape
from tunnelbench.report.markup import result_columns
from tunnelbench.report.render import render
from tunnelbench.report.text import one_line

COLUMNS = result_columns(table_figures("tcp"), has_tests=False)

SHOWN_AS_IT_IS = re.compile(r"%%(.*?)%%|<nowiki>(.*?)</nowiki>")
MARKUP = r"[|^*~<>{}@#\\&\"'`!$]|//|--|__|==|\.\.\.|%%|\(\(|\)\)|:::|:-|8-[)oO]|\[\[|\]\]|:\?|ww\."
MARKUP += r"|ftp\.|FIXME|LOL|\(c\)|\dx\d"


def read(text: str) -> str:
    """Return the text that a reader sees; `<nowiki>` may contain `%%`, and `%%` contains no `%`."""
    return SHOWN_AS_IT_IS.sub(lambda found: found[1] if found[1] is not None else found[2], text)


def rows(text: str) -> list[list[str]]:
    """Return the cells of each line of all tables."""
    bare = SHOWN_AS_IT_IS.sub("", text)
    return [re.split(r"[|^]", line)[1:-1] for line in bare.splitlines() if line.startswith(("|", "^"))]


def test_every_row_has_all_cells_and_a_cell_above_goes_on() -> None:
    table = rows(render(make_run(), make_records(), "dokuwiki"))[: 1 + 36]
    assert {len(cells) for cells in table} == {len(COLUMNS)}
    assert [cells[0].strip() for cells in table[5:13]] == ["none", *[":::"] * 3, "vxlan", *[":::"] * 3]
    assert [cells[2].strip() for cells in table[5:9]] == ["1448", ":::", "76", ":::"]
    assert all(cell for cells in table for cell in cells), "two bars without anything between would span columns"


def test_every_row_of_a_table_below_has_the_cells_of_its_header() -> None:
    below = rows(render(make_run(), make_records(), "dokuwiki", speeds=make_speeds()))[1 + 36 :]
    assert {len(cells) for cells in below} == {8, 9}


def test_hostile_text_changes_neither_the_table_nor_the_page() -> None:
    text = render(*hostile_run(), "dokuwiki")
    table = rows(text)
    assert len(table) == 1 + 3
    assert {len(cells) for cells in table} == {len(COLUMNS)}
    assert read(text).count(one_line(HOSTILE)) >= 10
    body = "\n".join(line for line in text.splitlines() if not line.startswith("="))  # a heading is not parsed
    left = SHOWN_AS_IT_IS.sub(" ", body)
    for active in ("<b>", "<script>", "[[", "{{", "//", "~~", "''", "((", "@", '"', "www."):
        assert active not in left


def test_a_heading_is_as_it_is_for_it_is_not_parsed() -> None:
    text = render(make_run(plan_title="a **b** = //c//"), (), "dokuwiki")
    assert text.startswith("====== TunnelBench: a **b** = //c// ======\n")


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("*_-+^~%@!|\"'[]{}<>#=:.()&;/\\ 18xcmwLOFIXME")))
def test_any_text_reads_as_it_is(text: str) -> None:
    line = one_line(text)
    escaped = escape(line)
    assert read(escaped) == line
    assert not re.search(MARKUP, SHOWN_AS_IT_IS.sub("\N{WHITE SQUARE}", escaped))
