"""`tunnelbench audit` says what is wrong in a table, and ends with 1 where something is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.cli.conftest import CommandLine

from tunnelbench import cli
from tunnelbench.report.formats import sheet_format_names

PUBLISHED = Path(__file__).parents[1] / "analysis" / "audit" / "published"
FIVE = PUBLISHED / "published-throughput.csv"


def test_the_published_tables_in_words(type_in: CommandLine, file_regression: FileRegressionFixture) -> None:
    result = type_in("audit", FIVE, columns=120)
    assert result.exit_code == 1
    file_regression.check(result.stdout, extension=".txt")


@pytest.mark.parametrize("name", sheet_format_names())
def test_every_format_says_the_same(
    type_in: CommandLine, file_regression: FileRegressionFixture, tmp_path: Path, name: str
) -> None:
    result = type_in("audit", PUBLISHED / "apu1d.md", "--format", name, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")
    text = (tmp_path / "out").read_bytes().decode()
    if name == "html":  # without the scripts and the style
        text = text[text.index("<body>") : text.index('<script type="application/json" id="chart-config">')]
    file_regression.check(text.replace("\r\n", "\n"), extension=f".{name}")


def test_json_holds_the_verdict_on_every_row(type_in: CommandLine) -> None:
    result = type_in("audit", FIVE, "--json")
    (table,) = json.loads(result.stdout)["tables"]
    assert len(table["rows"]) == 76
    assert [row["row"] for row in table["rows"] if row["verdict"] == "wrong"] == list(range(60, 72))
    assert table["rows"][59]["findings"][0]["single_cause"].startswith("Mbit/s taken for MiB/s")
    assert table["rows"][63]["findings"][0]["single_cause"] is None


def test_a_table_that_holds_ends_with_0(type_in: CommandLine) -> None:
    result = type_in("audit", PUBLISHED / "wr841n.textile")
    assert result.exit_code == 0
    assert "No printed figure is impossible." in result.stdout
    everything = type_in("audit", PUBLISHED / "wr841n.textile", "--all", "--format", "csv")
    assert len(everything.stdout.splitlines()) == 11


def test_the_columns_and_the_link_may_be_said(type_in: CommandLine, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("wie viel;wie schnell\n1448;94,7\n", encoding="cp1252")
    assert "no column of throughput" in type_in("audit", table).stderr
    named = ("--column", "throughput_mbps=wie schnell", "--column", "payload_bytes=wie viel")
    assert type_in("audit", table, *named).exit_code == 0
    result = type_in("audit", table, *named, "--link-mbps", "100")
    assert result.exit_code == 1
    assert "line-limit" in result.stdout
    assert "not KEY=HEADING" in type_in("audit", table, "--column", "x").stderr


def test_a_table_may_come_through_a_pipe() -> None:
    result = CliRunner().invoke(cli.main, ["audit", "-"], input=FIVE.read_bytes())
    assert result.exit_code == 1
    assert "Audit of standard input" in result.stdout


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a,b\n1,\0", "contains a NUL byte"),
        (b"", "is empty"),
        (b"a,b\n1,2\n", "no column of throughput, packets per second, CPU or share is recognised"),
        (b"x," * 1_000_000, "line 1: over 500 columns"),
        (b"pps\n" + b"9" * 20_000, "line 2: a cell of over 10000 characters"),
        (b"\x8d\x9d\x81", "not text in UTF-8 or Windows-1252"),
    ],
)
def test_what_is_no_table_is_one_sentence_that_names_the_file(
    type_in: CommandLine, tmp_path: Path, data: bytes, said: str
) -> None:
    table = tmp_path / "hostile.csv"
    table.write_bytes(data)
    result = type_in("audit", table)
    assert (result.exit_code, result.stdout) == (2, "")
    first, *rest = result.stderr.splitlines()
    assert first.startswith(f"tunnelbench: {table}: ")
    assert said in first
    assert all(line.startswith("hint: ") for line in rest)
    assert len(rest) <= 1


def test_a_file_that_is_not_there_is_said(type_in: CommandLine, tmp_path: Path) -> None:
    result = type_in("audit", tmp_path / "none.csv")
    assert result.exit_code == 2
    assert "cannot be read: no such file or directory" in result.stderr
    assert "cannot be read" in type_in("audit", tmp_path).stderr


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "1e-320", "1e308"])
def test_a_link_that_no_ethernet_is_is_refused(type_in: CommandLine, rate: str) -> None:
    result = type_in("audit", FIVE, "--link-mbps", rate)
    assert result.exit_code == 2
    assert "--link-mbps" in result.stderr


@pytest.mark.parametrize("text", ["tunnel,Mbit/s,pps\n", "| tunnel | Mbit/s |\n|---|---|\n"])
def test_headings_without_rows_are_not_called_unknown(type_in: CommandLine, tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    result = type_in("audit", tmp_path / "t")
    assert result.exit_code == 2
    assert "there is no figure below the known headings" in result.stderr


@pytest.mark.parametrize(("heading", "unit"), [("MiB/s", "MiB/s"), ("throughput_bps", "bit/s"), ("Ko/s", "kB/s")])
def test_units_are_named_as_people_do(type_in: CommandLine, tmp_path: Path, heading: str, unit: str) -> None:
    (tmp_path / "t.csv").write_text(f"tunnel,{heading}\nnone,11\n")
    assert f"{heading} = throughput in {unit}" in type_in("audit", tmp_path / "t.csv").stdout
