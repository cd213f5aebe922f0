"""A campaign on four racks ends whole through killed workers and a restart of PostgreSQL, and names a lost rack.

`make test-racks` does it with namespaces, a guest, a virtual router and a simulated rack; `make test` with namespaces
and three simulated racks.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, text
from tests.lab.awaiting import until
from tests.lab.rack_workers import recorded, start_worker, verb, worker
from tests.postgresql import Cluster, cluster

from tunnelbench.store.store import Store

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

IS_LONG = os.environ.get("TUNNELBENCH_RACKS") == "long"
LIMIT_S = 3600 if IS_LONG else 900

pytestmark = [pytest.mark.lab, pytest.mark.timeout(LIMIT_S + 120)]

PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "{kind}"
"""
SIMULATED = 'kind = "simulated"\n[simulation]\nseed = {seed}\ntrial_s = {trial_s}\n'
MEASURED = {
    "attic": 'kind = "netns"\nquiet_wait_s = 0\n',
    "guest": 'kind = "netns"\nkernel = "debian"\nquiet_wait_s = 0\n',
    "malta": 'kind = "qemu"\nboard = "malta"\nfar_board = "x86-64"\nquiet_wait_s = 0\n',
}
LOST = "yard"
"""The rack that never comes back."""
REPETITIONS = 3
KINDS = ("vxlan", "gre", "ipip")


@pytest.fixture
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def racks(tmp_path: Path) -> dict[str, str]:
    """The testbed file of each rack, by its name."""
    simulated = [LOST] if IS_LONG else ["cellar", "roof", LOST]
    texts = dict(MEASURED) if IS_LONG else {"attic": MEASURED["attic"]}
    trial_s = 30 if IS_LONG else 0.5  # the lost rack must not be done before the first trial of the virtual router
    texts |= {name: SIMULATED.format(seed=seed, trial_s=trial_s) for seed, name in enumerate(simulated)}
    for name, content in texts.items():
        (tmp_path / f"{name}.toml").write_text(content)
    return {name: str(tmp_path / f"{name}.toml") for name in texts}


@pytest.fixture
def campaign(tmp_path: Path, racks: dict[str, str]) -> str:
    for kind in KINDS:
        (tmp_path / f"{kind}.toml").write_text(PLAN.format(kind=kind))
    path = tmp_path / "spring.toml"
    plans, testbeds = json.dumps([f"./{kind}.toml" for kind in KINDS]), json.dumps(list(racks))
    path.write_text(f"plans = {plans}\ntestbeds = {testbeds}\nrepetitions = {REPETITIONS}\n")
    return str(path)


def open_jobs(url: str) -> int:
    """Return the number of jobs that wait or run on the racks that are there."""
    query = "SELECT count(*) FROM procrastinate_jobs WHERE queue_name <> :lost AND status IN ('todo', 'doing')"
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.scalar(text(query), {"lost": LOST}) or 0)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=30)


def test_a_campaign_ends_whole_through_faults_and_names_the_lost_rack(
    server: Cluster, racks: dict[str, str], campaign: str, lab: None
) -> None:
    url = server.new_database()
    verb("jobs", "--setup", "--store", url)
    verb("campaign", "submit", campaign, "--store", url)
    others = [name for name in racks if name != LOST]
    killed = others[-1]
    with ExitStack() as stack:
        for name in others[:-1]:
            stack.enter_context(worker(url, racks[name]))
        first, lost = start_worker(url, racks[killed]), start_worker(url, racks[LOST])
        try:
            until(lambda: recorded(url, killed) > 0 and recorded(url, LOST) > 0, "trials on both racks", LIMIT_S)
        finally:
            kill(first)
            kill(lost)
        stack.enter_context(worker(url, racks[killed]))
        before = recorded(url, killed)
        until(lambda: recorded(url, killed) > before, "a trial after the kill", LIMIT_S)
        server.stop("immediate")
        server.start()
        until(lambda: open_jobs(url) == 0, "the end of the jobs", LIMIT_S)
    verb("clean")  # the folders of the killed workers, with their plans
    found = json.loads(verb("campaign", "report", "spring", "--json", "--store", url))
    assert len(found["runs"]) == len(KINDS) * len(racks) * REPETITIONS
    # On a machine that others use, no figure of a measured run may count; its trials are there all the same.
    with Store.open(url, create=False) as store:
        for run in found["runs"]:
            if run["testbed"] != LOST:
                assert run["trials_recorded"] == run["trials_planned"], run
                sequences = Counter(record.spec.sequence for record in store.trials(run["run_id"]))
                assert set(sequences.values()) == {1}
                assert len(sequences) == run["trials_planned"]
    assert LOST in verb("campaign", "status", "spring", "--store", url)
    lost_runs = [run for run in found["runs"] if run["testbed"] == LOST and not run["is_whole"]]
    assert lost_runs
    named = [run["run_id"] for run in found["missing"] if run["testbed"] == LOST]
    assert named == [run["run_id"] for run in lost_runs]
    assert f"on {LOST}, repetition {REPETITIONS}: " in verb("campaign", "report", "spring", "--store", url)
