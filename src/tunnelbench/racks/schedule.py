"""Periodic jobs: a row for each testbed says when the next jobs are due, and workers of the testbed make them then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import croniter
from sqlalchemy import text

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.racks.queue import JobQueue, Submission

FIELDS_OF_CRON = ("minutes", "hours", "days", "months", "weekdays")
LONGEST_CRON = 100

ADD_SCHEDULE = """
INSERT INTO tunnelbench_schedule
    (cron, minutes, hours, days, months, weekdays,
    testbed, plan_name, plan_text, repetitions, priority, expected_s, deadline_s, next_due)
VALUES (:cron, :minutes, :hours, :days, :months, :weekdays,
    :testbed, :plan_name, :plan_text, :repetitions, :priority, :expected_s, :deadline_s, :next_due)
RETURNING schedule_id
"""
SCHEDULES = """
SELECT schedule_id, cron, testbed, plan_name AS plan, repetitions, priority, next_due
FROM tunnelbench_schedule ORDER BY schedule_id
"""
REMOVE_SCHEDULE = "DELETE FROM tunnelbench_schedule WHERE schedule_id = :schedule_id RETURNING schedule_id"

DUE_SCHEDULES = """
SELECT schedule_id, next_due FROM tunnelbench_schedule WHERE testbed = ANY(%(queues)s) AND next_due <= now()
"""
TAKE_DUE = "SELECT tunnelbench_take_due(%(schedule_id)s, %(due)s) AS made"
"""SQL of workers."""


@dataclass(frozen=True)
class Schedule:
    """A plan that is due on a testbed again and again."""

    schedule_id: int
    cron: str
    """Due times as in crontab(5), in UTC."""
    testbed: str
    plan: str
    repetitions: int
    priority: int
    next_due: datetime


def next_due(cron: str, after: datetime) -> datetime:
    """Return the first due time after a time. Raises WrongInput for a text that is no five fields of crontab(5)."""
    cron_values(cron)
    with _explained(cron):
        found: datetime = croniter.croniter(cron, after.astimezone(UTC)).get_next(datetime)
    return found


def cron_values(cron: str) -> dict[str, list[int] | None]:
    """Return the values of each field of a time of cron; None: all values. Raises WrongInput as `next_due` does."""
    with _explained(cron):
        lists, nth_weekdays = croniter.croniter.expand(cron)
        if nth_weekdays:  # croniter takes more than crontab(5), such as the second Monday and the last day of a month
            raise ValueError
        return {
            name: None if values == ["*"] else [int(value) for value in values]
            for name, values in zip(FIELDS_OF_CRON, lists, strict=True)
        }


@contextmanager
def _explained(cron: str) -> Iterator[None]:
    wrong = WrongInput(
        f"--every: {printable(cron)[:LONGEST_CRON]} is no time of cron",
        'write minute, hour, day, month and day of the week in UTC, such as "0 2 * * *" for each night at two',
    )
    if len(cron) > LONGEST_CRON or len(cron.split()) != len(FIELDS_OF_CRON):
        raise wrong
    try:
        yield
    except (croniter.CroniterError, ValueError, ArithmeticError):
        raise wrong from None


def add_schedules(queue: JobQueue, submission: Submission, cron: str) -> list[Schedule]:
    """Store a schedule for each testbed of a submission, all or none."""
    due = next_due(cron, datetime.now(UTC))
    names = ("plan_name", "plan_text", "repetitions", "priority", "expected_s", "deadline_s")
    common: dict[str, Any] = {name: getattr(submission, name) for name in names} | cron_values(cron)
    found = []
    with queue.writing() as connection:
        for testbed in submission.testbeds:
            values = {**common, "cron": cron, "testbed": testbed, "next_due": due}
            number = int(connection.scalar(text(ADD_SCHEDULE), values) or 0)
            plan, times, priority = submission.plan_name, submission.repetitions, submission.priority
            found.append(Schedule(number, cron, testbed, plan, times, priority, due))
    return found


def schedules(queue: JobQueue) -> Sequence[Schedule]:
    """Return all schedules, the oldest first."""
    with queue.writing() as connection:
        return [Schedule(**row) for row in connection.execute(text(SCHEDULES)).mappings()]


def remove_schedule(queue: JobQueue, schedule_id: int) -> None:
    """Remove a schedule; jobs that it has made stay. Raises WrongInput if there is no such schedule."""
    with queue.writing() as connection:
        if connection.scalar(text(REMOVE_SCHEDULE), {"schedule_id": schedule_id}) is None:
            raise WrongInput(f"there is no schedule {schedule_id}", "tunnelbench jobs lists the schedules")
