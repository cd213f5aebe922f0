"""Reports of a run with very many trials stay small enough to be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.builders import make_long_run, make_records, make_run

from tunnelbench.cli.details.run import MOST_SHOWN_TRIALS, run_text
from tunnelbench.model.result import TrialRecord, Verdict
from tunnelbench.report.bounds import MOST_PROFILES, MOST_REPORTED_ROWS
from tunnelbench.report.instruction_places_section import PLACES_TITLE
from tunnelbench.report.render import render
from tunnelbench.report.screen_tables import MOST_SCREEN_ROWS

LARGEST_PAGE_BYTES = 8_000_000
LARGEST_LIST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def records() -> tuple[TrialRecord, ...]:
    """Return some 1,600 trials, nearly each of a tunnel of its own."""
    found: list[TrialRecord] = []
    base = [record for record in make_records(1) if record.spec.round]
    while len(found) < 1600:
        for record in base:
            tunnel = replace(record.spec.tunnel, name=f"{record.spec.tunnel.name}-{len(found) // 4}")
            found.append(replace(record, spec=replace(record.spec, sequence=len(found) + 1, tunnel=tunnel)))
    return tuple(found)


@pytest.fixture(scope="module")
def long_run() -> tuple[TrialRecord, ...]:
    return make_long_run(20_000)


def test_the_page_and_the_list_of_a_run_with_many_rounds_are_bounded(long_run: tuple[TrialRecord, ...]) -> None:
    text = "".join(run_text(make_run(), long_run))
    assert text.count("\nTrial ") == MOST_SHOWN_TRIALS
    assert len(text) < LARGEST_LIST_BYTES
    assert len(render(make_run(), long_run, "html")) < LARGEST_PAGE_BYTES


def test_show_draws_a_bounded_number_of_trials_and_says_how_to_see_others(records: tuple[TrialRecord, ...]) -> None:
    text = "".join(run_text(make_run(), records))
    assert text.count("\nTrial ") == MOST_SHOWN_TRIALS
    assert f"Shown are {MOST_SHOWN_TRIALS} of {len(records)} trials" in text
    assert "`--trial N` shows any trial" in text


def test_show_keeps_the_trials_with_findings(records: tuple[TrialRecord, ...]) -> None:
    last = next(record for record in reversed(records) if record.verdict is not Verdict.OK)
    ok = [record for record in records if record.verdict is Verdict.OK]
    while len(ok) <= MOST_SHOWN_TRIALS:
        ok += [replace(record, spec=replace(record.spec, sequence=record.spec.sequence + 10**6)) for record in ok]
    text = "".join(run_text(make_run(), (*ok, replace(last, spec=replace(last.spec, sequence=10**9)))))
    assert "Trial 1000000000" in text


def test_a_page_has_a_bounded_number_of_rows(records: tuple[TrialRecord, ...]) -> None:
    page = render(make_run(), records, "html")
    assert len(page) < LARGEST_PAGE_BYTES
    assert "This report leaves out" in page
    assert page.count('<tr class="row') <= MOST_REPORTED_ROWS


def test_a_report_has_the_places_of_a_bounded_number_of_tunnels(records: tuple[TrialRecord, ...]) -> None:
    found = []
    for record in records:
        if record.tcp:
            window = replace(record.tcp.window, router_instruction_shares={"kernel/vmlinux/f": 1.0})
            record = replace(record, measurement=replace(record.tcp, window=window))  # noqa: PLW2901
        found.append(record)
    assert render(make_run(), found, "markdown", full=False).count(PLACES_TITLE) == MOST_PROFILES
    assert render(make_run(), found, "markdown", full=True).count(PLACES_TITLE) > MOST_PROFILES


@pytest.mark.parametrize("format_name", ["markdown", "textile", "dokuwiki"])
def test_a_report_in_a_markup_is_bounded_unless_it_is_asked_for_in_full(
    records: tuple[TrialRecord, ...], format_name: str
) -> None:
    text = render(make_run(), records, format_name, full=False)
    assert "This report leaves out" in text
    whole = render(make_run(), records, format_name, full=True)
    assert "This report leaves out" not in whole
    assert len(text) < len(whole)


def test_the_first_screen_has_a_bounded_number_of_tunnels(records: tuple[TrialRecord, ...]) -> None:
    text = render(make_run(), records, "terminal", full=False)
    assert "more: --full" in text
    assert len(text.splitlines()) < 3 * MOST_SCREEN_ROWS
