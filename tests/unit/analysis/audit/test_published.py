"""The published tables: one document is wrong by about eight, and the others pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tunnelbench.analysis.audit.rules import Rule
from tunnelbench.analysis.audit.verdict import Audit, audit

HERE = Path(__file__).parent / "published"
SLIP = "Mbit/s taken for MiB/s (x 2^20 instead of x 10^6 / 8)"


def of_file(name: str) -> Audit:
    return audit((HERE / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def five_documents() -> Audit:
    return of_file("published-throughput.csv")


def test_every_row_has_its_verdict(five_documents: Audit) -> None:
    (table,) = five_documents.tables
    words = Counter((row.row.source, row.word) for row in table.rows)
    assert words == {
        ("000", "ok"): 48,
        ("001", "ok"): 3,
        ("002", "ok"): 7,
        ("002", "not checked"): 1,  # the calibration: a packet rate alone
        ("003", "wrong"): 12,
        ("004", "ok"): 2,
        ("004", "not checked"): 3,  # a throughput alone
    }


def test_the_document_that_is_wrong_by_eight_is_found_and_nothing_else(five_documents: Audit) -> None:
    assert {each.finding.row.source for each in five_documents.found} == {"003"}
    assert {each.finding.rule for each in five_documents.found} == {Rule.PACKET_RATE}
    assert all(7.9 < each.finding.factor < 8.6 for each in five_documents.found)


def test_one_slip_explains_ten_of_its_rows_and_no_single_cause_the_other_two(five_documents: Audit) -> None:
    by_slip = Counter(each.cause.slip for each in five_documents.found)
    assert by_slip == {SLIP: 10, None: 2}
    alone = [each for each in five_documents.found if each.cause.slip is None]
    assert [each.finding.row.label for each in alone] == ["openvpn/none 1370 out", "openvpn/none 1370 in"]
    assert all(each.cause.words.startswith("no single cause explains it") for each in alone)


def test_the_slip_gives_each_of_the_ten_figures_to_the_digit_that_is_printed(five_documents: Audit) -> None:
    for each in five_documents.found:
        row = each.finding.row
        assert row.throughput is not None
        assert row.packets is not None
        assert row.size is not None
        low, high = (bound / 1e6 * 2**20 / row.size.bytes for bound in row.throughput.rounded)
        fits = low <= row.packets.value + 1000 and high >= row.packets.value - 1000
        assert fits == (each.cause.slip == SLIP)


def test_the_conclusion_says_it_in_a_sentence(five_documents: Audit) -> None:
    (said,) = five_documents.tables[0].conclusions
    off, ten, two = said.split("; ")
    assert off == "003: packet-rate: 12 of 12 rows are wrong, by a factor of 8.12 to 8.48"
    assert ten == f"10 explained by one slip: {SLIP}"
    assert two == "2 explained by no single cause: row 64 out, 65 in."


def test_the_same_is_found_in_the_documents_own_table(five_documents: Audit) -> None:
    own = of_file("apu1d.md")
    assert [each.cause.slip for each in own.found] == [each.cause.slip for each in five_documents.found]
    assert [each.finding.stated.value for each in own.found] == [
        each.finding.stated.value for each in five_documents.found
    ]


def test_cells_that_span_rows_and_lines_are_read_as_a_wiki_draws_them() -> None:
    (table,) = of_file("wr841n.textile").tables
    assert [row.word for row in table.rows] == ["ok"] * 10
    assert [row.row.label for row in table.rows][-2:] == ["OpenVPN No cipher 1448 in", "OpenVPN No cipher 1448 out"]
    assert all({Rule.PACKET_RATE, Rule.LINE_LIMIT, Rule.CPU_SUM} <= set(row.applied) for row in table.rows)


def test_a_french_page_with_bytes_per_second_is_read_and_its_slip_named() -> None:
    found = of_file("debits.html")
    assert found.passed_over == 1  # the table that lays out the page
    (table,) = found.tables
    assert [row.word for row in table.rows] == ["ok", "ok", "wrong"]
    (wrong,) = found.found
    assert wrong.finding.expected == pytest.approx(2.237e6 / 1448)
    assert wrong.finding.factor == pytest.approx(10.0, rel=1e-3)
    assert wrong.cause.slip is None
