"""Tables are read in four formats; what is no table of results gets one sentence."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tunnelbench.analysis.audit.decode import LARGEST_TABLE_BYTES, decode_text
from tunnelbench.analysis.audit.tables import looks_like, read
from tunnelbench.analysis.audit.verdict import audit
from tunnelbench.model.errors import WrongInput


def cells(text: str, format_name: str | None = None) -> list[list[tuple[str, ...]]]:
    return [[row.cells for row in table.rows] for table in read(text, format_name)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_values_may_be_separated_by_any_usual_delimiter(delimiter: str) -> None:
    text = delimiter.join("ab") + "\n" + delimiter.join(["1", '"2\n3"']) + "\r\n"
    assert cells(text, "csv") == [[("a", "b"), ("1", "2 3")]]


def test_decimal_commas_do_not_make_columns() -> None:
    assert cells("tunnel;Mbit/s\nnone;94,2\ngre;92,7\n") == [[("tunnel", "Mbit/s"), ("none", "94,2"), ("gre", "92,7")]]


def test_the_line_of_a_row_is_where_it_begins() -> None:
    (table,) = read('# from a page\n\na,b\n1,"2\n3"\n4,5\n')
    assert [row.line for row in table.rows] == [3, 4, 6]


def test_markdown_leaves_out_markup_and_keeps_escaped_bars() -> None:
    text = "text\n\n| a | b |\n|:--|--:|\n| **1** | `x\\|y`<br>z |\n\nmore | text\n"
    assert cells(text) == [[("a", "b"), ("1", "x|y z")]]


def test_textile_spans_fill_their_places() -> None:
    text = "|_. a |_. b |_. c |\n|/2. x |\\2. y |\n| 1 | *2* |\nno | row |\n|_. d |\n| 3 |\n"
    assert cells(text) == [[("a", "b", "c"), ("x", "y", "y"), ("x", "1", "2")], [("d",), ("3",)]]


def test_html_tables_inside_each_other_are_tables_of_their_own() -> None:
    text = "<table><tr><td>a<table><tr><th>b<th>c<tr><td rowspan=x colspan=-1>1<td>2</table></td><td>d</table>"
    assert cells(text) == [[("a", "d")], [("b", "c"), ("1", "2")]]


@pytest.mark.parametrize(
    ("text", "name"),
    [("<TABLE><tr>", "html"), ("|_.a|\n", "textile"), ("a|b\n-- | --\n", "markdown"), ("a,b\n", "csv"), ("", "csv")],
)
def test_the_format_is_detected_from_the_text(text: str, name: str) -> None:
    assert looks_like(text) == name


MANY = 1_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",".join(["x"] * MANY) + "\n1\n", "line 1: over 500 columns"),
        ("|" + "a|" * MANY + "\n|" + "--|" * MANY + "\n", "line 1: over 500 columns"),
        ("|_. a " * MANY + "|\n", "line 1: over 500 columns"),
        ("<table><tr>" + "<td>a" * MANY, "line 1: over 500 columns"),
        ("<table><tr><td colspan=999999999>a", "line 1: over 500 columns"),
        ("a,b\n" + "1,2\n" * 10_001, "line 10001: over 10000 rows"),
        ("<table>" + "<tr><td>1\n" * 10_002, "over 10000 rows"),
        ("a,b\n" + "1," + "x" * 10_001 + "\n", "line 2: a cell of over 10000 characters"),
        ("a,b\n1," + "x" * 200_000 + "\n", "line 2: not CSV: field larger than field limit (131072)"),
        ("<table><tr><td>" + "x" * 10_001, "line 1: a cell of over 10000 characters"),
        ("<table><tr><td>" * 21, "line 1: over 20 tables inside each other"),
        ("", "contains no csv table"),
    ],
)
def test_input_without_a_table_of_results_gives_one_sentence(text: str, said: str) -> None:
    with pytest.raises(WrongInput) as caught:
        read(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_comes_in_many_encodings(encoding: str) -> None:
    text, found = decode_text("Débit;paquets/s\n".encode(encoding))
    assert text == "Débit;paquets/s\n"
    assert found == encoding.removesuffix("-sig")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a,b\n1,\0\n", "NUL byte at character 6"),
        (b"\x81\x8d\xff", "not text in UTF-8 or Windows-1252 (byte 0x81 at 0)"),
        (b" \n", "is empty"),
        (b"x" * (LARGEST_TABLE_BYTES + 1), "larger than 16 MiB"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(WrongInput) as caught:
        decode_text(data)
    assert said in caught.value.message


BROKEN_SIZE = 300_000


@pytest.mark.parametrize(
    "text",
    [
        "<table>" + "<!--" * BROKEN_SIZE,
        "<table>" + "<![CDATA[" * BROKEN_SIZE,
        "<table>" + "</a " * BROKEN_SIZE,
        "<table><tr><td " + "a='" * BROKEN_SIZE,
        "<table><script>" * BROKEN_SIZE,
        "pps\n" + (" " * 9000 + "1\n") * 100,
        "pps\n" + ("1" + "(" * 9000 + "\n") * 100,
        "|" + " " * BROKEN_SIZE + "\n",
        "a|b\n" + "-" * BROKEN_SIZE + "\n",
    ],
    ids=lambda text: repr(text[:16]),
)
@pytest.mark.timeout(10)
def test_no_broken_page_takes_long(text: str) -> None:
    with suppress(WrongInput):
        audit(text)
