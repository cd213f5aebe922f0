"""Whatever a file holds, the audit ends with a verdict or with one sentence."""

from __future__ import annotations

import string

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tunnelbench.analysis.audit.decode import decode_text
from tunnelbench.analysis.audit.tables import READERS
from tunnelbench.analysis.audit.verdict import Audit, audit
from tunnelbench.model.errors import WrongInput
from tunnelbench.report.audit import sheet
from tunnelbench.report.formats import sheet_format_names
from tunnelbench.report.render import render_sheet

HEADINGS = ["tunnel", "payload", "Mbit/s", "MB/s", "pps (in/out)", "cpu usr", "cpu", "share", "comment", "link", "MSS"]
CELLS = ["", "1448", "94,2", "8 129", "1e308", "-1", "=HYPERLINK(1)", "12 / 13", "99%", "none", "0", "\u202e7", "NaN"]
table_text = st.text(string.printable + "é|\u202e\ud7ff", max_size=300)
pieces = st.lists(
    st.sampled_from([*HEADINGS, *CELLS, "|", "\n", ",", ";", "|_.", "/2.", "\\3.", "---|---", "<table>", "<tr>", "<td>",
                     "<th colspan=3>", "<td rowspan=9>", "</table>", '"', "&#8239;", "<script>", "<!--"]),
    max_size=80,
).map("".join)  # fmt: skip
grids = st.lists(st.lists(st.sampled_from(CELLS), min_size=3, max_size=12), min_size=1, max_size=8)


def one_sentence(error: WrongInput) -> None:
    assert error.message
    assert "\n" not in error.message


def audited(text: str, format_name: str | None = None) -> Audit | None:
    """The audit, drawn in every format; None where the text was refused, in one sentence."""
    try:
        found = audit(text, format_name)
    except WrongInput as error:
        one_sentence(error)
        return None
    for name in sheet_format_names():
        drawn = render_sheet(sheet(found, "a table", "utf-8", every_row=True), name)
        assert drawn.endswith("\n")
    return found


@given(table_text | pieces, st.sampled_from([None, *READERS]))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_ends_in_a_verdict_or_a_sentence(text: str, format_name: str | None) -> None:
    audited(text, format_name)


@example(["payload", "tunnel", "Mbit/s"], [["", "", "0"], ["", "none", "-1"]])
@given(st.lists(st.sampled_from(HEADINGS), min_size=3, max_size=12, unique=True), grids)
@settings(max_examples=200, deadline=None)
def test_any_cells_under_known_headings_end_in_a_verdict(headings: list[str], grid: list[list[str]]) -> None:
    text = "\n".join("\t".join(line) for line in (headings, *grid))
    found = audited(text, "csv")
    if found is not None:
        assert all(row.word in {"ok", "wrong", "not checked"} for table in found.tables for row in table.rows)


@given(st.binary(max_size=400))
@settings(max_examples=150)
def test_any_bytes_are_text_or_a_sentence(data: bytes) -> None:
    try:
        text, _ = decode_text(data)
    except WrongInput as error:
        one_sentence(error)
    else:
        assert "\0" not in text


def test_a_formula_stays_text_in_every_format() -> None:
    found = audit("tunnel,payload,Mbit/s,pps\n=cmd|' /C calc'!A0,1448,94.2,65055\n")
    drawn = render_sheet(sheet(found, "=x.csv", "utf-8"), "csv")
    assert "'=cmd" in drawn
    assert "\n=" not in drawn
    assert ",=" not in drawn
