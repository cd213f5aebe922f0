"""A report format is one file: the command line, sheets and error messages ask the registry of formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run

from tunnelbench.model.errors import WrongInput
from tunnelbench.report import formats
from tunnelbench.report.formats import ReportFormat, format_names, report_format, sheet_format_names
from tunnelbench.report.render import render, render_sheet
from tunnelbench.report.sheet import Sheet

DROPPED_IN = '''
from tunnelbench.report.formats import SheetFormat


class Format(SheetFormat):
    """Titles only."""

    def render(self, document, style):
        return f"report: {document.title}\\n"

    def render_sheet(self, sheet, style):
        return f"sheet: {sheet.title}\\n"
'''

SHEET = Sheet(title="Weather", facts=(), cautions=(), header=("day",), rows=(("Monday",),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the module of a new format."""
    (tmp_path / "titles_only.py").write_text(DROPPED_IN)
    return tmp_path


def test_a_module_in_the_folder_is_a_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = format_names()
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(folder)])
    assert set(format_names()) - set(before) == {"titles_only"}
    assert "titles_only" in sheet_format_names()
    assert render(make_run(), make_records(1), "titles_only") == "report: TunnelBench: What this machine can do\n"
    assert render_sheet(SHEET, "titles_only") == "sheet: Weather\n"
    with pytest.raises(WrongInput) as caught:
        render(make_run(), (), "paper")
    assert "titles_only" in str(caught.value.hint)


@pytest.mark.parametrize("verb", ["report", "compare", "audit"])
def test_the_command_line_offers_a_new_format(folder: Path, verb: str) -> None:
    program = (
        "import sys; from tunnelbench.report import formats; formats.__path__.append(sys.argv[1]);"
        "from tunnelbench.cli import main; sys.argv[1:] = [sys.argv[2], '--help']; main()"
    )
    command = [sys.executable, "-c", program, str(folder), verb]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "titles_only" in "".join(completed.stdout.split()), completed.stderr


@pytest.mark.parametrize("name", format_names())
def test_every_format_says_what_it_is(name: str) -> None:
    found = report_format(name)
    assert isinstance(found, ReportFormat)
    assert type(found).__doc__


@pytest.mark.parametrize("name", sorted(set(format_names()) - set(sheet_format_names())))
def test_a_format_that_has_only_runs_refuses_a_sheet(name: str) -> None:
    with pytest.raises(WrongInput, match="has only runs"):
        render_sheet(SHEET, name)


@pytest.mark.parametrize("name", sheet_format_names())
def test_every_format_with_sheets_writes_one(name: str) -> None:
    text = render_sheet(SHEET, name)
    assert text.endswith("\n")
    assert "Monday" in text or name == "json"
