"""The first screen of a run answers the reader's question in 40 lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import hostile_run
from tests.unit.report.test_hostile import is_inert_terminal
from tests.unit.soak_builders import sample_soak
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.soak import summarise_soak
from tunnelbench.model.plan import Test
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.report.document import SoakReport
from tunnelbench.report.render import render

QUICK = ("wireguard-go", "openvpn AES-128-GCM", "tinc AES-128-CBC, SHA-1", "vxlan", "openvpn none, none", "none")


def screen(records: Sequence[TrialRecord], width: int = 100, **options: object) -> str:
    return render(make_run(), records, "terminal", width, full=False, **options)  # type: ignore[arg-type]


def soaks() -> list[SoakReport]:
    soak, chunks = sample_soak()
    return [SoakReport(soak, summarise_soak(soak, chunks), lambda: chunks)]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_screen_of_tcp(file_regression: FileRegressionFixture, width: int) -> None:
    file_regression.check(screen(make_records(), width), encoding="utf-8")


@pytest.mark.parametrize("kind", ["udp", "soak", "ciphers", "everything"])
def test_the_screen_of_other_runs(file_regression: FileRegressionFixture, kind: str) -> None:
    text = {
        "udp": lambda: screen(make_udp_records()),
        "soak": lambda: screen((), soaks=soaks()),
        "ciphers": lambda: screen((), speeds=make_speeds()),
        "everything": lambda: screen(make_records(1), speeds=make_speeds(), soaks=soaks()),
    }[kind]()
    assert len(text.splitlines()) <= (48 if kind == "everything" else 40)
    file_regression.check(text, encoding="utf-8")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_line_fits_and_a_command_is_never_folded(width: int) -> None:
    lines = screen(make_records(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("tunnelbench report 20250314-092653-quick --format html -o run.html" in line for line in lines) == 1


def test_a_command_without_room_stands_below_its_purpose() -> None:
    lines = screen(make_records(), 70).splitlines()
    place = lines.index("Charts")
    assert lines[place + 1] == "    tunnelbench report 20250314-092653-quick --format html -o run.html"


def test_a_command_is_longer_than_a_narrow_terminal_and_not_folded() -> None:
    lines = [line.strip() for line in screen(make_records(), 40).splitlines()]
    assert "tunnelbench report 20250314-092653-quick --format html -o run.html" in lines


def test_each_warning_has_its_command_beside_it_or_below_it() -> None:
    lines = screen(make_records()).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("! ")]
    ends = [*starts[1:], lines.index("", starts[-1])]
    texts = [" ".join(lines[start:end]) for start, end in zip(starts, ends, strict=True)]
    assert len(texts) == 4
    assert all(text.count("tunnelbench ") == 1 for text in texts)


def test_doubts_of_all_tunnels_mark_each_figure() -> None:
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    text = screen([replace(record, checks=(*record.checks, *steal)) for record in make_records()])
    assert "24 of 24 figures of Mbit/s and packets/s are doubtful: the hypervisor took CPU time (all)" in text
    assert " 337?" in text


def test_a_doubtful_figure_has_a_mark_that_keeps_its_column_in_line() -> None:
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    changed = [
        replace(record, checks=(*record.checks, *steal))
        if (record.spec.tunnel.name, record.spec.what) == ("wireguard-go", "76 down")
        else record
        for record in make_records()
    ]
    line, clean = (
        next(each for each in screen(records).splitlines() if each.startswith("  wireguard-go "))
        for records in (changed, make_records())
    )
    place = clean.index("31.5") + len("31.5")
    assert line == f"{clean[:place]}?{clean[place + 1 :]}"
    assert (
        "1 of 24 figures of Mbit/s and packets/s is doubtful: the hypervisor took CPU time (wireguard-go)."
        in screen(changed)
    )


def test_a_doubtful_figure_of_udp_has_a_mark() -> None:
    steal = (Check("steal", Verdict.DOUBTFUL, "the hypervisor took up to 6% of a CPU", rule=14),)
    records = make_udp_records()
    doubted = [
        replace(record, checks=(*record.checks, *steal))
        if record.spec.tunnel.kind == "vxlan" and record.spec.test is Test.SEARCH
        else record
        for record in records
    ]
    marked, usual = (
        next(line for line in screen(each).splitlines() if line.strip().startswith("vxlan "))
        for each in (doubted, records)
    )
    assert ("?" in marked, "?" in usual) == (True, False)
    assert marked.replace("?", " ") == f"{usual:<{len(marked)}}"
    assert " ?: doubtful." in " ".join(screen(doubted).split())


def test_a_run_of_eight_tunnels_fits_into_forty_lines() -> None:
    assert len(screen(make_records()).splitlines()) < 40


def test_encrypted_tunnels_stand_before_the_others() -> None:
    lines = screen(make_records()).splitlines()
    places = [next(n for n, line in enumerate(lines) if f"{line} ".startswith(f"  {name} ")) for name in
              ("ENCRYPTED", *QUICK[:3], "NOT ENCRYPTED", *QUICK[3:])]  # fmt: skip
    assert places == sorted(places)


def test_a_longer_name_stands_above_its_figures() -> None:
    name = "OpenVPN with a name that leaves no room for any figure at all"
    records = [
        replace(record, spec=replace(record.spec, tunnel=replace(record.spec.tunnel, name=name)))
        if record.spec.tunnel.name == "vxlan"
        else record
        for record in make_records()
    ]
    lines = screen(records, 80).splitlines()
    assert f"  {name}" in lines
    assert "1,081" in lines[lines.index(f"  {name}") + 1]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", range(80, 110))
def test_a_percent_sign_stays_with_its_number(width: int) -> None:
    lines = screen((), width, soaks=soaks()).splitlines()
    broken = [one for one, other in pairwise(lines) if one[-1:].isdigit() and other.strip().startswith("%")]
    assert broken == []


def test_a_hostile_name_controls_no_terminal() -> None:
    run, records = hostile_run()
    assert is_inert_terminal(render(run, records, "terminal", 100, full=False))


def test_colour_changes_no_text() -> None:
    plain, coloured = (screen(make_records(), colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert "\x1b" in coloured
