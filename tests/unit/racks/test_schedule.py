"""Periodic jobs and deadlines in a real PostgreSQL: each due time gives one job, however many workers look."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from tests.own_loop import in_own_loop
from tests.unit.racks.queue_fixtures import execute, plan, server, url, verb

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

from procrastinate import App, PsycopgConnector

from tunnelbench.cli.run_lock import RUN_ID_PATTERN, new_run_id
from tunnelbench.model.errors import WrongInput
from tunnelbench.racks.queue import connection_words
from tunnelbench.racks.schedule import next_due
from tunnelbench.racks.worker import START, RackWorker

__all__ = ["plan", "server", "url"]

MAKE_DUE = "UPDATE tunnelbench_schedule SET next_due = '2026-03-01 02:00:00+00'"


def jobs(url: str) -> list[dict[str, Any]]:
    return list(json.loads(verb("jobs", "--all", "--json", "--store", url).stdout))


def look(url: str, *testbeds: str) -> None:
    """Do once what a worker for some testbeds does every few seconds."""

    async def once() -> None:
        app = App(connector=PsycopgConnector(conninfo=connection_words(url)))
        async with app.open_async():
            worker = RackWorker(url, dict.fromkeys(testbeds, "netns"), lambda _text: None)
            await worker._make_due_jobs(app)

    in_own_loop(once())


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 2 * * *", "2026-03-01T02:00:00+00:00"),
        ("*/15 * * * *", "2026-02-28T12:15:00+00:00"),
        ("30 6 * * 1", "2026-03-02T06:30:00+00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00+00:00"),
    ],
)
def test_due_times_are_those_of_cron_in_utc(cron: str, expected: str) -> None:
    assert next_due(cron, datetime(2026, 2, 28, 12, tzinfo=UTC)).isoformat() == expected


@pytest.mark.parametrize(
    "cron", ["daily", "* * * *", "0 0 30 2 *", "99 2 * * *", "0 2 * * * *", "* " * 60, "0 0 l * *", "0 0 * * 1#2"]
)
def test_a_text_that_is_no_time_of_cron_is_refused(url: str, plan: str, cron: str) -> None:
    with pytest.raises(WrongInput, match="is no time of cron"):
        next_due(cron, datetime(2026, 2, 28, 12, tzinfo=UTC))
    refused = verb("submit", plan, "--on", "attic", "--every", cron, "--store", url)
    assert refused.exit_code == 2
    assert execute(url, "SELECT count(*) FROM tunnelbench_schedule") == [(0,)]


@pytest.mark.parametrize(
    "cron",
    [
        "* * * * *", "0 2 * * *", "*/15 * * * *", "59 23 * * *", "30 6 * * 1", "0 0 29 2 *", "0 12 13 * fri",
        "0 0 */1 * 7", "5-10/2 1,3 1-7 jan-mar mon-fri", "0 22-2 31 * *", "0 0 1 1 *",
    ],
)  # fmt: skip
def test_the_database_finds_the_same_due_times_as_cron(url: str, plan: str, cron: str) -> None:
    assert verb("submit", plan, "--on", "attic", "--every", cron, "--store", url).exit_code == 0
    query = "SELECT tunnelbench_next_due(schedule, :after) FROM tunnelbench_schedule AS schedule"
    for day in range(0, 1500, 47):
        after = datetime(2095, 12, 31, 23, 59, 30, tzinfo=UTC) + timedelta(days=day, minutes=37 * day)
        assert execute(url, query, after=after) == [(next_due(cron, after),)]


@pytest.mark.parametrize(
    "change", ["next_due = '-infinity'", "next_due = 'infinity'", "next_due = '4000-01-01 BC'", "deadline_s = 'NaN'"]
)
def test_a_schedule_that_no_worker_can_read_is_refused(url: str, plan: str, change: str) -> None:
    assert verb("submit", plan, "--on", "attic", "--every", "0 2 * * *", "--store", url).exit_code == 0
    with pytest.raises(IntegrityError, match="check constraint"):
        execute(url, f"UPDATE tunnelbench_schedule SET {change}")  # noqa: S608 - of constants


def test_a_due_time_becomes_one_job_although_many_workers_look_at_once(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic,cellar", "--every", "0 2 * * *", "--store", url)
    execute(url, MAKE_DUE)
    assert jobs(url) == []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _number: look(url, "attic", "cellar"), range(8)))
    found = jobs(url)
    assert sorted(job["testbed"] for job in found) == ["attic", "cellar"]
    assert len({job["run_id"] for job in found}) == 2
    assert execute(url, "SELECT min(next_due) > now() FROM tunnelbench_schedule") == [(True,)]
    look(url, "attic", "cellar")
    assert len(jobs(url)) == 2


def test_a_worker_makes_the_jobs_of_its_own_testbeds_only(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic,cellar", "--repeat", "3", "--every", "0 2 * * *", "--store", url)
    execute(url, MAKE_DUE)
    look(url, "cellar")
    assert [job["testbed"] for job in jobs(url)] == ["cellar"] * 3


def test_no_two_jobs_that_are_made_within_a_second_share_a_run(url: str, plan: str) -> None:
    assert len({new_run_id() for _ in range(50_000)}) == 50_000
    verb("submit", plan, "--on", "attic", "--repeat", "10000", "--every", "0 2 * * *", "--store", url)
    for _ in range(2):
        execute(url, MAKE_DUE)
        look(url, "attic")
    found = execute(url, "SELECT count(*), count(DISTINCT args->>'run_id') FROM procrastinate_jobs")
    assert found == [(20_000, 20_000)]


def test_the_job_of_a_schedule_has_what_a_submitted_job_has(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--priority", "4", "--deadline", "12h", "--store", url)
    verb(
        "submit", plan, "--on", "attic", "--priority", "4", "--deadline", "12h", "--every", "0 2 * * *", "--store", url
    )
    execute(url, MAKE_DUE)
    look(url, "attic")
    query = (
        "SELECT task_name, queue_name, lock, priority, args - 'run_id' - 'deadline' FROM procrastinate_jobs ORDER BY id"
    )
    submitted, scheduled = execute(url, query)
    assert submitted == scheduled
    ids = [job["run_id"] for job in jobs(url)]
    assert all(RUN_ID_PATTERN.fullmatch(run_id) and len(run_id) == len(new_run_id()) for run_id in ids)
    assert execute(url, "SELECT args->>'deadline' FROM procrastinate_jobs WHERE id = 2") == [
        ("2026-03-01T14:00:00+00:00",)
    ]


def test_schedules_are_listed_and_removed(url: str, plan: str) -> None:
    made = verb("submit", plan, "--on", "attic", "--every", "0 2 * * *", "--store", url)
    assert made.stdout.startswith('schedule 1: one.toml on attic, every "0 2 * * *" UTC, next at '), made.output
    assert made.stdout in verb("jobs", "--store", url).stdout
    assert verb("cancel", "--schedule", "1", "--store", url).exit_code == 0
    assert "schedule 1" not in verb("jobs", "--store", url).stdout
    again = verb("cancel", "--schedule", "1", "--store", url)
    assert (again.exit_code, "there is no schedule 1" in again.stderr) == (2, True)


@pytest.mark.parametrize("words", [[], ["1", "--schedule", "1"]])
def test_cancel_takes_a_job_or_a_schedule(url: str, words: list[str]) -> None:
    assert verb("cancel", *words, "--store", url).exit_code == 2


@pytest.mark.parametrize("deadline", ["soon", "0s", "99d", "-1h"])
def test_a_deadline_that_is_no_duration_is_refused(url: str, plan: str, deadline: str) -> None:
    refused = verb("submit", plan, "--on", "attic", "--deadline", deadline, "--store", url)
    assert (refused.exit_code, "--deadline" in refused.stderr) == (2, True)
    assert jobs(url) == []


def test_a_job_past_its_deadline_is_expired_and_can_be_cancelled(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "attic", "--deadline", "1h", "--store", url)
    assert [job["state"] for job in jobs(url)] == ["waiting"]
    execute(url, 'UPDATE procrastinate_jobs SET args = args || \'{"deadline": "2020-01-01T00:00:00+00:00"}\'')
    assert [job["state"] for job in jobs(url)] == ["expired"]
    assert verb("cancel", "1", "--store", url).exit_code == 0


def test_a_worker_lets_a_job_past_its_deadline_fail_and_retry_lifts_it(url: str, plan: str) -> None:
    verb("submit", plan, "--on", "netns", "--deadline", "1h", "--store", url)
    execute(url, 'UPDATE procrastinate_jobs SET args = args || \'{"deadline": "2020-01-01T00:00:00+00:00"}\'')
    argv = [sys.executable, *START, "worker", "--testbed", "netns", "--until-empty", "--store", url]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (job,) = jobs(url)
    assert (job["state"], job["failures"]) == ("failed", 3)
    assert job["reason"] == "its deadline 2020-01-01T00:00:00+00:00 passed before a worker took it"
    assert verb("retry", "1", "--store", url).exit_code == 0
    assert [(job["state"], job["deadline"]) for job in jobs(url)] == [("waiting", "")]
