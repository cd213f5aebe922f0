"""Jobs in a real PostgreSQL: submitted whole, listed, cancelled, retried, and each role can do its part only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from tests.postgresql import Cluster
from tests.unit.racks.queue_fixtures import PLAN, execute, plan, server, url, verb

from tunnelbench.model.result import RunRecord
from tunnelbench.store.store import Store

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

__all__ = ["plan", "server", "url"]

ROLES = Path(__file__).parents[3] / "examples" / "racks" / "roles.sql"
ODD_VALUES = (
    "[]", "{}", "7", "null", '"text"', '{"plan_name": 7, "run_id": null, "expected_s": "long"}', '{"context": 1}',
    '{"expected_s": 1e400}', '{"expected_s": 1e5000}', '{"expected_s": -1}', '{"repetition": 1e5000}',
    '{"deadline": 7, "campaign": [], "repetition": "x"}', '{"deadline": "2020-01-01", "campaign": "\\u001b[2J"}',
)  # fmt: skip
"""JSON that another program may have stored as the values of a job."""


def work(url: str) -> None:
    """Run a worker for the testbed netns until no job waits."""
    words = [str(Path(sys.executable).parent / "tunnelbench"), "worker", "--testbed", "netns", "--until-empty"]
    done = subprocess.run([*words, "--store", url], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def listed(url: str) -> list[dict[str, Any]]:
    result = verb("jobs", "--all", "--json", "--store", url)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


def test_repetitions_are_interleaved_and_a_higher_priority_comes_first(url: str, plan: str) -> None:
    assert verb("submit", plan, "--on", "attic,cellar", "--repeat", "2", "--store", url).exit_code == 0
    assert verb("submit", plan, "--on", "cellar", "--priority", "5", "--store", url).exit_code == 0
    by_id = {job["job_id"]: job for job in listed(url)}
    assert [by_id[number]["testbed"] for number in sorted(by_id)] == ["attic", "cellar", "attic", "cellar", "cellar"]
    assert [by_id[number]["position"] for number in sorted(by_id)] == [1, 2, 2, 3, 1]
    assert len({job["run_id"] for job in by_id.values()}) == 5
    assert by_id[1]["time_left_s"] < by_id[3]["time_left_s"]


def test_the_text_of_the_plan_travels_in_the_job(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    assert execute(url, "SELECT args->>'plan_text', lock FROM procrastinate_jobs") == [(PLAN, "testbed attic")]


def test_a_bad_plan_is_refused_and_nothing_is_stored(url: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(PLAN.replace("rounds = 1", 'rounds = "two"'))
    result = verb("submit", str(bad), "--on", "attic", "--store", url)
    assert (result.exit_code, "rounds: must be a whole number" in result.stderr) == (2, True)
    assert listed(url) == []


@pytest.mark.parametrize("names", ["attic,attic", "attic,", "../attic", "a" * 65, "attic.toml"])
def test_odd_names_of_testbeds_are_refused(url: str, plan: str, names: str) -> None:
    assert verb("submit", plan, "--on", names, "--store", url).exit_code == 2
    assert listed(url) == []


def test_a_submission_names_the_testbeds_that_no_worker_has_served(url: str, plan: str) -> None:
    first = verb("submit", plan, "--on", "attic", "--store", url)
    execute(url, "UPDATE procrastinate_jobs SET status = 'doing'")
    second = verb("submit", plan, "--on", "attic,cellar", "--store", url)
    assert "note: no worker has taken a job for attic yet" in first.stderr
    assert "note: no worker has taken a job for cellar yet" in second.stderr


def test_a_plan_that_the_testbed_cannot_run_fails_at_once_without_the_workers_path(url: str, tmp_path: Path) -> None:
    (tmp_path / "rack.toml").write_text('kind = "simulated"\n[simulation]\nseed = 1\n')
    (tmp_path / "load.toml").write_text('rounds = 1\n[udp]\ntest = "rate"\nrate = 10\n[[tunnel]]\nkind = "none"\n')
    submitted = verb("submit", str(tmp_path / "load.toml"), "--on", "rack", "--store", url)
    assert submitted.exit_code == 0, submitted.output
    verb("worker", "--testbed", str(tmp_path / "rack.toml"), "--until-empty", "--store", url)
    (job,) = listed(url)
    assert (job["state"], job["failures"]) == ("failed", 3)
    assert job["reason"].startswith("load.toml:2:2: udp: cannot run on"), job["reason"]


@pytest.mark.parametrize("place", ["u:hush@localhost/x", "u@localhost/x?password=hush", "u@h/x?sslpassword=hush"])
def test_a_password_in_the_url_is_refused_and_not_repeated(plan: str, place: str) -> None:
    for words in (
        "list runs",
        "report last",
        f"submit {plan} --on a",
        "jobs",
        "cancel 1",
        "retry 1",
        "worker --testbed netns",
        "campaign status a",
        "campaign report a",
    ):
        result = verb(*words.split(), "--store", f"postgresql://{place}")
        assert (result.exit_code, "hush" in result.output) == (2, False)
        assert "service file" in result.stderr


def test_a_service_file_of_libpq_names_the_database(
    url: str, plan: str, server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "pg_service.conf"
    name = url.partition("@/")[2].partition("?")[0]
    services.write_text(f"[racks]\nhost={server.folder}\nuser=postgres\ndbname={name}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert verb("submit", plan, "--on", "attic", "--store", "postgresql:///?service=racks").exit_code == 0
    assert [job["testbed"] for job in listed(url)] == ["attic"]


def test_a_waiting_job_is_cancelled_once(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    assert verb("cancel", "1", "--store", url).exit_code == 0
    assert [job["state"] for job in listed(url)] == ["cancelled"]
    again = verb("cancel", "1", "--store", url)
    assert (again.exit_code, "job 1 is cancelled" in again.stderr) == (2, True)
    assert "there is no job 2" in verb("cancel", "2", "--store", url).stderr


def test_only_a_failed_job_is_retried_and_its_failures_are_forgotten(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    assert "only a failed or cancelled job" in verb("retry", "1", "--store", url).stderr
    execute(url, "UPDATE procrastinate_jobs SET status = 'doing'")
    execute(url, "UPDATE procrastinate_jobs SET status = 'failed'")
    execute(url, "INSERT INTO tunnelbench_job_failure VALUES (1, 3, 'the router does not answer')")
    assert [(job["state"], job["reason"]) for job in listed(url)] == [("failed", "the router does not answer")]
    assert verb("retry", "1", "--store", url).exit_code == 0
    assert [(job["state"], job["failures"]) for job in listed(url)] == [("waiting", 0)]


@pytest.mark.parametrize("status", ["failed", "cancelled", "aborted"])
def test_a_job_that_was_to_be_cancelled_can_be_retried(url: str, plan: str, status: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    before = listed(url)
    execute(url, "UPDATE procrastinate_jobs SET status = 'doing', abort_requested = true")
    execute(url, f"UPDATE procrastinate_jobs SET status = '{status}'")  # noqa: S608
    result = verb("retry", "1", "--store", url)
    assert result.exit_code == 0, result.output
    assert listed(url) == before


def test_a_job_of_another_program_with_odd_values_is_listed_all_the_same(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    for odd in ODD_VALUES:
        execute(url, "UPDATE procrastinate_jobs SET args = CAST(:odd AS jsonb)", odd=odd)
        assert [(job["plan"], job["run_id"]) for job in listed(url)] == [("", "")]
        assert verb("jobs", "--store", url).exit_code == 0
    assert verb("cancel", "1", "--store", url).exit_code == 0


def test_values_that_no_run_has_are_a_sentence_in_the_list_of_jobs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(_store: Store) -> list[RunRecord]:
        raise ValueError("no such figure")

    monkeypatch.setattr(Store, "runs", runs)
    refused = verb("jobs", "--store", url)
    assert (refused.exit_code, "holds values that no run has" in refused.stderr) == (3, True)


def test_a_job_with_odd_values_fails_with_a_reason_and_the_next_job_is_taken(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "netns", "--repeat", str(len(ODD_VALUES)), "--store", url)
    for number, odd in enumerate(ODD_VALUES, start=1):
        execute(url, "UPDATE procrastinate_jobs SET args = CAST(:odd AS jsonb) WHERE id = :id", odd=odd, id=number)
    work(url)
    found = [(job["state"], job["failures"], "no usable plan_name" in job["reason"]) for job in listed(url)]
    assert found == [("failed", 3, True)] * len(ODD_VALUES)


def test_a_job_that_was_moved_from_another_testbed_is_not_run(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    execute(url, "UPDATE procrastinate_jobs SET queue_name = 'netns'")
    work(url)
    (job,) = listed(url)
    assert (job["state"], "was not submitted for the testbed netns" in job["reason"]) == ("failed", True)


def run_that_ends_with(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the worker of this process start a script in place of each run."""
    from tunnelbench.racks import worker

    monkeypatch.setattr(worker, "START", ("-c", f"import pathlib, sys\n{script}"))


def test_a_job_of_which_no_trial_counts_is_done_with_a_remark(
    url: str, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb("submit", plan, "--on", "netns", "--store", url)
    message = "tunnelbench: no trial gave a valid figure; the warnings above give the reasons"
    run_that_ends_with(monkeypatch, f"sys.exit(sys.stderr.write({message!r}) and 3)")
    worked = verb("worker", "--testbed", "netns", "--until-empty", "--store", url)
    assert (worked.exit_code, "failure" in worked.stderr) == (0, False), worked.stderr
    (job,) = listed(url)
    assert (job["state"], job["failures"], job["reason"]) == ("done", 0, "no trial gave a valid figure")
    assert "figure" in verb("jobs", "--all", "--store", url).stdout, "the remark is wrapped in its column"


def test_a_database_that_does_not_answer_is_no_failure_of_the_job(
    url: str, plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tunnelbench.racks import worker

    monkeypatch.setattr(worker, "LATER_S", 0)
    verb("submit", plan, "--on", "netns", "--store", url)
    mark = tmp_path / "attempts"
    run_that_ends_with(
        monkeypatch,
        f"with pathlib.Path({str(mark)!r}).open('a') as stream: print(file=stream)\n"
        f"attempts = pathlib.Path({str(mark)!r}).read_text().count(chr(10))\n"
        "sys.exit(0 if attempts > 4 else sys.stderr.write('tunnelbench: starting up') and 75)",
    )
    worked = verb("worker", "--testbed", "netns", "--until-empty", "--store", url)
    assert (worked.exit_code, worked.stderr.count("waits again"), "Traceback" in worked.stderr) == (0, 4, False)
    (job,) = listed(url)
    assert (job["state"], job["failures"], job["reason"]) == ("done", 0, "")


def test_a_run_without_its_database_ends_with_the_code_for_a_later_attempt(
    server: Cluster, url: str, plan: str, tmp_path: Path
) -> None:
    rack = tmp_path / "rack.toml"
    rack.write_text('kind = "simulated"\n[simulation]\nseed = 1\n')
    server.stop()
    try:
        refused = verb("run", plan, "--on", str(rack), "--store", url)
    finally:
        server.start()
    assert (refused.exit_code, "check that the server is up" in refused.stderr) == (75, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
def test_a_worker_of_root_serves_no_testbed_that_another_user_could_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    path = tmp_path / "attic.toml"
    path.write_text('kind = "netns"\n')
    os.chown(path, 65534, 65534)
    refused = verb("worker", "--testbed", str(path), "--store", "postgresql:///nowhere?host=/nowhere")
    assert (refused.exit_code, "the testbed file" in refused.stderr) == (3, True)
    assert "this is root and" in refused.stderr
    path.chmod(0o644)
    os.chown(path, 0, 0)
    unreachable = verb("worker", "--testbed", str(path), "--store", "postgresql:///nowhere?host=/nowhere")
    assert "the testbed file" not in unreachable.stderr


def test_each_role_can_do_its_part_and_no_more(url: str, plan: str) -> None:
    execute(url, ROLES.read_text().replace("BEGIN;", "").replace("COMMIT;", "").replace(":", r"\:"))
    for name in ("read", "submit", "work"):
        execute(url, f"CREATE ROLE {name}er LOGIN IN ROLE tunnelbench_{name}")

    def as_user(user: str) -> str:
        return url.replace("postgres@", f"{user}@")

    def codes(*words: str) -> list[int]:
        return [verb(*words, "--store", as_user(user)).exit_code for user in ("reader", "submiter")]

    assert verb("submit", plan, "--on", "attic", "--store", as_user("worker")).exit_code == 3
    assert codes("submit", plan, "--on", "attic") == [3, 0]
    assert codes("jobs") == [0, 0]
    job = str(listed(url)[0]["job_id"])
    execute(url, "UPDATE procrastinate_jobs SET status = 'doing'")
    execute(url, "UPDATE procrastinate_jobs SET status = 'failed'")
    assert codes("retry", job) == [3, 0]
    assert codes("cancel", job) == [3, 0]
    execute(as_user("worker"), "UPDATE procrastinate_jobs SET priority = 5")
    for change in (  # another rack would run it
        "UPDATE procrastinate_jobs SET args = '{}'",
        "UPDATE procrastinate_jobs SET task_name = 'another'",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            execute(as_user("worker"), change)


def test_without_the_extra_only_the_verbs_for_jobs_need_it(plan: str) -> None:
    code = (
        "import sys; sys.modules['procrastinate'] = None\nfrom tunnelbench.cli import main\n"
        "main(sys.argv[1:], prog_name='tunnelbench')"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run([*words, "check", plan], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lacking = [*words, "jobs", "--store", "postgresql:///x"]
    refused = subprocess.run(lacking, capture_output=True, text=True, check=False)
    assert refused.returncode == 3
    assert "need the Python package procrastinate" in refused.stderr
    assert re.search(r"^hint: .* install .*procrastinate$", refused.stderr, re.MULTILINE)
