"""A worker that is silent for a while, as on a suspended machine, with a second worker for its testbed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.awaiting import until
from tests.lab.rack_workers import jobs, recorded, start_worker
from tests.unit.racks.queue_fixtures import execute, server, url, verb

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

from tunnelbench.store.store import Store

__all__ = ["server", "url"]

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

TRIALS = 24
TESTBED = 'kind = "simulated"\n[simulation]\nseed = 1\ntrial_s = 1\n'
PLAN = f'rounds = {TRIALS}\n[tcp]\ndirection = "out"\npayload_bytes = 1448\nduration_s = 1\n[[tunnel]]\nkind = "none"\n'


@pytest.fixture
def attic(tmp_path: Path) -> Path:
    path = tmp_path / "attic.toml"
    path.write_text(TESTBED)
    return path


@contextmanager
def silent(url: str, attic: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start two workers, stop the first one in mid-job until the second one has tried its job; gives it and its log."""
    (attic.parent / "plan.toml").write_text(PLAN)
    for _ in range(2):
        assert verb("submit", str(attic.parent / "plan.toml"), "--on", "attic", "--store", url).exit_code == 0
    logs = [attic.parent / f"log {number}" for number in range(2)]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        workers.append(start_worker(url, str(attic), logs[0]))
        until(lambda: recorded(url) >= 1, "a trial", 60)
        workers[0].send_signal(signal.SIGSTOP)
        workers.append(start_worker(url, str(attic), logs[1]))
        until(lambda: "waits again: run" in logs[1].read_text(), "a second attempt", 60)
        assert "being measured by another" in logs[1].read_text()
        yield workers[0], logs[0]
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        for worker in workers:
            worker.wait(timeout=60)
    assert "Traceback" not in logs[0].read_text() + logs[1].read_text()


def test_its_job_is_no_failure_and_no_other_job_has_its_testbed_meanwhile(url: str, attic: Path) -> None:
    with silent(url, attic) as (worker, log):
        assert [job["state"] for job in jobs(url)] == ["waiting", "waiting"]
        execute(url, "DELETE FROM procrastinate_workers WHERE last_heartbeat < now() - interval '4 s'")
        worker.send_signal(signal.SIGCONT)
        until(lambda: "job 1: its run goes on here; the job is taken back" in log.read_text(), "the job is its own", 30)
        until(lambda: jobs(url)[0]["state"] == "done", "the end of the job", 90)
        until(lambda: len(runs(url)) == 2, "the run of the next job", 60)
    first, second = jobs(url)
    assert (first["state"], first["failures"], first["reason"]) == ("done", 0, "")
    assert runs(url)[first["run_id"]] <= runs(url)[second["run_id"]]
    with Store.open(url, create=False) as store:
        sequences = [record.spec.sequence for record in store.trials(first["run_id"])]
    assert len(set(sequences)) == len(sequences) >= TRIALS


def test_its_run_stops_if_the_job_was_cancelled_meanwhile(url: str, attic: Path) -> None:
    with silent(url, attic) as (worker, log):
        verb("cancel", "1", "--store", url)
        worker.send_signal(signal.SIGCONT)
        until(lambda: "job 1: it was cancelled" in log.read_text(), "the end of the run", 30)
        run_id = jobs(url)[0]["run_id"]
        with Store.open(url, create=False) as store:
            until(lambda: store.run(run_id).status != "running", "the run has ended", 30)
            assert store.run(run_id).trials_recorded < TRIALS
    assert jobs(url)[0]["state"] == "cancelled"


def runs(url: str) -> dict[str, str]:
    """Return for each run when it ended, or began if it has not ended: UTC, ISO 8601."""
    with Store.open(url, create=False) as store:
        return {run.run_id: run.ended_at or run.started_at for run in store.runs()}
