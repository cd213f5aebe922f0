"""The three database roles, with each statement that they may and may not execute, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import ProgrammingError
from tests.postgresql import Cluster
from tests.unit.builders import make_records, make_run
from tests.unit.racks.queue_fixtures import execute, plan, server, verb

from tunnelbench.model.errors import CannotHere
from tunnelbench.racks.schedule import next_due
from tunnelbench.store.store import Store

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

__all__ = ["plan", "server"]

ROLES = Path(__file__).parents[3] / "examples" / "racks" / "roles.sql"
USERS = {"read": "rita", "submit": "anna", "work": "attic"}

ADD_JOB = "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('attic', 'tunnelbench.run')"
ADD_SCHEDULE = (
    "INSERT INTO tunnelbench_schedule "
    "(cron, minutes, hours, testbed, plan_name, plan_text, repetitions, priority, expected_s, next_due) "
    "VALUES ('0 2 * * *', '{0}', '{2}', 'attic', 'one', 'x', 1, 0, 1, '2020-01-01')"
)
TAKE_DUE = "SELECT tunnelbench_take_due(1, '2020-01-01')"
ALLOWED = {
    "SELECT count(*) FROM run, trial, procrastinate_jobs, tunnelbench_schedule": {"read", "submit", "work"},
    ADD_JOB: {"submit"},
    ADD_SCHEDULE: {"submit"},
    "DELETE FROM tunnelbench_schedule": {"submit"},
    "UPDATE procrastinate_jobs SET args = '{}'": {"submit"},
    "UPDATE procrastinate_jobs SET task_name = 'another'": {"submit"},
    "UPDATE procrastinate_jobs SET priority = 5": {"submit", "work"},
    "UPDATE tunnelbench_schedule SET next_due = now()": set(),
    TAKE_DUE: {"work"},
    "SELECT procrastinate_cancel_job_v1(1, true, false)": {"submit", "work"},
    "SELECT * FROM procrastinate_fetch_job_v2(ARRAY['attic'], NULL)": {"submit", "work"},
    "INSERT INTO procrastinate_workers DEFAULT VALUES": {"work"},
    "INSERT INTO tunnelbench_job_failure VALUES (1, 1, 'x')": {"work"},
    "DELETE FROM procrastinate_jobs": set(),
    "DELETE FROM run": set(),
    "DELETE FROM trial": set(),
    "UPDATE trial SET tcp = NULL": {"work"},
    "TRUNCATE run CASCADE": set(),
    "DROP TABLE trial_raw": set(),
    "CREATE TABLE own (x int)": set(),
    "CREATE ROLE more": set(),
}
"""Statements, each with the roles that may execute it."""


@pytest.fixture(scope="module")
def roles(server: Cluster) -> str:
    """A database with a job, a schedule, and a user of each role; returns its URL for the owner."""
    made = server.new_database()
    assert verb("jobs", "--setup", "--store", made).exit_code == 0
    execute(made, ROLES.read_text().replace("BEGIN;", "").replace("COMMIT;", "").replace(":", r"\:"))
    for name, user in USERS.items():
        execute(made, f"CREATE ROLE {user} LOGIN IN ROLE tunnelbench_{name}")
    execute(made, ADD_JOB)
    execute(made, ADD_SCHEDULE)
    return made


def as_user(url: str, role: str) -> str:
    return url.replace("postgres@", f"{USERS[role]}@")


@contextmanager
def undone(url: str) -> Iterator[Connection]:
    """Give a connection whose changes are undone at the end."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("role", USERS)
def test_a_role_can_execute_what_it_needs_and_nothing_else(roles: str, role: str) -> None:
    for statement, allowed in ALLOWED.items():
        with undone(as_user(roles, role)) as connection:
            if role in allowed:
                connection.execute(text(statement))
                continue
            with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
                connection.execute(text(statement))


def test_a_worker_turns_a_due_time_into_the_jobs_of_the_schedule_only(roles: str) -> None:
    with undone(as_user(roles, "work")) as connection:
        made = [
            connection.scalar(text(statement)) for statement in (TAKE_DUE, TAKE_DUE, TAKE_DUE.replace("(1,", "(99,"))
        ]
        found = connection.execute(text("SELECT queue_name, args->>'plan_name' FROM procrastinate_jobs WHERE id > 1"))
        assert made == [1, 0, 0]
        assert found.all() == [("attic", "one")]


def test_a_rack_cannot_choose_when_a_schedule_is_due_next(roles: str) -> None:
    with undone(as_user(roles, "work")) as connection:
        assert connection.scalar(text(TAKE_DUE)) == 1
        due = connection.scalar(text("SELECT next_due FROM tunnelbench_schedule"))
        assert due == next_due("0 2 * * *", datetime.now(UTC))
        arguments = connection.scalars(
            text("SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'tunnelbench_take_due'")
        )
        assert arguments.all() == ["_schedule_id bigint, _due timestamp with time zone"]


@pytest.mark.parametrize("role", USERS)
def test_only_a_worker_stores_runs_and_each_role_reads_them(roles: str, role: str) -> None:
    records = make_records(1)
    run = make_run(run_id=f"of-{role}", trials_planned=len(records))
    with Store.open(as_user(roles, role), create=False) as store:
        if role == "work":
            store.add_run(run, records, ())
        else:
            with pytest.raises(CannotHere, match="permission denied"):
                store.add_run(run, records, ())
    with Store.open(roles, create=False) as owner:
        if role != "work":
            owner.add_run(run, records, ())
    with Store.open(as_user(roles, role), create=False) as store:
        assert len(store.trials(run.run_id)) == len(records)


@pytest.mark.parametrize(("role", "code"), [("read", 3), ("submit", 0), ("work", 3)])
def test_only_the_role_submit_submits_jobs_schedules_and_campaigns(roles: str, plan: str, role: str, code: int) -> None:
    location = as_user(roles, role)
    campaign = Path(plan).with_name(f"of-{role}.toml")
    campaign.write_text('plans = ["./one.toml"]\ntestbeds = ["attic"]\n')
    for words in (
        ["submit", plan, "--on", "attic"],
        ["submit", plan, "--on", "attic", "--every", "0 2 * * *"],
        ["campaign", "submit", str(campaign)],
    ):
        found = verb(*words, "--store", location)
        assert found.exit_code == code, found.output
