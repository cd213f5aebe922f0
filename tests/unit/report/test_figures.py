"""The registry of figures: one entry is enough for every format, and headings and units stand nowhere else."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.unit.builders import make_records, make_run
from tests.unit.soak_builders import sample_soak
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.document import SoakReport
from tunnelbench.report.figures import FIGURES, Figure, FigureText, TableRow, figure, table_figures
from tunnelbench.report.formats import format_names, report_format
from tunnelbench.report.markup import MarkupFormat
from tunnelbench.report.render import render
from tunnelbench.report.schema import schema

METHODOLOGY = Path(__file__).parents[3] / "docs" / "methodology.md"

NEW = Figure(
    "wait_us",
    "Wait",
    unit="us",
    help="Wait: a figure that was added by one entry.",
    of_trial=lambda _: 0.012345,
    scale=1e3,
    digits=3,
)
PRINTED = "12.3"
FOR_PEOPLE = ("html", "terminal", *(name for name in format_names() if isinstance(report_format(name), MarkupFormat)))


def soaks() -> list[SoakReport]:
    soak, chunks = sample_soak()
    return [SoakReport(soak, summarise_soak(soak, chunks), lambda: chunks)]


RUNS: dict[str, tuple[tuple[TrialRecord, ...], list[SoakReport]]] = {
    "tcp": (make_records(1), []),
    "udp": (make_udp_records(), []),
    "soak": ((), soaks()),
}


@pytest.fixture(params=sorted(RUNS))
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Adds a figure to the registry of a kind of measurement, and returns that kind."""
    name: str = request.param
    monkeypatch.setitem(FIGURES, name, (*FIGURES[name], NEW))
    return name


def report(kind: str, name: str) -> str:
    records, soak = RUNS[kind]
    return render(make_run(), records, name, 200, soaks=soak)


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_a_new_figure_is_in_each_format_for_people(kind: str, name: str) -> None:
    text = report(kind, name)
    assert "Wait" in text
    assert PRINTED in text
    assert NEW.help in " ".join(text.split())


def test_a_new_figure_is_a_column_of_csv(kind: str) -> None:
    rows = list(csv.DictReader(io.StringIO(report(kind, "csv"), newline="")))
    column = "wait_us" if kind == "tcp" else f"{kind}_wait_us"
    assert "0.012345" in {row[column] for row in rows}


def test_a_new_figure_is_in_json_as_its_schema_says(kind: str) -> None:
    whole = json.loads(report(kind, "json"))
    described = schema("report")
    Draft202012Validator(described).validate(whole)
    assert NEW.help in json.dumps(described)
    if kind == "soak":
        assert [soak["wait_us"] for soak in whole["soaks"]] == [0.012345]
        return
    assert 0.012345 in [trial["figures"]["wait_us"] for trial in whole["trials"] if trial["figures"]]
    rows = [row["figures"] for row in whole["rows" if kind == "tcp" else "udp_rows"] if row["figures"]]
    assert rows
    assert {row["wait_us"]["median"] for row in rows} == {0.012345}


def test_a_figure_that_is_not_registered_is_against_the_schema(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = json.loads(report(kind, "json"))
    monkeypatch.undo()
    assert not Draft202012Validator(schema("report")).is_valid(whole)


@pytest.mark.parametrize("kind", sorted(FIGURES))
def test_keys_are_unique_and_say_their_unit_where_a_table_shows_another(kind: str) -> None:
    keys = [each.key for each in FIGURES[kind]]
    assert len(keys) == len(set(keys))
    for each in table_figures(kind):
        assert re.fullmatch(r"[a-z0-9_]+", each.key)
        assert each.scale == 1 or each.key.endswith(("_bps", "_ns"))


def test_every_column_of_tcp_is_explained_in_the_methodology() -> None:
    text = METHODOLOGY.read_text(encoding="utf-8")
    missing = [each.title for each in table_figures("tcp") if f"\n| {each.title}" not in text]
    assert missing == []


def test_a_rate_is_a_lower_bound_where_the_testers_were_the_limit() -> None:
    records = make_records()
    rows = {row.tunnel.name: row for row in summarise(records) if (row.payload_bytes, row.direction) == (1448, "in")}
    limited, free = TableRow(rows["openvpn AES-128-GCM"]), TableRow(rows["vxlan"])
    throughput, cost = figure("tcp", "throughput_bps"), figure("tcp", "cpu_s_per_million_packets")
    assert throughput.text(limited).is_lower_bound
    assert not throughput.text(free).is_lower_bound
    assert not cost.text(limited).is_lower_bound


def test_a_figure_prints_numbers_texts_and_nothing() -> None:
    plain = Figure("count", "Count")
    assert plain.printed(None) == FigureText()
    assert plain.printed("a\nb") == FigureText("a b")
    assert plain.printed(1234567, thousands=True).median == "1,234,567"
    assert plain.printed(1234567).median == "1234567"
    assert Figure("share", is_share=True).printed(0.1234).median == "12.3%"
