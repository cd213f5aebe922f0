"""Rows of new tunnels and of TCP connections of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.unit.builders import make_run
from tests.unit.connection_builders import OPENVPN, connection_records
from tests.unit.report.test_handshakes import records as handshake_records

from tunnelbench.analysis.compare.comparison import Comparison, compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import ComparedFigure, Side
from tunnelbench.model.plan import Test
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.compare_screen import comparison_screen
from tunnelbench.report.document import Style


def side(records: Sequence[TrialRecord], name: str = "a") -> Side:
    return side_of_run(make_run(run_id=name, trials_planned=len(records)), records)


def with_itself(records: Sequence[TrialRecord]) -> Comparison:
    return compare(side(records), side(records, "b"))


def test_new_tunnels_are_compared_by_rate_time_and_gap() -> None:
    found = with_itself(handshake_records())
    assert {ComparedFigure.HANDSHAKES, ComparedFigure.SETUP, ComparedFigure.GAP} <= {row.figure for row in found.rows}
    assert {row.ratio.value for row in found.rows if row.ratio} == {1.0}
    assert found.a.remarks == ()


def test_tcp_connections_are_compared_by_rate_and_number() -> None:
    found = with_itself(connection_records())
    assert {(row.pair.a.test, row.figure) for row in found.rows if row.pair.a.name == OPENVPN} == {
        ("connect flat-out", ComparedFigure.CONNECTIONS),
        ("concurrent 2000", ComparedFigure.OPEN),
    }
    assert found.a.remarks == ()


def test_a_run_without_compared_figures_says_so() -> None:
    soaked = [replace(each, spec=replace(each.spec, test=Test.SOAK)) for each in connection_records()]
    text = comparison_screen(with_itself(soaked), Style())
    assert "No figures to compare in A and B." in text
    assert "these tests are not compared: soak" in text
