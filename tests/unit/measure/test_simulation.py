"""Simulated runs: repeatable, consistent, and never to be taken for measured ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.builders import make_records, make_run

from tunnelbench import cli
from tunnelbench.measure.checks import checks_of_stored
from tunnelbench.measure.simulation import simulated_record
from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TunnelSpec
from tunnelbench.model.result import SIMULATED, Verdict
from tunnelbench.model.testbed import SimulationModel
from tunnelbench.report.formats import format_names
from tunnelbench.store.store import Store

PLAN = Plan("p", "", (TunnelSpec("none", "no tunnel"), TunnelSpec("gre", "GRE")), TcpTraffic(), rounds=2)
FILE = 'rounds = 3\n[tcp]\nduration_s = 1\n[[tunnel]]\nkind = "gre"\n'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with one simulated run, which `tunnelbench run` made; returns the path of the store."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(FILE)
    Path("toy.toml").write_text('kind = "simulated"\n[simulation]\nseed = 7\n')
    made = verb("run", "./plan.toml", "--on", "./toy.toml", "--store", "store.sqlite")
    assert made.exit_code == 0, made.output
    assert "\nTunnelBench plan.toml, SIMULATED: NOTHING WAS MEASURED" in made.stdout
    return str(tmp_path / "store.sqlite")


def verb(*words: str) -> Result:
    return CliRunner().invoke(cli.main, words)


def test_the_same_run_draws_the_same_figures_and_another_run_others() -> None:
    spec = PLAN.trials()[0]
    first, again, other = (
        simulated_record(spec, SimulationModel(seed=3), run_id, 1, "").measurement for run_id in ("a", "a", "b")
    )
    assert first == again
    assert first != other


def test_the_figures_of_a_simulated_trial_agree_with_each_other() -> None:
    for spec in PLAN.trials():
        found = simulated_record(spec, SimulationModel(), "a", 2, "").tcp
        assert found is not None
        assert found.has_possible_packets()
        assert 0 < found.router_busy_share <= 1
        names = {
            check.name for check in checks_of_stored(spec, found, compresses=False) if check.verdict is Verdict.VOID
        }
        assert not names


def test_each_simulated_record_says_so_and_is_doubtful() -> None:
    for spec in (*PLAN.calibrations(), *PLAN.trials()):
        record = simulated_record(spec, SimulationModel(), "a", 2, "")
        assert [check.name for check in record.checks] == [SIMULATED]
        assert (record.verdict, record.counts) == (Verdict.DOUBTFUL, True)
        assert SIMULATED in record.raw


@pytest.mark.parametrize("name", [name for name in format_names() if name not in {"series", "csv", "json", "html"}])
def test_the_first_line_of_each_report_says_that_nothing_was_measured(run: str, name: str) -> None:
    text = verb("report", "last", "--full", "--format", name, "--store", run).stdout
    assert "SIMULATED: NOTHING WAS MEASURED" in text.lstrip().splitlines()[0]


def test_reports_for_programs_and_pages_say_so_too(run: str) -> None:
    assert json.loads(verb("report", "last", "--json", "--store", run).stdout)["is_simulated"] is True
    rows = verb("report", "last", "--format", "csv", "--store", run).stdout.splitlines()[1:]
    assert all("SIMULATED: toy" in row for row in rows)
    page = verb("report", "last", "--format", "html", "--store", run).stdout
    assert "SIMULATED: NOTHING WAS MEASURED" in page.partition("</title>")[0]


@pytest.mark.parametrize(
    "words",
    ["report --format series", "report --format svg -o x", "export --format flent -o x", "export --format bencher"],
)
def test_a_format_without_a_place_for_the_mark_is_refused(run: str, words: str) -> None:
    name, *options = words.split()
    refused = verb(name, "last", *options, "--store", run)
    assert (refused.exit_code, "is simulated" in refused.stderr) == (2, True)


def test_a_simulated_run_cannot_be_contributed(run: str) -> None:
    refused = verb("contribute", "last", "--to", ".", "--store", run)
    assert refused.exit_code == 1
    assert "it is simulated: a model drew its figures, and nothing was measured" in refused.stderr


def test_a_simulated_run_is_compared_with_simulated_runs_only(run: str) -> None:
    with Store.open(run) as store:
        records = make_records()
        store.add_run(make_run(run_id="measured", trials_planned=len(records)), records, ())
        simulated = next(each.run_id for each in store.runs() if each.is_simulated)
    for other in ("wr841n-2014", "measured"):
        for pair in ((simulated, other), (other, simulated)):
            refused = verb("compare", *pair, "--store", run)
            assert (refused.exit_code, "is simulated" in refused.stderr) == (2, True), refused.output
    assert verb("compare", simulated, simulated, "--format", "csv", "--store", run).exit_code == 2
    alike = verb("compare", simulated, simulated, "--store", run)
    assert alike.stdout.startswith("SIMULATED: NOTHING WAS MEASURED: Comparison of B with A"), alike.output


def test_devices_leave_a_simulated_run_out_even_with_a_board(run: str) -> None:
    with Store.open(run) as store:
        simulated = store.runs()[0]
        records = store.trials(simulated.run_id)
        facts = {**simulated.host_facts, "router_kernel": "5.10", "router_board": "Acme 1"}
        store.add_run(replace(simulated, run_id="posing", host_facts=facts), records, ())
    found = verb("devices", "--json", "--full", "--allow-plaintext", "--store", run)
    assert found.exit_code == 0, found.output
    assert "Acme" not in found.stdout


def test_a_run_without_its_fact_is_simulated_by_its_testbed() -> None:
    assert make_run(testbed_text='kind = "simulated"\n').is_simulated
    assert not make_run(testbed_text='kind = "netns"\ntitle = "not simulated"\n').is_simulated
    assert not make_run(testbed_text="simulated = [").is_simulated


def test_a_site_leaves_a_simulated_run_out(run: str) -> None:
    assert verb("export", "last", "-o", "run.json", "--store", run).exit_code == 0
    refused = verb("site", "pages", "run.json")
    assert (refused.exit_code, "the run is simulated" in refused.stderr) == (2, True)


def test_a_simulated_run_stays_simulated_through_export_and_import(run: str) -> None:
    assert verb("export", "last", "-o", "run.json", "--store", run).exit_code == 0
    assert verb("import", "run.json", "--store", "other.sqlite").exit_code == 0
    with Store.open("other.sqlite") as store:
        (imported,) = store.runs()
        assert imported.is_simulated
        assert {check.name for record in store.trials(imported.run_id) for check in record.checks} == {SIMULATED}


def test_an_interrupted_simulated_run_is_resumed_without_a_second_trial(run: str) -> None:
    with Store.open(run) as store:
        whole = store.runs()[0]
        records = store.trials(whole.run_id)
        half = replace(whole, run_id="20260101-000000-abcdef", status="interrupted")
        store.add_run(half, records[:5], ())
    resumed = verb("run", "--resume", half.run_id, "--store", run)
    assert resumed.exit_code == 0, resumed.output
    with Store.open(run) as store:
        assert store.run(half.run_id).status == "done"
        assert [each.spec.sequence for each in store.trials(half.run_id)] == [each.spec.sequence for each in records]
        assert [each.measurement for each in store.trials(half.run_id)][:5] == [
            each.measurement for each in records[:5]
        ]


def test_a_real_testbed_stored_as_simulated_is_not_resumed_without_the_run_lock(run: str) -> None:
    with Store.open(run) as store:
        posing = make_run(
            run_id="20260101-000000-abcdef", status="interrupted", testbed_text='kind = "netns"\n', ended_at=None,
            host_facts={SIMULATED: "yes"}, trials_planned=1,
        )  # fmt: skip
        store.add_run(posing, (), ())
    refused = verb("run", "--resume", posing.run_id, "--store", run)
    assert (refused.exit_code, "is stored as simulated, and its testbed is not" in refused.stderr) == (2, True)


def test_a_plan_with_udp_is_refused_on_a_simulated_testbed(run: str) -> None:
    refused = verb("run", "udp", "--on", "./toy.toml", "--store", run)
    assert (refused.exit_code, "a simulated testbed has a model of TCP only" in refused.stderr) == (2, True)


def test_the_seed_makes_a_testbed_faster_or_slower() -> None:
    spec = replace(PLAN.trials()[0], direction=Direction.OUT)
    rates = {
        seed: record.tcp.throughput_bps
        for seed in range(8)
        if (record := simulated_record(spec, SimulationModel(seed=seed), "a", 1, "")).tcp
    }
    assert max(rates.values()) > 1.1 * min(rates.values())
