"""Reads the queue of jobs for the pages, where the store is a PostgreSQL with one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunnelbench.cli.common_options import duration_text, is_server
from tunnelbench.cli.jobs import described
from tunnelbench.model.errors import CannotHere
from tunnelbench.report.text import one_line
from tunnelbench.serve.results import Results

if TYPE_CHECKING:
    from tunnelbench.racks.queue import JobQueue

MOST_ACTIVE, MOST_ENDED = 500, 50
"""Largest number of jobs on the page: those that wait, run or rest after failures, and the newest of the others."""
WAITING_STATES = ("waiting", "expired")
RESUBMITTED = ("failed", "cancelled", "done")
"""States of jobs that a user can submit again."""
ACTIVE = (*WAITING_STATES, "running", "stalled", "stopping")


@dataclass(frozen=True)
class JobLine:
    """A job in the list."""

    job_id: int
    state: str
    position: str
    left: str
    trials: str
    plan: str
    testbed: str
    run_id: str
    """Id of the run; empty: it has not begun."""
    reason: str
    can_be_cancelled: bool
    can_be_resubmitted: bool


@dataclass(frozen=True)
class RackLine:
    """A testbed with its jobs."""

    testbed: str
    running: str
    """The running job in words; empty: none."""
    waiting: int
    left: str
    """Time until its queue is empty, in words."""
    failed: int


@dataclass(frozen=True)
class QueueView:
    """The page of racks and queue."""

    racks: tuple[RackLine, ...]
    active: tuple[JobLine, ...]
    ended: tuple[JobLine, ...]
    left_out: int
    """Number of jobs that are not shown."""
    can_change: bool
    """True if the user of the database may cancel and submit jobs."""


@contextmanager
def opened_queue(location: Path | str) -> Iterator[JobQueue | None]:
    """Open the queue of a database; None if there is none."""
    with ExitStack() as stack:
        found = None
        if is_server(location):
            try:
                from tunnelbench.racks.queue import JobQueue  # noqa: PLC0415 - only servers have a queue

                found = stack.enter_context(JobQueue.open(str(location)))
            except CannotHere:  # no Procrastinate, or no tables of jobs
                found = None
        yield found


def queue_view(queue: JobQueue, results: Results) -> QueueView:
    """Return racks and jobs."""
    jobs = queue.jobs()
    entries = described(jobs, results.with_ids([job.run_id for job in jobs if job.run_id]))
    shown = [entry for entry in entries if entry["state"] in (*ACTIVE, "failed")]
    ended = [entry for entry in entries if entry["state"] not in (*ACTIVE, "failed")][::-1]
    return QueueView(
        racks=tuple(_racks(entries)),
        active=tuple(_job_line(entry) for entry in shown[:MOST_ACTIVE]),
        ended=tuple(_job_line(entry) for entry in ended[:MOST_ENDED]),
        can_change=queue.may_submit(),
        left_out=max(0, len(shown) - MOST_ACTIVE) + max(0, len(ended) - MOST_ENDED),
    )


def _racks(entries: Sequence[Mapping[str, Any]]) -> Iterator[RackLine]:
    own: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        own[entry["testbed"]].append(entry)
    for testbed, jobs in sorted(own.items()):
        active = [job for job in jobs if job["state"] in ACTIVE]
        left_s = max((job["time_left_s"] or 0.0 for job in active), default=0.0)
        running = [
            f"job {job['job_id']}, {job['plan']}{': its worker is gone' * (job['state'] == 'stalled')}"
            for job in active
            if job["state"] not in WAITING_STATES
        ]
        yield RackLine(
            testbed=one_line(testbed),
            running=one_line("; ".join(running)),
            waiting=sum(job["state"] in WAITING_STATES for job in active),
            left=duration_text(left_s) if active else "",
            failed=sum(job["state"] == "failed" for job in jobs),
        )


def _job_line(entry: Mapping[str, Any]) -> JobLine:
    left_s = entry["time_left_s"]
    return JobLine(
        job_id=entry["job_id"],
        state=one_line(entry["state"]),
        position=str(entry["position"] or ""),
        left="" if left_s is None else duration_text(left_s),
        trials=entry["trials"] or "",
        plan=one_line(entry["plan"]),
        testbed=one_line(entry["testbed"]),
        run_id=entry["run_id"] if entry["trials"] else "",
        reason=one_line(entry["reason"]),
        can_be_cancelled=entry["state"] in ACTIVE and entry["state"] != "stopping",
        can_be_resubmitted=entry["state"] in RESUBMITTED,
    )
