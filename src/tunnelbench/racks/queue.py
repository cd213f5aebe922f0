"""The queue of jobs in the database of the results: submit, list, cancel and retry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, make_url, text

from tunnelbench.host.python_packages import POSTGRESQL, RACKS, install_hint
from tunnelbench.model.errors import CannotHere, WrongInput, WrongState
from tunnelbench.model.text import LONGEST_REASON, first_line, printable
from tunnelbench.racks.schedule_table import SCHEDULE_TABLE
from tunnelbench.store.database import database_of
from tunnelbench.store.postgresql import Server

try:
    from procrastinate import App, SyncPsycopgConnector
    from procrastinate.exceptions import ConnectorException
    from procrastinate.jobs import Job
except ImportError as error:
    is_driver = error.name is None or error.name.startswith("psycopg.")  # psycopg found no libpq
    lacking = POSTGRESQL if is_driver else RACKS
    raise CannotHere(
        f"jobs for racks need the Python package {lacking}, which is missing", install_hint(lacking)
    ) from error

TASK = "tunnelbench.run"
"""Name of the only task: one run of a plan on a testbed."""

MOST_JOB_FAILURES = 3
"""Failures after which a job is not tried again."""

TESTBED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of testbeds in the queue, each of which is the name of one queue and one lock of Procrastinate."""

MOST_JOBS = 10_000
"""Largest number of jobs of one submission."""

MOST_LISTED = 10_000
"""Largest number of ended jobs that are read for a list."""

FAILURE_TABLE = """
CREATE TABLE IF NOT EXISTS tunnelbench_job_failure (
    job_id bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
    failures integer NOT NULL,
    reason text NOT NULL
)
"""
"""SQL that makes the table of failures and remarks. Procrastinate does not store why a job failed."""

LONGEST_EXPECTED_S = 1e10
"""Longest duration of a run that is believed [s]."""

INDEXES = (
    # Procrastinate looks for earlier jobs of the same lock for each job that waits, and has no index for it
    """
CREATE INDEX IF NOT EXISTS tunnelbench_job_turn ON procrastinate_jobs (lock, priority DESC, id)
WHERE status IN ('todo', 'doing')
""",
    """
CREATE INDEX IF NOT EXISTS tunnelbench_job_campaign ON procrastinate_jobs ((args->>'campaign'))
WHERE args->>'campaign' IS NOT NULL
""",
)
"""SQL that makes the indexes for many jobs."""

TEXT_OF_JOB = """
CASE jsonb_typeof(jobs.args->'{name}') WHEN 'string' THEN left(jobs.args->>'{name}', {most}) ELSE '' END AS {name}
"""
JOB_ROWS = f"""
SELECT jobs.id, jobs.status::text AS status, jobs.queue_name, jobs.priority, jobs.abort_requested,
       {TEXT_OF_JOB.format(name="plan_name", most=LONGEST_REASON)},
       {TEXT_OF_JOB.format(name="run_id", most=LONGEST_REASON)},
       CASE jsonb_typeof(jobs.args->'expected_s') WHEN 'number'
            THEN least(greatest((jobs.args->>'expected_s')::numeric, 0), {LONGEST_EXPECTED_S:.0f})::float8
            ELSE 0 END AS expected_s,
       {TEXT_OF_JOB.format(name="deadline", most=LONGEST_REASON)},
       {TEXT_OF_JOB.format(name="campaign", most=LONGEST_REASON)},
       CASE jsonb_typeof(jobs.args->'repetition') WHEN 'number'
            THEN least(greatest((jobs.args->>'repetition')::numeric, 0), {MOST_JOBS})::int
            ELSE 0 END AS repetition,
       coalesce(failure.failures, 0) AS failures, coalesce(failure.reason, '') AS reason,
       coalesce(worker.last_heartbeat < now() - make_interval(secs => :limit_s), true) AS is_worker_gone
FROM procrastinate_jobs AS jobs
LEFT JOIN tunnelbench_job_failure AS failure ON failure.job_id = jobs.id
LEFT JOIN procrastinate_workers AS worker ON worker.id = jobs.worker_id
WHERE jobs.task_name = :task
"""  # noqa: S608 - of constants
"""SQL that reads jobs. The server takes the values out of `args`, where another program may have stored anything, such
as a number with thousands of digits, which Python refuses to read. Other workers delete the row of a worker that is
gone."""

HEARTBEAT_LIMIT_S = 30.0
"""Age of the last heartbeat from which a worker counts as gone [s]."""

WAITING = "AND jobs.status IN ('todo', 'doing')"
ENDED = "AND jobs.status NOT IN ('todo', 'doing') ORDER BY jobs.id DESC LIMIT :most"
OF_CAMPAIGN = "AND jobs.args->>'campaign' = :campaign"
WITH_ID = "AND jobs.id = :job_id"
"""Conditions that follow JOB_ROWS."""

SERVED = """
SELECT name FROM unnest(CAST(:testbeds AS text[])) AS name
WHERE EXISTS (SELECT FROM procrastinate_jobs WHERE queue_name = name AND (attempts > 0 OR status = 'doing'))
"""
"""SQL that finds the testbeds of which a worker has taken a job. Procrastinate does not store what a worker serves."""

HAS_CAMPAIGN = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE args->>'campaign' = :campaign)"
CAMPAIGN_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('campaign ' || :campaign, 0))"
"""SQL that lets a campaign of each name be submitted once."""

WAIT_AGAIN = """
UPDATE procrastinate_jobs SET status = 'todo', attempts = attempts + 1, scheduled_at = now(), abort_requested = false
WHERE id = :job_id AND status IN ('failed', 'cancelled', 'aborted')
"""
"""SQL that lets an ended job wait again. The function of Procrastinate takes failed jobs only, and none of those that
were to be cancelled."""
WITHOUT_DEADLINE = """
UPDATE procrastinate_jobs SET args = args - 'deadline' WHERE id = :job_id AND jsonb_typeof(args) = 'object'
"""
"""SQL that lets a job begin at any time. Another program may have stored no object, from which `-` takes no key."""
WAITING_AGAIN = """
SELECT min(id) FROM procrastinate_jobs WHERE status = 'todo' AND args->'again_of' = to_jsonb(CAST(:job_id AS bigint))
"""
"""SQL that finds a job that was submitted again and waits; the row of the old job is locked before."""
LOCK_JOB = "SELECT id FROM procrastinate_jobs WHERE id = :job_id FOR UPDATE"
SUBMIT_AGAIN = """
INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, args)
SELECT queue_name, task_name, priority, lock,
    (args - ARRAY['deadline', 'campaign', 'repetition'])
        || jsonb_build_object('run_id', CAST(:run_id AS text), 'again_of', id)
FROM procrastinate_jobs WHERE id = :job_id AND jsonb_typeof(args) = 'object'
RETURNING id
"""
"""SQL that submits a job again for a new run. A campaign keeps the run that it has."""

STATES = {
    "todo": "waiting",
    "doing": "running",
    "succeeded": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "aborted": "cancelled",
}
"""Words for the states of Procrastinate."""


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue."""

    job_id: int
    state: str
    """A value of STATES; `stopping` if a running job is to be cancelled, `stalled` if its worker is gone, `expired` if
    a job waits past its deadline."""
    testbed: str
    plan: str
    run_id: str
    """Id of the run, which the job has from its submission on."""
    priority: int
    expected_s: float
    """Expected duration of the whole run [s]."""
    failures: int
    reason: str
    """Reason of the last failure, or NO_VALID_FIGURE if the job is done and none of its trials counts; else empty."""
    deadline: str = ""
    """Time from which the job is not begun any more: UTC, ISO 8601; empty: it has none."""
    campaign: str = ""
    """Name of its campaign; empty: it belongs to none."""
    repetition: int = 0
    """Number of the repetition in its campaign, from 1."""


@dataclass(frozen=True)
class Submission:
    """One plan, to be run on each of several testbeds, several times."""

    plan_name: str
    plan_text: str
    testbeds: Sequence[str]
    repetitions: int
    priority: int
    expected_s: float
    new_run_id: Callable[[], str]
    deadline_s: float | None = None
    """Time from now from which a job is not begun any more [s]; None: no limit."""
    campaign: str = ""

    def __post_init__(self) -> None:
        for name in self.testbeds:
            require_testbed_name(name)
        if len(set(self.testbeds)) < len(self.testbeds):
            raise WrongInput("--on names a testbed twice", "use --repeat for several runs on one testbed")
        count = self.repetitions * len(self.testbeds)
        if not 1 <= count <= MOST_JOBS:
            raise WrongInput(f"a submission of {count} jobs is too large", f"submit at most {MOST_JOBS} jobs at once")

    def jobs(self) -> list[Job]:
        """Return the jobs, interleaved: a slow change of the surroundings then affects all testbeds alike."""
        return [self._job(testbed) for _ in range(self.repetitions) for testbed in self.testbeds]

    def _job(self, testbed: str) -> Job:
        values: dict[str, Any] = {
            "plan_name": self.plan_name,
            "plan_text": self.plan_text,
            "testbed": testbed,
            "run_id": self.new_run_id(),
            "expected_s": self.expected_s,
            **deadline_value(self.deadline_s),
        }
        return waiting_job(testbed, self.priority, values)


class Jobs(Protocol):
    """Jobs that are submitted together."""

    @property
    def campaign(self) -> str:
        """Name of their campaign; empty: they belong to none."""

    def jobs(self) -> list[Job]:
        """Return the jobs in their order."""


def waiting_job(testbed: str, priority: int, values: dict[str, Any]) -> Job:
    """Return a new job. Its lock allows one job at a time for each testbed, however many workers serve it."""
    return Job(
        id=None, queue=testbed, lock=f"testbed {testbed}", queueing_lock=None, task_name=TASK, task_kwargs=values,
        priority=priority,
    )  # fmt: skip


def deadline_value(deadline_s: float | None) -> dict[str, str]:
    """Return the value of a job for a deadline, counted from now; no value for None."""
    if deadline_s is None:
        return {}
    return {"deadline": (datetime.now(UTC) + timedelta(seconds=deadline_s)).isoformat(timespec="seconds")}


def is_past(deadline: str) -> bool:
    """Return True if a deadline has passed; False for an empty text, and for one that is no time."""
    try:
        return bool(deadline) and datetime.fromisoformat(deadline) < datetime.now(UTC)
    except (ValueError, TypeError):  # TypeError: a time without its zone
        return False


def require_testbed_name(name: str) -> None:
    """Raises WrongInput for a name that no testbed in the queue can have."""
    if name.endswith(".toml"):  # workers leave it out
        raise WrongInput(f"{printable(name)[:80]} is a file, which is on the rack", "name the testbed without .toml")
    if not TESTBED_NAME.fullmatch(name):
        raise WrongInput(
            f"{printable(name)[:80]} is no name of a testbed", "use letters, digits, `.`, `_` and `-`, at most 64"
        )


def queue_server(location: str) -> Server:
    """Return the server at a URL. Raises WrongInput for another store."""
    database = database_of(location)
    if not isinstance(database, Server) or database.url.get_backend_name() != "postgresql":
        raise WrongInput("--store: jobs need a PostgreSQL server", "write postgresql://USER@HOST/NAME")
    return database


def connection_words(location: str) -> str:
    """Return the URL as libpq takes it."""
    return make_url(location).set(drivername="postgresql").render_as_string(hide_password=False)


class JobQueue:
    """The queue, opened for the verbs; the worker has a connection of its own."""

    def __init__(self, server: Server, engine: Engine) -> None:
        self._server = server
        self._engine = engine

    @classmethod
    @contextmanager
    def open(cls, location: str, *, create: bool = False) -> Iterator[JobQueue]:
        """Open the queue of a database; `create` makes missing tables. Raises WrongInput, CannotHere."""
        server = queue_server(location)
        engine = server.open(create=create, lock_wait_s=0)
        try:
            queue = cls(server, engine)
            queue._prepare(create=create)
            yield queue
        finally:
            engine.dispose()

    def _prepare(self, *, create: bool) -> None:
        with self.writing() as connection:
            if create:
                self._server.lock_out_others(connection)
            if connection.scalar(text("SELECT to_regclass('tunnelbench_schedule') IS NOT NULL")):
                return
            if not create:
                message = f"{self._server.name}: the database has no queue of jobs"
                raise CannotHere(message, "its owner makes the tables: tunnelbench jobs --setup")
            schema = (resources.files("procrastinate.sql") / "schema.sql").read_text(encoding="utf-8")
            driver: Any = connection.connection.driver_connection
            if not connection.scalar(text("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")):
                driver.execute(schema)  # SQLAlchemy would send it as one prepared statement, which PostgreSQL refuses
            for statement in (FAILURE_TABLE, *INDEXES, *SCHEDULE_TABLE):
                driver.execute(statement)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection with a transaction. Raises CannotHere if the server fails."""
        with self._server.explained(), self._engine.begin() as connection:
            yield connection

    def submit(self, submission: Jobs) -> list[tuple[int, str, str]]:
        """Store the jobs of a submission, all or none; returns id, testbed and run of each.

        Raises WrongInput if the queue has a campaign of its name.
        """
        jobs = submission.jobs()
        app = App(connector=SyncPsycopgConnector())
        with self.writing() as connection:
            if name := submission.campaign:
                connection.execute(text(CAMPAIGN_LOCK), {"campaign": name})
                if connection.scalar(text(HAS_CAMPAIGN), {"campaign": name}):
                    raise WrongInput(f"there is a campaign {name} already", "choose another name")
            driver = connection.connection.driver_connection
            try:
                stored = app.job_manager.batch_defer_jobs(jobs, connection=driver)
            except ConnectorException as error:
                why = first_line(str(error.__cause__ or error))
                hint = "check that this user has the role tunnelbench_submit, and that the server is up"
                raise CannotHere(f"{self._server.name}: {why}", hint) from error
        return [(int(job.id or 0), str(job.queue), str(job.task_kwargs["run_id"])) for job in stored]

    def may_submit(self) -> bool:
        """Return True if the user of the database may submit jobs, as those with the role tunnelbench_submit may."""
        with self.writing() as connection:
            return bool(connection.scalar(text("SELECT has_table_privilege('procrastinate_jobs', 'INSERT')")))

    def unserved(self, testbeds: Sequence[str]) -> list[str]:
        """Return those of some testbeds of which no worker has taken a job so far."""
        with self.writing() as connection:
            served = set(connection.scalars(text(SERVED), {"testbeds": list(testbeds)}))
        return [name for name in dict.fromkeys(testbeds) if name not in served]

    def jobs(self, *, with_ended: bool = True) -> list[QueuedJob]:
        """Return the jobs in the order in which each testbed takes them; the ended ones first, oldest first."""
        return self._read(WAITING) if not with_ended else self._read(WAITING, ENDED)

    def campaign(self, name: str) -> list[QueuedJob]:
        """Return the jobs of a campaign in the order of `jobs`. Raises WrongInput if there is no such campaign."""
        found = self._read(OF_CAMPAIGN, campaign=name)
        if not found:
            hint = "tunnelbench jobs --all --json names the campaign of each job"
            raise WrongInput(f"there is no campaign {printable(name)[:80]}", hint)
        return found

    def _read(self, *conditions: str, **values: Any) -> list[QueuedJob]:
        """Return the jobs that meet any of some conditions."""
        rows: list[dict[str, Any]] = []
        common = {"task": TASK, "most": MOST_LISTED, "limit_s": HEARTBEAT_LIMIT_S}
        with self.writing() as connection:
            for condition in conditions:
                found = connection.execute(text(JOB_ROWS + condition), {**common, **values})
                rows += [dict(row) for row in found.mappings()]
        rows.sort(key=_turn)
        return [_queued(row) for row in rows]

    def cancel(self, job_id: int) -> None:
        """Cancel a waiting job, or ask the worker of a running one to stop it. Raises WrongInput."""
        job = self._job(job_id)
        if job.state not in {"waiting", "expired", "running", "stalled", "stopping"}:
            raise WrongState(f"job {job_id} is {job.state}: only a waiting or running job can be cancelled")
        with self.writing() as connection:
            arguments = {"job_id": job_id}
            connection.execute(text("SELECT procrastinate_cancel_job_v1(:job_id, true, false)"), arguments)

    def retry(self, job_id: int) -> None:
        """Let a failed or cancelled job wait again, with no failure counted and without a deadline. Raises WrongInput.

        It continues its run.
        """
        job = self._job(job_id)
        if job.state not in {"failed", "cancelled"}:
            raise WrongState(f"job {job_id} is {job.state}: only a failed or cancelled job can be retried")
        with self.writing() as connection:
            arguments = {"job_id": job_id}
            connection.execute(text("DELETE FROM tunnelbench_job_failure WHERE job_id = :job_id"), arguments)
            connection.execute(text(WAIT_AGAIN), arguments)
            connection.execute(text(WITHOUT_DEADLINE), arguments)

    def resubmit(self, job_id: int, new_run_id: Callable[[], str]) -> int:
        """Let a failed or cancelled job wait again, or submit a job that is done as a new one. Raises WrongInput.

        Returns the id of the job that waits. A new job has a new run, no deadline and no campaign.
        """
        if self._job(job_id).state != "done":
            self.retry(job_id)
            return job_id
        with self.writing() as connection:
            connection.execute(text(LOCK_JOB), {"job_id": job_id})
            if waiting := connection.scalar(text(WAITING_AGAIN), {"job_id": job_id}):
                raise WrongState(f"job {job_id} was submitted again as job {waiting}, which waits")
            made = connection.scalar(text(SUBMIT_AGAIN), {"job_id": job_id, "run_id": new_run_id()})
        if made is None:
            raise WrongInput(f"job {job_id} was not submitted by TunnelBench", "submit a plan: tunnelbench submit")
        return int(made)

    def _job(self, job_id: int) -> QueuedJob:
        found = self._read(WITH_ID, job_id=job_id)
        if not found:
            raise WrongInput(f"there is no job {job_id}", "tunnelbench jobs lists the jobs")
        return found[0]


def _turn(row: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the key by which jobs are sorted: ended, running, then waiting ones as Procrastinate takes them."""
    is_waiting = row["status"] == "todo"
    group = 2 if is_waiting else int(row["status"] == "doing")
    return group, -row["priority"] if is_waiting else 0, row["id"]


def _queued(row: Mapping[str, Any]) -> QueuedJob:
    state = STATES.get(row["status"], row["status"])
    if state == "running" and row["abort_requested"]:
        state = "stopping"
    elif state == "running" and row["is_worker_gone"]:
        state = "stalled"
    elif state == "waiting" and is_past(row["deadline"]):
        state = "expired"
    return QueuedJob(
        job_id=row["id"],
        state=state,
        testbed=row["queue_name"],
        plan=printable(row["plan_name"]),
        run_id=printable(row["run_id"]),
        priority=row["priority"],
        expected_s=row["expected_s"],
        failures=row["failures"],
        reason=printable(row["reason"])[:LONGEST_REASON],
        deadline=printable(row["deadline"]),
        campaign=printable(row["campaign"]),
        repetition=row["repetition"],
    )
