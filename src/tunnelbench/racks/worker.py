"""The worker on the machine of a rack: takes jobs for its testbeds, and runs each as a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from procrastinate import App, BaseRetryStrategy, JobContext, RetryDecision
from procrastinate.exceptions import ConnectorException, JobAborted, UniqueViolation
from procrastinate.job_context import AbortReason
from procrastinate.jobs import Job
from procrastinate.worker import Worker

from tunnelbench.host.host import RUN_FOLDER, make_private
from tunnelbench.host.preflight import IN_USE, is_in_use, marked_as_in_use
from tunnelbench.model.errors import CannotHere, ExitCode
from tunnelbench.model.result import NO_VALID_FIGURE, RESUME_HINT
from tunnelbench.model.text import LONGEST_REASON, printable
from tunnelbench.racks.connection import RUNNING_JOBS, WHY_AWAY, OwnJobs, PatientConnector, why_failed
from tunnelbench.racks.queue import HEARTBEAT_LIMIT_S, MOST_JOB_FAILURES, TASK, connection_words, is_past
from tunnelbench.racks.schedule import DUE_SCHEDULES, TAKE_DUE
from tunnelbench.store.postgresql import NETWORK_LIMITS

HEARTBEAT_S = 5.0
"""Time between two heartbeats of a worker [s]."""
STALLED_S = HEARTBEAT_LIMIT_S
"""Age of the last heartbeat from which a worker counts as gone [s]."""
POLL_S = 2.0
"""Time between two looks for new jobs, and for jobs to be cancelled [s]."""
LATER_S = 15
"""Wait before a job whose run could not begin or go on for now is tried again [s]."""
RETRY_S = 30
"""Wait before a failed job is tried again [s]. Other jobs of its testbed wait, too."""
LEFT_FOLDER_S = 60.0
"""Age from which the folder of a job of no worker is removed [s]."""
LONGEST_JOB_NAME = 200
LARGEST_PLAN_CHARACTERS = 1 << 20
"""Limits of the values of a job."""
LONGEST_LINE_BYTES = 1 << 20
LINES_KEPT = 20
"""Lines of the messages of a run that are kept to find the reason of a failure."""
START = ("-P", "-c", "import sys; sys.argv[0] = 'tunnelbench'; from tunnelbench.start import main; main()")
"""Options of Python that begin a verb in another process. Without -P, Python would take modules from the current folder
first, to which another user may be able to write."""
DIE_WITH_WORKER = ("setpriv", "--pdeathsig", "TERM", "--")
"""Start of a command that the kernel ends with SIGTERM, so that it puts the router back, if the worker dies."""

STORE_REASON = """
INSERT INTO tunnelbench_job_failure (job_id, failures, reason) VALUES (%(job_id)s, %(failures)s, %(reason)s)
ON CONFLICT (job_id) DO UPDATE
SET failures = tunnelbench_job_failure.failures + excluded.failures, reason = excluded.reason
RETURNING failures
"""
HAS_RUN = "SELECT count(*) AS found FROM run WHERE run_id = %(run_id)s"
TAKE_BACK = """
UPDATE procrastinate_jobs SET status = 'doing', worker_id = %(worker_id)s
WHERE id = %(job_id)s AND (status = 'todo' OR (status = 'doing' AND worker_id IS NULL)) RETURNING id
"""
"""SQL that makes a job the worker's own again. The index on locks refuses it if another job of the testbed runs."""
CLEAR_REASON = "UPDATE tunnelbench_job_failure SET reason = '' WHERE job_id = %(job_id)s"
LOST_JOBS = """
SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND task_name = %(task)s AND queue_name = ANY(%(queues)s)
AND worker_id = %(worker_id)s
"""


class JobFailed(Exception):
    """The run of a job ended without success."""

    def __init__(self, failures: int, reason: str) -> None:
        super().__init__(reason)
        self.failures = failures


class Later(Exception):
    """The run of a job ended because the database did not answer, or because another process measures it."""


class LimitedFailures(BaseRetryStrategy):
    """Try a failed job again until it has failed MOST_JOB_FAILURES times.

    A worker that is stopped is no failure, and neither is a run that cannot go on for now.
    """

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision(retry_in={"seconds": 0})
        if isinstance(exception, Later):
            return RetryDecision(retry_in={"seconds": LATER_S})
        if isinstance(exception, JobFailed) and exception.failures < MOST_JOB_FAILURES:
            return RetryDecision(retry_in={"seconds": RETRY_S})
        return None


@dataclass
class RackWorker:
    """A worker for some testbeds; it runs one job at a time, because two runs on one machine disturb each other."""

    location: str
    """URL of the store, which holds the queue, too."""
    testbeds: Mapping[str, str]
    """Name or file of each testbed, by its name in the queue."""
    say: Callable[[str], object]
    own_jobs: OwnJobs | None = None
    """Access to the jobs of this worker; None before it works."""
    running: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    """The jobs that run here, by their ids."""

    async def work(self, *, until_empty: bool = False) -> None:
        """Take jobs until a signal asks the worker to end, or, if `until_empty`, until no job waits."""
        words, limits = connection_words(self.location), dict(NETWORK_LIMITS)
        connector = PatientConnector(
            conninfo=words, kwargs=limits, min_size=1, max_size=4, timeout=10, json_loads=job_values
        )
        connector.say = self.say
        app = App(connector=connector)
        app.job_manager = self.own_jobs = OwnJobs(connector)

        def end() -> None:
            connector.hurry()
            worker.stop()  # type: ignore[no-untyped-call]

        app.task(name=TASK, pass_context=True, retry=LimitedFailures())(self._task(app))
        async with app.open_async():
            worker = Worker(
                app, queues=list(self.testbeds), wait=not until_empty, listen_notify=False,
                fetch_job_polling_interval=POLL_S, abort_job_polling_interval=POLL_S, shutdown_graceful_timeout=0,
                install_signal_handlers=False, update_heartbeat_interval=HEARTBEAT_S, stalled_worker_timeout=STALLED_S,
            )  # fmt: skip
            self.own_jobs.worker = worker
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, end)
            recovery = asyncio.create_task(self._recover(app, worker))
            recovery.add_done_callback(lambda _task: worker.stop())  # type: ignore[no-untyped-call]
            try:
                await worker.run()  # type: ignore[no-untyped-call]
            finally:
                recovery.cancel()
                with suppress(asyncio.CancelledError):
                    await recovery

    async def _recover(self, app: App, worker: Worker) -> None:
        """Let the jobs of dead workers wait again, and jobs that this worker took without hearing of it."""
        suspects: set[int] = set()
        while True:
            for testbed in self.testbeds:
                stalled = await app.job_manager.get_stalled_jobs(
                    queue=testbed, task_name=TASK, seconds_since_heartbeat=STALLED_S
                )
                for job in stalled:
                    if job.id not in self.running:
                        self.say(f"job {job.id}: its worker is gone; the job waits again")
                        await self._wait_again(app, job.id or 0)
            arguments = {"task": TASK, "queues": list(self.testbeds), "worker_id": worker.worker_id}
            rows = await app.connector.execute_query_all_async(LOST_JOBS, **arguments)
            lost = {int(row["id"]) for row in rows} - self.running.keys()
            for job_id in lost & suspects:  # one look may fall between the taking of a job and its start
                await self._wait_again(app, job_id)
            suspects = lost
            await self._keep_own_jobs(app, worker)
            await self._make_due_jobs(app)
            await asyncio.sleep(HEARTBEAT_S)

    async def _keep_own_jobs(self, app: App, worker: Worker) -> None:
        """Take jobs back that wait again although their runs go on here, and stop the runs of jobs that have ended.

        Another worker lets the jobs of this one wait again after a silence of STALLED_S, as on a suspended machine.
        """
        if not (asked := list(self.running)):
            return
        rows = await app.connector.execute_query_all_async(RUNNING_JOBS, jobs=asked)
        states = {int(row["id"]): (row["status"], row["worker_id"]) for row in rows}
        for job_id in asked:
            task = self.running.get(job_id)
            status, worker_id = states.get(job_id, ("deleted", None))
            if task is None or task.cancelling() or (status == "doing" and worker_id is not None):
                continue  # the run of a job that another worker has ends when it finds that it has lost its lock
            if status in {"todo", "doing"}:
                await app.job_manager.update_heartbeat(worker.worker_id or 0)
                with suppress(UniqueViolation):
                    values = {"job_id": job_id, "worker_id": worker.worker_id}
                    if await app.connector.execute_query_all_async(TAKE_BACK, **values):
                        self.say(f"job {job_id}: its run goes on here; the job is taken back")
                    continue
            self.say(
                f"job {job_id}: it was cancelled or ended elsewhere, or another job has its testbed: its run stops"
            )
            task.cancel()

    async def _make_due_jobs(self, app: App) -> None:
        """Make the jobs of schedules that are due; the database lets one worker do it for each due time.

        Due times that passed while no worker served the testbed give one job together.
        """
        for row in await app.connector.execute_query_all_async(DUE_SCHEDULES, queues=list(self.testbeds)):
            values = {"schedule_id": row["schedule_id"], "due": row["next_due"]}
            made = await app.connector.execute_query_one_async(TAKE_DUE, **values)
            if made["made"]:
                self.say(f"schedule {row['schedule_id']}: its jobs of {row['next_due']:%Y-%m-%d %H:%M %Z} wait")

    @staticmethod
    async def _wait_again(app: App, job_id: int) -> None:
        with suppress(ConnectorException):  # another worker was faster
            await app.job_manager.retry_job_by_id_async(job_id, datetime.now(UTC))

    def _task(self, app: App) -> Callable[..., Awaitable[None]]:
        async def run(context: JobContext, /, **values: Any) -> None:
            job_id = int(context.job.id or 0)
            if task := asyncio.current_task():
                self.running[job_id] = task
            try:
                await self._run(app, context, job_id, values)
            finally:
                self.running.pop(job_id, None)

        return run

    async def _run(self, app: App, context: JobContext, job_id: int, values: Mapping[str, Any]) -> None:
        testbed = str(context.job.queue)
        if fault := fault_of(values, testbed):
            await self._fail(app, job_id, fault, failures=MOST_JOB_FAILURES)
        stored = await app.connector.execute_query_one_async(HAS_RUN, run_id=values["run_id"])
        if not stored["found"] and is_past(deadline := str(values.get("deadline", ""))):
            reason = f"its deadline {printable(deadline)[:LONGEST_JOB_NAME]} passed before a worker took it"
            await self._fail(app, job_id, reason, failures=MOST_JOB_FAILURES)
        try:
            with job_folder() as folder:
                plan = folder / f"{Path(values['plan_name']).stem}.toml"
                plan.write_text(values["plan_text"], encoding="utf-8")
                # Plan and testbed are named again for a run that continues, so that `run` compares them with those in
                # the store: each user who may store results could have put a run there, with another plan.
                option = "--resume" if stored["found"] else "--run-id"
                words = [str(plan), "--on", self.testbeds[testbed], option, values["run_id"]]
                self.say(f"job {job_id}: run {values['run_id']} {'continues' if stored['found'] else 'starts'}")
                code, lines = await self._measure(context, words)
                lines = deque(line.replace(f"{folder}/", "") for line in lines)
        except (CannotHere, OSError) as error:  # such as a full /run
            place = getattr(error, "filename", None)
            why = printable(f"{place}: {error.strerror}" if place and isinstance(error, OSError) else str(error))
            await self._fail(app, job_id, f"the worker cannot start the run: {why}"[:LONGEST_REASON])
        reason = failure_reason(code, lines)
        if self.own_jobs and not await self.own_jobs.own_status(context.job):
            self.say(f"job {job_id}: another worker has taken it, or it has ended")
            raise Later(reason)
        if code == ExitCode.DONE:
            await app.connector.execute_query_async(CLEAR_REASON, job_id=job_id)
            self.say(f"job {job_id}: done")
        elif code == ExitCode.CANNOT and reason.startswith(NO_VALID_FIGURE):
            # Each trial is stored, so that another attempt would measure nothing.
            await self._store_reason(app, job_id, NO_VALID_FIGURE, failures=0)
            self.say(f"job {job_id}: done, but {NO_VALID_FIGURE}")
        elif code == ExitCode.TRY_LATER:
            await self._store_reason(app, job_id, reason, failures=0)
            self.say(f"job {job_id}: waits again: {reason}")
            raise Later(reason)
        else:  # a plan with an error stays as it is
            is_final = code == ExitCode.WRONG_INPUT and reason.startswith(f"{plan.name}:")
            await self._fail(app, job_id, reason, failures=MOST_JOB_FAILURES if is_final else 1)

    async def _fail(self, app: App, job_id: int, reason: str, failures: int = 1) -> None:
        """Store a failure with its reason, and raise JobFailed. It counts as `failures` of them."""
        number = min(await self._store_reason(app, job_id, reason, failures), MOST_JOB_FAILURES)
        self.say(f"job {job_id}: failure {number} of {MOST_JOB_FAILURES}: {reason}")
        raise JobFailed(number, reason)

    @staticmethod
    async def _store_reason(app: App, job_id: int, reason: str, failures: int) -> int:
        """Store a reason and add a number of failures; returns the number of all failures of the job."""
        values = {"job_id": job_id, "reason": reason, "failures": failures}
        row = await app.connector.execute_query_one_async(STORE_REASON, **values)
        return int(row["failures"])

    async def _measure(self, context: JobContext, words: list[str]) -> tuple[int, deque[str]]:
        """Run the verb `run` in a process of its own; returns its exit code and its last messages."""
        command = [*DIE_WITH_WORKER, sys.executable, *START, "run", *words, "--wait", "--store", self.location]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=LONGEST_LINE_BYTES,
        )  # fmt: skip
        lines: deque[str] = deque(maxlen=LINES_KEPT)
        reader = asyncio.create_task(self._read(process.stderr, lines))
        try:
            await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.terminate()
            while process.returncode is None:  # it takes its testbed down
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(process.wait())
            if context.abort_reason() == AbortReason.USER_REQUEST:
                raise JobAborted from None
            raise
        finally:
            await reader
        return process.returncode or 0, lines

    async def _read(self, messages: asyncio.StreamReader | None, lines: deque[str]) -> None:
        """Print the messages of a run and keep the last ones, until the run ends.

        A longer line than LONGEST_LINE_BYTES is left out. Reading must continue after it, because a run whose messages
        nobody reads waits for ever.
        """
        while messages and not messages.at_eof():
            with suppress(ValueError):  # a longer line
                if line := await messages.readline():
                    lines.append(line.decode(errors="replace").rstrip())
                    if not lines[-1].startswith(RESUME_HINT):  # the job is continued by the queue
                        self.say(lines[-1])


@contextmanager
def job_folder() -> Iterator[Path]:
    """Make a folder for the plan of a job; `clean` removes it if the worker is killed."""
    folder = RUN_FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    make_private(RUN_FOLDER)
    folder.mkdir(mode=0o700)
    try:
        with marked_as_in_use(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_job_folders() -> None:
    """Remove the folders of jobs whose workers were killed; `clean` removes those of killed runs.

    A folder of the last minute stays: its worker may be about to lock the mark. So does one without a plan: it may be
    that of a killed `doctor`.
    """
    for mark in RUN_FOLDER.glob(f"*/{IN_USE}"):
        folder = mark.parent
        with suppress(OSError):
            is_old = time.time() - mark.stat().st_mtime > LEFT_FOLDER_S
            content = set(folder.iterdir()) - {mark}
            if is_old and content and not is_in_use(folder) and all(each.suffix == ".toml" for each in content):
                shutil.rmtree(folder, ignore_errors=True)


def job_values(content: str | bytes) -> dict[str, Any]:
    """Return the values of a job from its JSON; none for other JSON, which another program may have stored."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):  # such as a number with thousands of digits
        return {}
    return found if isinstance(found, dict) else {}


def fault_of(values: Mapping[str, Any], testbed: str) -> str:
    """Return the error in the values of a job for a testbed that another program has stored; empty if there is none."""
    for name, most in (
        ("plan_name", LONGEST_JOB_NAME),
        ("run_id", LONGEST_JOB_NAME),
        ("plan_text", LARGEST_PLAN_CHARACTERS),
    ):
        value = values.get(name)
        if not isinstance(value, str) or not value or len(value) > most or "\0" in value:
            return f"the job has no usable {name}: it was not submitted by tunnelbench submit"
    if values.get("testbed") != testbed:  # a worker may move a job to another queue, and change nothing else of it
        return f"the job was not submitted for the testbed {testbed}"
    return ""


def failure_reason(code: int, lines: deque[str]) -> str:
    """Return the last error that a run printed, or its exit code."""
    errors = [line.removeprefix("tunnelbench: ") for line in lines if line.startswith("tunnelbench: ")]
    last = errors[-1] if errors else (lines[-1] if lines else f"the run ended with exit code {code}")
    return printable(last)[:LONGEST_REASON]


def is_news(record: logging.LogRecord) -> bool:
    """Return False for a message of Procrastinate about a failed run, which the worker itself has reported."""
    return not (record.exc_info and isinstance(record.exc_info[1], (JobFailed, Later)))


def run_worker(worker: RackWorker, *, until_empty: bool = False) -> None:
    """Work until a signal. Raises CannotHere if the database stays away."""
    logging.getLogger("procrastinate.worker").addFilter(is_news)
    logging.getLogger("psycopg.pool").addFilter(WHY_AWAY)
    remove_left_job_folders()
    try:
        asyncio.run(worker.work(until_empty=until_empty))
    except ConnectorException as error:
        hint = "check that the server is up, and that this user has the role tunnelbench_work"
        raise CannotHere(f"the database of the jobs failed: {why_failed(error)}", hint) from error
