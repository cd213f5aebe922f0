"""A worker runs jobs, through kill -9 and a restart of PostgreSQL; no trial is lost or measured twice."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.lab.awaiting import until
from tests.lab.bench import TUNNELBENCH, namespaces
from tests.lab.rack_workers import jobs, recorded, verb, worker
from tests.postgresql import Cluster, server
from tests.unit.builders import make_run

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.store.store import Store

__all__ = ["server"]

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

PLAN = """
rounds = 2
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 2
interval_s = 0.5
[[tunnel]]
kind = "vxlan"
[[tunnel]]
kind = "gre"
"""


@pytest.fixture
def url(server: Cluster) -> str:
    made = server.new_database()
    verb("jobs", "--setup", "--store", made)
    return made


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return str(path)


@pytest.fixture
def attic(tmp_path: Path) -> str:
    """A testbed that does not wait for a quiet machine: what is tested holds on a busy one, too."""
    path = tmp_path / "attic.toml"
    path.write_text('kind = "netns"\nquiet_wait_s = 0\n')
    return str(path)


def await_state(url: str, *states: str) -> None:
    until(lambda: jobs(url)[0]["state"] in states, f"a job that is {' or '.join(states)}", 120)


def test_a_killed_worker_and_a_restarted_server_lose_no_trial(
    url: str, plan: str, attic: str, server: Cluster, lab: None
) -> None:
    there_before = [*RUN_FOLDER.glob("*")]
    run_id = json.loads(verb("submit", plan, "--on", "attic", "--json", "--store", url))[0]["run_id"]
    with worker(url, attic) as killed:
        until(lambda: recorded(url) >= 2, "two trials", 60)
        killed.kill()
    until(lambda: not namespaces(run_id[-6:]), "the end of the run of the killed worker", 30)
    verb("clean")  # the worker's own folder, with the plan
    assert {*RUN_FOLDER.iterdir()} <= {*there_before, RUN_FOLDER / "lock"}
    with worker(url, attic):
        before = recorded(url)
        until(lambda: recorded(url) > before, "a trial after the kill", 60)
        server.stop("immediate")
        server.start()
        await_state(url, "done")  # on a machine that others use, no trial may count
    with Store.open(url, create=False) as store:
        run = store.run(run_id)
        sequences = [record.spec.sequence for record in store.trials(run_id)]
    assert run.trials_recorded == run.trials_planned
    assert len(set(sequences)) == len(sequences) == run.trials_planned


def test_a_running_job_is_cancelled_and_its_testbed_taken_down(url: str, plan: str, attic: str, lab: None) -> None:
    run_id = json.loads(verb("submit", plan, "--on", "attic", "--json", "--store", url))[0]["run_id"]
    with worker(url, attic):
        until(lambda: recorded(url) >= 1, "a trial", 60)
        verb("cancel", "1", "--store", url)
        await_state(url, "cancelled")
        assert namespaces(run_id[-6:]) == []


def test_a_worker_that_is_stopped_gives_its_job_back(url: str, plan: str, attic: str, lab: None) -> None:
    verb("submit", plan, "--on", "attic", "--store", url)
    with worker(url, attic) as stopped:
        until(lambda: recorded(url) >= 1, "a trial", 60)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(timeout=30) == 0
    assert [(job["state"], job["failures"]) for job in jobs(url)] == [("waiting", 0)]


def test_a_job_rests_with_its_reason_after_three_failures(url: str, plan: str, attic: str, lab: None) -> None:
    Path(attic).write_text('kind = "netns"\nkernel = "/nowhere/vmlinuz"\n')
    verb("submit", plan, "--on", "attic", "--store", url)
    with worker(url, attic):
        await_state(url, "failed")
    (job,) = jobs(url)
    assert (job["failures"], job["run_id"] in job["reason"]) == (3, False)
    assert "/nowhere/vmlinuz" in job["reason"]


PLANTED = """
import pathlib
pathlib.Path(__file__).with_name("was_here").touch()
raise SystemExit("a planted module")
"""


def test_the_run_of_a_job_takes_no_python_modules_from_the_current_folder(
    url: str, plan: str, tmp_path: Path, lab: None
) -> None:
    (tmp_path / "nowhere.toml").write_text('kind = "netns"\nkernel = "/nowhere/vmlinuz"\n')
    planted = tmp_path / "tunnelbench"
    planted.mkdir()
    (planted / "__init__.py").write_text(PLANTED)
    verb("submit", plan, "--on", "nowhere", "--store", url)
    argv = [TUNNELBENCH, "worker", "--testbed", "nowhere.toml", "--until-empty", "--store", url]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert not (planted / "was_here").exists()
    assert "/nowhere/vmlinuz" in jobs(url)[0]["reason"]


@pytest.mark.parametrize("what", ["plan", "testbed"])
def test_a_run_in_the_store_that_is_not_the_jobs_is_not_continued(
    url: str, plan: str, attic: str, what: str, lab: None
) -> None:
    run_id = json.loads(verb("submit", plan, "--on", "attic", "--json", "--store", url))[0]["run_id"]
    texts = {"plan_text": PLAN, "testbed_text": Path(attic).read_text()}
    texts[f"{what}_text"] += "# of another user\n"
    with Store.open(url, create=False) as store:
        store.begin_run(make_run(run_id=run_id, trials_planned=4, trials_recorded=0, **texts))
    with worker(url, attic):
        until(lambda: jobs(url)[0]["failures"] > 0, "a failure", 60)
    assert f"the {what} has changed since the run began" in jobs(url)[0]["reason"]
    assert recorded(url) == 0
