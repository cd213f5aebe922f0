"""The terminal's table: within its width, cutting nothing, with escape sequences only when asked for."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_tcp, make_trial
from tests.unit.report.hostile import hostile_run

from tunnelbench.model.plan import Direction
from tunnelbench.report.document import Style
from tunnelbench.report.render import render, render_sheet
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import Sheet
from tunnelbench.report.text import one_line


def table_of(text: str) -> list[str]:
    """The lines from under the rule to the legend."""
    return text.partition("─\n")[2].partition("\nFigures are")[0].splitlines()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = render(make_run(), make_records(), "terminal", width)
    assert max(cell_len(line) for line in text.splitlines()) == width


@pytest.mark.parametrize("width", [80, 120])
def test_every_figure_stands_whole_on_one_line(width: int) -> None:
    lines = table_of(render(make_run(), make_records(), "terminal", width))
    for figure in ("2,364", "2,314-2,413", "9.07-9.81%", "204,000", "102,000", "48/29/19/0", "76.3%", "*6.33", "*15.8"):
        assert any(re.search(rf"(^| ){re.escape(figure)}( |$)", line) for line in lines)


def test_columns_are_aligned() -> None:
    lines = table_of(render(make_run(), make_records(), "terminal", 120))
    ends = {match.end() for line in lines if (match := re.match(r"  \d+ +(?:down|up) +[\d.]+%", line))}
    assert len(ends) == 1


def test_large_numbers_have_separators() -> None:
    assert "204,000" in render(make_run(), make_records(), "terminal", 120)


def test_the_narrow_table_says_all_that_the_wide_one_says() -> None:
    wide, narrow = (
        sorted(" ".join(table_of(render(make_run(), make_records(), "terminal", width))).split()) for width in (120, 80)
    )
    spreads_of_cost_per_gigabit = [word for word in wide if word not in narrow]
    assert all(re.fullmatch(r"[\d.]+-[\d.]+", word) for word in spreads_of_cost_per_gigabit)
    assert [word for word in narrow if word not in wide] == []


def test_escape_sequences_are_written_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in render(make_run(), make_records(), "terminal", 120)
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = render(make_run(), make_records(), "terminal", 120, colour=True)
    assert "\x1b[1m" in coloured
    bare = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in coloured.splitlines()]
    assert bare == render(make_run(), make_records(), "terminal", 120).splitlines()


def test_the_width_is_the_callers_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert render(make_run(), make_records(), "terminal") == render(make_run(), make_records(), "terminal", 120)


def test_a_tunnel_refused_alike_in_all_its_trials_takes_one_line() -> None:
    lines = table_of(render(make_run(), make_records(), "terminal", 120))
    start = lines.index("tinc BF-CBC, SHA-1  tinc 1.0.36 (1.0.36), OpenSSL 3.0.19 (3.0.19)")
    assert lines[start + 1].strip().startswith("refused: ")
    assert lines[start + 2] == ""


def test_wide_characters_do_not_shift_the_columns() -> None:
    trials = [
        make_trial(make_spec(1, tunnel="隧道", direction=Direction.IN), make_tcp(1e8), proof=make_proof()),
        make_trial(make_spec(2, tunnel="none", direction=Direction.IN), make_tcp(1e8), proof=make_proof()),
    ]
    text = render(make_run(), trials, "terminal", 80)
    assert max(cell_len(line) for line in text.splitlines()) == 80


@pytest.mark.parametrize("width", [80, 120])
def test_hostile_text_steers_nothing(width: int) -> None:
    text = render(*hostile_run(), "terminal", width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)
    assert "[red]r[/]" in " ".join(text.split())
    assert max(cell_len(line) for line in text.splitlines()) == width


def test_one_line_is_made_of_any_text() -> None:
    assert one_line(" a\r\n\tb\x1b[1m\u200bc\u202e ") == "a b [1m c"


@pytest.mark.parametrize("width", [44, 60])
def test_a_table_wider_than_the_terminal_is_divided(width: int) -> None:
    names = [f"figure{place}" for place in range(9)]
    row = ("wireguard-go", "down", *(f"{place}11,111" for place in range(9)))
    sheet = Sheet("", (), (), (), (), sections=(Section("Costs", header=("Tunnel", "Way", *names), rows=(row,)),))
    lines = render_sheet(sheet, "terminal", Style(width)).splitlines()
    heads = [place for place, line in enumerate(lines) if line.strip().startswith("Way")]
    assert [name for place in heads for name in lines[place].split()[1:]] == names
    assert [figure for place in heads for figure in lines[place + 2].split()[1:]] == [*row[2:]]
    assert {lines[place + 1] for place in heads} == {"wireguard-go"}


def test_a_table_of_results_that_is_too_wide_repeats_the_names_of_its_rows() -> None:
    lines = render(make_run(), make_records(), "terminal", 50).partition("Figures are")[0].splitlines()
    assert sum(line.startswith("wireguard-go") for line in lines) > 1
