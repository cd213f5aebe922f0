"""`tunnelbench history`: one line for each tunnel and run of a testbed, newest first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.builders import make_records, make_run

from tunnelbench import cli
from tunnelbench.analysis.summary import summarise
from tunnelbench.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with two runs on a rack, one of them newer, and one run elsewhere."""
    path = str(tmp_path / "store.sqlite")
    records = make_records()
    with Store.open(path) as made:
        for run_id, day, testbed in (("old", 1, "attic.toml"), ("new", 2, "attic.toml"), ("other", 3, "cellar.toml")):
            started = f"2026-01-0{day}T00:00:00+00:00"
            run = make_run(run_id=run_id, started_at=started, testbed_name=testbed, trials_planned=len(records))
            made.add_run(run, records, ())
    return path


def verb(*words: str) -> Result:
    return CliRunner().invoke(cli.main, ["history", *words])


def test_the_history_has_the_medians_that_the_report_has(store: str) -> None:
    entries = json.loads(verb("attic", "--json", "--store", store).stdout)
    assert list(dict.fromkeys(entry["run_id"] for entry in entries)) == ["new", "old"]
    rows = {
        (row.tunnel.name, row.direction.value): row
        for row in summarise(make_records())
        if row.figures and not row.is_calibration and row.payload_bytes == 1448
    }
    newest = [entry for entry in entries if entry["run_id"] == "new"]
    assert {(entry["tunnel"], entry["direction"]) for entry in newest} == set(rows)
    for entry in newest:
        figures = rows[entry["tunnel"], entry["direction"]].figures
        assert figures is not None
        assert entry["throughput_mbps"] == pytest.approx(figures.throughput_bps.median / 1e6)
        assert entry["is_lower_bound"] == figures.is_tester_limited


def test_a_tunnel_and_a_number_of_runs_can_be_chosen(store: str) -> None:
    entries = json.loads(verb("attic.toml", "--tunnel", "vxlan", "--newest", "1", "--json", "--store", store).stdout)
    assert {(entry["run_id"], entry["kind"]) for entry in entries} == {("new", "vxlan")}


def test_an_unknown_testbed_is_an_error_with_a_hint(store: str) -> None:
    found = verb("roof", "--store", store)
    assert (found.exit_code, "the store has no run on testbed roof" in found.stderr) == (2, True)


def test_a_simulated_history_says_so_in_its_first_line(store: str) -> None:
    with Store.open(store) as made:
        run = replace(made.runs(newest=1)[0], run_id="toy", testbed_name="toy", host_facts={"simulated": "yes"})
        made.add_run(run, make_records(), ())
    assert verb("toy", "--store", store).stdout.startswith("SIMULATED: NOTHING WAS MEASURED")
    assert not verb("attic", "--store", store).stdout.startswith("SIMULATED")
