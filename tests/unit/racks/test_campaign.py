"""Campaigns in a real PostgreSQL: submitted whole and once, interleaved, reported in one table with missing runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import make_run
from tests.unit.racks.queue_fixtures import PLAN, execute, plan, server, url, verb

from tunnelbench.measure.simulation import simulated_record
from tunnelbench.model.testbed import SimulationModel
from tunnelbench.plan import stored_plan
from tunnelbench.store.store import Store
from tunnelbench.tunnel import PLANNED, option_schemas

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

__all__ = ["plan", "server", "url"]

CAMPAIGN = 'plans = ["./one.toml", "wr841n"]\ntestbeds = ["attic", "cellar"]\nrepetitions = 2\n'


@pytest.fixture
def campaign(plan: str) -> str:
    """A campaign file next to the plan `one`."""
    path = Path(plan).with_name("spring.toml")
    path.write_text(CAMPAIGN)
    return str(path)


def submitted(url: str) -> list[tuple[str, str, str]]:
    """Return repetition, plan and testbed of each job in the order of submission."""
    query = "SELECT args->>'repetition', args->>'plan_name', queue_name FROM procrastinate_jobs ORDER BY id"
    return [tuple(row) for row in execute(url, query)]


def end_run(
    url: str, repetition: int, testbed: str, *, trials: int | None = None, window_s: float | None = None, **changes: Any
) -> None:
    """Store a simulated run of the plan `one`, whole or with some trials only, and end its job.

    With `window_s`, its TCP trials have a window of this length, whatever they counted.
    """
    where = "args->>'plan_name' = 'one.toml' AND args->>'repetition' = :number AND queue_name = :testbed"
    ((run_id,),) = execute(
        url,
        f"SELECT args->>'run_id' FROM procrastinate_jobs WHERE {where}",  # noqa: S608
        number=str(repetition),
        testbed=testbed,
    )
    found = stored_plan("one", PLAN, option_schemas(), PLANNED).plan
    specs = [*found.calibrations(), *found.trials()]
    model = SimulationModel(seed=len(testbed))
    records = [simulated_record(spec, model, run_id, 1, "2026-01-01T00:00:00+00:00") for spec in specs][:trials]
    if window_s is not None:
        records = [
            replace(each, measurement=replace(each.tcp, window=replace(each.tcp.window, duration_s=window_s)))
            if each.tcp
            else each
            for each in records
        ]
    facts = {"host_facts": {"simulated": "yes"}, **changes}
    run = make_run(run_id=run_id, testbed_name=f"{testbed}.toml", trials_planned=len(specs), **facts)
    with Store.open(url) as store:
        store.add_run(run, records, ())
    for status in ("doing", "succeeded"):
        change = f"UPDATE procrastinate_jobs SET status = '{status}' WHERE {where}"  # noqa: S608
        execute(url, change, number=str(repetition), testbed=testbed)


def test_each_plan_is_on_each_testbed_before_anything_is_repeated(url: str, campaign: str) -> None:
    result = verb("campaign", "submit", campaign, "--store", url)
    assert (result.exit_code, result.stdout) == (0, "campaign spring: 8 jobs, 1 to 8\n"), result.output
    assert submitted(url) == [
        (number, name, testbed)
        for number in ("1", "2")
        for name in ("one.toml", "wr841n")
        for testbed in ("attic", "cellar")
    ]


def test_a_campaign_of_a_name_is_submitted_once(url: str, campaign: str) -> None:
    assert verb("campaign", "submit", campaign, "--store", url).exit_code == 0
    again = verb("campaign", "submit", campaign, "--store", url)
    assert (again.exit_code, "there is a campaign spring already" in again.stderr) == (2, True)
    assert len(submitted(url)) == 8


def test_a_campaign_with_a_bad_plan_is_refused_as_a_whole(url: str, campaign: str, plan: str) -> None:
    Path(plan).write_text(PLAN.replace("rounds = 1", 'rounds = "two"'))
    result = verb("campaign", "submit", campaign, "--store", url)
    assert (result.exit_code, "rounds: must be a whole number" in result.stderr) == (2, True)
    assert submitted(url) == []


def test_all_errors_of_a_campaign_file_are_named_with_their_lines(url: str, campaign: str) -> None:
    Path(campaign).write_text('plans = []\ntestbeds = ["a", "a"]\nrepetition = 3\ndeadline = "soon"\n')
    result = verb("campaign", "submit", campaign, "--store", url)
    assert result.exit_code == 2
    for fault in (
        ":1:1: plans: must have at least 1 value",
        ":2:1: testbeds: names a twice",
        ":3:1: repetition: unknown",
        ":4:1: deadline: must be",
    ):
        assert fault in result.stderr


def test_two_plans_of_one_name_are_refused(url: str, campaign: str, plan: str) -> None:
    other = Path(plan).parent / "other" / "one.toml"
    other.parent.mkdir()
    other.write_text(PLAN)
    Path(campaign).write_text('plans = ["./one.toml", "other/one.toml"]\ntestbeds = ["attic"]\n')
    result = verb("campaign", "submit", campaign, "--store", url)
    assert (result.exit_code, "two plans have the same name" in result.stderr) == (2, True)


def test_the_status_names_each_missing_run_and_the_silent_testbed(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    end_run(url, 1, "attic")
    end_run(url, 2, "attic", trials=3)
    found = json.loads(verb("campaign", "status", "spring", "--json", "--store", url).stdout)
    assert found["silent_testbeds"] == ["cellar"]
    assert found["states"] == {"done": 2, "waiting": 6}
    missing = {(run["plan"], run["testbed"], run["repetition"]): run["why"] for run in found["missing"]}
    assert len(missing) == 7
    assert missing["one.toml", "attic", 2] == "ended with 3 of 12 trials"
    assert missing["one.toml", "cellar", 1] == "waiting"
    text = verb("campaign", "status", "spring", "--store", url).stdout
    assert "1 of 8 runs is whole; jobs: 2 done, 6 waiting." in text
    assert "No run of cellar has begun" in text


def test_the_report_has_one_value_for_each_run_and_compares_testbeds(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    for repetition in (1, 2):
        for testbed in ("attic", "cellar"):
            end_run(url, repetition, testbed)
    found = json.loads(verb("campaign", "report", "spring", "--json", "--store", url).stdout)
    row = next(row for row in found["rows"] if row["figure"] == "Mbit/s" and row["tunnel"] == "gre")
    attic, cellar = row["devices"]
    assert [len(device["values"]) for device in (attic, cellar)] == [2, 2]
    assert cellar["ratio"] == pytest.approx(sum(cellar["values"]) / sum(attic["values"]))
    assert (attic["verdict"], cellar["compared_with"]) == (None, "attic")
    assert cellar["verdict"] in {"higher", "lower"}
    assert {run["plan"] for run in found["missing"]} == {"wr841n"}


def test_the_first_line_of_a_report_with_simulated_runs_says_so(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    end_run(url, 1, "attic")
    for form in ("terminal", "markdown", "textile", "dokuwiki"):
        text = verb("campaign", "report", "spring", "--format", form, "--store", url).stdout
        assert "SIMULATED: NOTHING WAS MEASURED" in text.lstrip().splitlines()[0], form


def test_a_simulated_testbed_is_never_compared_with_a_measured_one(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    end_run(url, 1, "attic")
    end_run(url, 1, "cellar", host_facts={"kernel": "6.12"})
    found = json.loads(verb("campaign", "report", "spring", "--json", "--store", url).stdout)
    assert found["simulated_testbeds"] == ["attic"]
    assert {device["compared_with"] for row in found["rows"] for device in row["devices"]} == {""}
    text = verb("campaign", "report", "spring", "--store", url).stdout
    assert text.lstrip().startswith("SIMULATED ON attic: NOTHING WAS MEASURED THERE: Campaign spring")


def test_a_run_with_impossible_values_is_left_out_and_named(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    end_run(url, 1, "attic")
    end_run(url, 2, "attic", window_s=0.0)
    result = verb("campaign", "report", "spring", "--json", "--store", url)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {len(device["values"]) for row in found["rows"] for device in row["devices"][:1]} == {1}
    (bad,) = [run for run in found["missing"] if run["unreadable"]]
    assert (bad["plan"], bad["testbed"], bad["repetition"]) == ("one.toml", "attic", 2)
    text = verb("campaign", "report", "spring", "--store", url).stdout
    assert f"run {bad['run_id']} is left out: it holds values that no run has (ZeroDivisionError" in " ".join(
        text.split()
    )


def test_a_running_job_without_a_live_worker_is_stalled_and_its_testbed_named(url: str, campaign: str) -> None:
    verb("campaign", "submit", campaign, "--store", url)
    execute(url, "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now()), (now() - interval '1 hour')")
    execute(url, "UPDATE procrastinate_jobs SET status = 'doing', worker_id = id WHERE id IN (1, 2)")
    found = json.loads(verb("campaign", "status", "spring", "--json", "--store", url).stdout)
    assert (found["stalled_testbeds"], found["states"]) == (["cellar"], {"running": 1, "stalled": 1, "waiting": 6})
    execute(url, "DELETE FROM procrastinate_workers")
    text = verb("campaign", "status", "spring", "--store", url).stdout
    assert "The worker of attic, cellar is gone" in text


def test_a_whole_run_of_which_no_trial_counts_is_named_and_not_missing(
    url: str, campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    verb("campaign", "submit", campaign, "--store", url)
    end_run(url, 1, "attic")
    execute(url, "INSERT INTO tunnelbench_job_failure VALUES (1, 0, 'no trial gave a valid figure')")
    found = json.loads(verb("campaign", "status", "spring", "--json", "--store", url).stdout)
    run_id = found["runs"][0]["run_id"]
    assert (found["without_figure"], len(found["missing"])) == ([run_id], 7)
    for action in ("status", "report"):
        text = " ".join(verb("campaign", action, "spring", "--store", url).stdout.split())
        assert "1 of 8 runs is whole; jobs: 1 done, 7 waiting. Of 1 of them, no trial gave a valid figure." in text
        assert f"no trial gave a valid figure: tunnelbench show {run_id}" in text


def test_an_unknown_campaign_is_an_error_with_a_hint(url: str) -> None:
    for action in ("status", "report"):
        result = verb("campaign", action, "winter", "--store", url)
        assert (result.exit_code, "there is no campaign winter" in result.stderr) == (2, True)


def test_a_job_past_its_deadline_is_listed_as_expired(url: str, campaign: str) -> None:
    Path(campaign).write_text(CAMPAIGN + 'deadline = "2h"\n')
    verb("campaign", "submit", campaign, "--store", url)
    execute(
        url, 'UPDATE procrastinate_jobs SET args = args || \'{"deadline": "2020-01-01T00:00:00+00:00"}\' WHERE id = 1'
    )
    states = json.loads(verb("campaign", "status", "spring", "--json", "--store", url).stdout)["states"]
    assert states == {"expired": 1, "waiting": 7}
