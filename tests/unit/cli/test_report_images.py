"""`tunnelbench report --format png|svg` writes the charts into a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine, keep

from tunnelbench.host.python_packages import install_hint
from tunnelbench.report.charts import charts
from tunnelbench.report.document import compose

PNG = b"\x89PNG\r\n\x1a\n"
INK = "#1b1f24"


@pytest.fixture
def few(home: Path) -> set[str]:
    """The default store with a run that has few charts; their names."""
    records = tuple(record for record in make_records(2) if record.spec.payload_bytes == 1448)
    keep(home, make_run(run_id="short"), records)
    return {chart.name for chart in charts(compose(make_run(), records))}


def test_each_chart_is_a_png_in_the_folder_that_was_named(type_in: CommandLine, few: set[str], tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    for _ in range(2):  # the second time over the files of the first
        result = type_in("report", "last", "--format", "png", "-o", folder)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
        assert {path.name for path in folder.iterdir()} == {f"{name}.png" for name in few}
    assert len(few) >= 3
    assert all(path.read_bytes().startswith(PNG) for path in folder.iterdir())


def test_an_svg_is_xml_with_its_title_in_dark_ink(type_in: CommandLine, few: set[str], tmp_path: Path) -> None:
    assert type_in("report", "last", "--format", "svg", "-o", tmp_path / "charts").exit_code == 0
    text = (tmp_path / "charts" / "throughput-tcp-1448.svg").read_text()
    root = ET.fromstring(text)  # noqa: S314 - we drew it
    words = "".join(root.itertext())
    assert "Throughput of TCP, 1448 bytes of payload" in words
    assert "Highest: none" in words
    assert INK in text
    assert "currentColor" not in text


@pytest.mark.parametrize("words", [(), ("-o", "-")])
def test_charts_need_a_folder(type_in: CommandLine, few: set[str], words: tuple[str, ...]) -> None:
    result = type_in("report", "last", "--format", "png", *words)
    assert result.exit_code == 2
    assert "no folder is named" in result.stderr
    assert "-o DIR" in result.stderr


def test_a_file_in_place_of_the_folder_is_left_alone(type_in: CommandLine, few: set[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = type_in("report", "last", "--format", "svg", "-o", tmp_path / "file")
    assert result.exit_code == 2
    assert "is not a folder" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named(type_in: CommandLine, few: set[str], tmp_path: Path) -> None:
    result = type_in("report", "last", "--format", "svg", "-o", tmp_path / "no" / "such")
    assert result.exit_code == 3
    assert "cannot be created" in result.stderr


def test_without_the_library_one_sentence_says_what_to_install(
    type_in: CommandLine, few: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = type_in("report", "last", "--format", "png", "-o", tmp_path / "charts")
    assert result.exit_code == 3
    assert "vl-convert-python, which is not installed" in result.stderr
    assert f"hint: {install_hint('vl-convert-python')}, or use --format html" in result.stderr
    assert not (tmp_path / "charts").exists()
