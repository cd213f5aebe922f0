"""The worker's connection to the queue: it waits for a database that is away, and knows which jobs are its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg import InterfaceError, OperationalError
from psycopg.errors import ForeignKeyViolation
from psycopg_pool import PoolTimeout

from tunnelbench.model.text import first_line

R = TypeVar("R")

DATABASE_PATIENCE_S = 600.0
"""Longest wait for a database that is away [s]. After it, the worker ends, and systemd starts it again."""
ENDING_PATIENCE_S = 5.0
"""Longest wait for a database that is away while the worker ends [s]."""

HEARTBEAT = """
INSERT INTO procrastinate_workers (id, last_heartbeat) OVERRIDING SYSTEM VALUE VALUES (%(worker_id)s, now())
ON CONFLICT (id) DO UPDATE SET last_heartbeat = now()
"""
"""SQL that renews the row of a worker, which any other worker deletes after a silence of STALLED_S."""
RUNNING_JOBS = "SELECT id, status::text AS status, worker_id FROM procrastinate_jobs WHERE id = ANY(%(jobs)s)"


class OwnJobs(JobManager):
    """Ends a job, or lets it wait again, only if no other worker has taken it and nobody has cancelled it meanwhile."""

    worker: Worker | None = None

    async def update_heartbeat(self, worker_id: int) -> None:
        await self.connector.execute_query_async(HEARTBEAT, worker_id=worker_id)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        try:
            return await super().fetch_job(queues, worker_id)
        except ConnectorException as error:
            if not isinstance(error.__cause__, ForeignKeyViolation):
                raise
        await self.update_heartbeat(worker_id)  # the row of this worker was deleted
        return await super().fetch_job(queues, worker_id)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        if await self.own_status(job):
            await super().finish_job(job, status, delete_job)

    async def retry_job(self, job: Job, *arguments: Any, **values: Any) -> None:
        if await self.own_status(job) == "doing":
            await super().retry_job(job, *arguments, **values)

    async def own_status(self, job: Job) -> str:
        """Return `doing` if a job is this worker's, `todo` if it waits for any worker, and an empty text otherwise."""
        own = self.worker.worker_id if self.worker else None
        for row in await self.connector.execute_query_all_async(RUNNING_JOBS, jobs=[job.id]):
            if row["status"] == "todo" or (row["status"] == "doing" and row["worker_id"] in {own, None}):
                return str(row["status"])
        return ""


class LastWarning(logging.Filter):
    """Keeps the last warning of psycopg's pool and does not print it: there are two for each try to connect."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            self.text = first_line(record.getMessage())
        return record.levelno > logging.WARNING


WHY_AWAY = LastWarning()


def why_failed(error: ConnectorException) -> str:
    """Return why a query failed. That a pool has no connection is no reason: its last warning has that."""
    is_known = isinstance(error.__cause__, PoolTimeout) and WHY_AWAY.text
    return WHY_AWAY.text if is_known else first_line(str(error.__cause__ or error))


class PatientConnector(PsycopgConnector):
    """A connector that repeats a query while the server restarts or cannot be reached."""

    patience_s = DATABASE_PATIENCE_S
    say: Callable[[str], object] = staticmethod(lambda _text: None)
    is_away = False

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        await self._patiently(lambda: super(PatientConnector, self).execute_query_async(query, **arguments))

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        return await self._patiently(lambda: super(PatientConnector, self).execute_query_all_async(query, **arguments))

    def hurry(self) -> None:
        """Wait for the server for some seconds only, because the worker is to end."""
        self.patience_s = ENDING_PATIENCE_S

    async def _patiently(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Return the answer to a query; repeat it for `patience_s` while the server is away."""
        now_s = asyncio.get_running_loop().time
        begun_s = now_s()
        while True:
            try:
                answer = await ask()
            except ConnectorException as error:
                is_away = isinstance(error.__cause__, (OperationalError, InterfaceError, PoolTimeout))
                if not is_away or now_s() > begun_s + self.patience_s:
                    raise
                if not self.is_away:
                    why = why_failed(error)
                    self.say(f"the database does not answer ({why}); waiting {self.patience_s:.0f} s for it")
                self.is_away = True
            else:
                if self.is_away:
                    self.say("the database answers again")
                self.is_away = False
                return answer
            await asyncio.sleep(1)
