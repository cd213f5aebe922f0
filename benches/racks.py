#!/usr/bin/env python3
"""Measure what the job engine and the store cost at scale, with simulated racks on a PostgreSQL of its own.

`jobs`: worker processes, some of which are killed, take all jobs of many racks. Each job must end exactly once.
`store`: a store with many trials; the time of `list runs`, `report`, `history` and `jobs`, each in a new process.

    .venv/bin/python benches/racks.py jobs [--jobs 20000] [--racks 200] [--workers 16] [--kills 8] [--rounds 1]
    .venv/bin/python benches/racks.py store [--runs 20000] [--repeats 5]

The workers are those of TunnelBench. In place of a process for each run, they draw its trials themselves, because the
start of 20,000 processes is not what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from options import at_least_one
from versions import PROGRAM, ROOT, USUAL_ENVIRONMENT

sys.path.insert(0, str(ROOT))

from sqlalchemy import create_engine, text
from tests.postgresql import Cluster, cluster
from tests.unit.builders import STARTED_AT, make_run

from tunnelbench.cli.progress import Progress
from tunnelbench.cli.run import RunJob, simulate
from tunnelbench.cli.run_lock import new_run_id
from tunnelbench.measure.simulation import simulated_record
from tunnelbench.model.errors import UserError, WrongInput
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.testbed import SimulationModel
from tunnelbench.plan import stored_plan, stored_testbed
from tunnelbench.racks import worker as worker_module
from tunnelbench.racks.queue import JobQueue, Submission
from tunnelbench.racks.worker import RackWorker, run_worker
from tunnelbench.store.checksum import checksum
from tunnelbench.store.rows import DatabaseRow, raw_row, run_row, trial_row
from tunnelbench.store.store import Store
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas

PLAN = """
rounds = {rounds}
[tcp]
payload_bytes = {payloads}
direction = {directions}
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "gre"
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SUBMITTED_AT_ONCE = 10_000


class BenchWorker(RackWorker):
    """A worker that draws the trials of a run in its own process."""

    async def _measure(self, _context: Any, words: list[str]) -> tuple[int, deque[str]]:
        try:
            await asyncio.to_thread(draw, self.location, words)
        except UserError as error:  # as a process would end; the job is tried again
            return error.exit_code, deque([f"tunnelbench: {error.message}"])
        return 0, deque()


def draw(location: str, words: list[str]) -> None:
    """Do what `tunnelbench run` does on a simulated testbed, from the opening of the store on."""
    run_id = words[words.index("--resume" if "--resume" in words else "--run-id") + 1]
    with Store.open(location, create=False) as store:
        known: tuple[TrialRecord, ...] = ()
        try:
            run = store.run(run_id)
        except WrongInput:
            run = None
        if run is None:
            plan_text, name = Path(words[0]).read_text(), words[words.index("--on") + 1]
            facts = None
        else:
            plan_text, name = run.plan_text, run.testbed_name
            known, facts = tuple(store.trials(run_id)), run.host_facts
        plan = stored_plan("bench", plan_text, option_schemas(), PLANNED)
        testbed = stored_testbed(name, f'kind = "simulated"\n[simulation]\nseed = {int(name[5:])}\n', KINDS)
        simulate(RunJob(run_id, plan, testbed, known, facts), store, Progress(plan.plan))


def work(location: str, names: list[str]) -> None:
    """Be a worker process until no job waits."""
    worker_module.STALLED_S, worker_module.HEARTBEAT_S, worker_module.POLL_S = 10.0, 2.0, 0.5
    worker_module.RETRY_S = 0
    run_worker(BenchWorker(location, {name: name for name in names}, lambda _text: None))


@contextmanager
def prepared(workers: int) -> Iterator[tuple[Cluster, str]]:
    """Run a server with room for the connections of all workers, and give it with the URL of a database with tables."""
    with cluster() as server:
        location = server.new_database()
        engine = create_engine(location, isolation_level="AUTOCOMMIT")
        with engine.connect() as made:
            made.execute(text(f"ALTER SYSTEM SET max_connections = {40 + 8 * workers}"))
        engine.dispose()
        server.stop()
        server.start()
        subprocess.run([PROGRAM, "jobs", "--setup", "--store", location], check=True, stdout=subprocess.DEVNULL)
        yield server, location


def bench_jobs(given: argparse.Namespace) -> None:
    with prepared(given.workers) as (server, location):
        names = [f"rack-{number}" for number in range(given.racks)]
        plan_text = PLAN.format(rounds=given.rounds, payloads=[1448], directions='["out"]')
        plan = stored_plan("bench", plan_text, option_schemas(), PLANNED).plan
        trials = len(plan.calibrations()) + len(plan.trials())
        per_rack = given.jobs // given.racks
        step = max(1, SUBMITTED_AT_ONCE // given.racks)
        begin_s = time.monotonic()
        with JobQueue.open(location) as queue:
            for start in range(0, per_rack, step):
                times = min(step, per_rack - start)
                queue.submit(Submission("bench.toml", plan_text, names, times, 0, 1.0, new_run_id))
        jobs = per_rack * given.racks
        print(
            f"{jobs} jobs of {trials} trials for {given.racks} racks, submitted in {time.monotonic() - begin_s:.1f} s"
        )
        server_before_s = server_cpu_s(server)
        begin_s = time.monotonic()
        worker_s, kills = run_workers(location, names, given.workers, given.kills, jobs)
        took_s = time.monotonic() - begin_s
        server_s = server_cpu_s(server) - server_before_s
        check(location, jobs, trials)
        print(
            f"{given.workers} workers, {kills} kills: {took_s:.0f} s, {took_s / jobs * 1e3:.1f} ms a job; "
            f"CPU time a job: workers {worker_s / jobs * 1e3:.1f} ms, PostgreSQL {server_s / jobs * 1e3:.1f} ms"
        )


def run_workers(location: str, names: list[str], count: int, kills: int, jobs: int) -> tuple[float, int]:
    """Run workers until all jobs have ended, and kill some; returns their CPU time [s] and the number of kills."""
    parts = [names[place::count] for place in range(count)]
    processes = [start(location, part) for part in parts]
    chance, done, killed = random.Random(1), 0, 0  # noqa: S311 # nothing secret
    before_s = children_cpu_s()
    try:
        while done < jobs:
            time.sleep(1)
            done = ended(location)
            if killed < kills and done > jobs * (killed + 1) / (kills + 2):
                place = chance.randrange(count)
                processes[place].kill()
                processes[place].wait()
                processes[place] = start(location, parts[place])
                killed += 1
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    return children_cpu_s() - before_s, killed


def start(location: str, names: list[str]) -> subprocess.Popen[bytes]:
    """Start a worker, which the kernel ends if this process dies."""
    worker = [sys.executable, __file__, "work", location, *names]
    return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *worker], env=USUAL_ENVIRONMENT)


def children_cpu_s() -> float:
    """Return the CPU time of all child processes that have ended [s]."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def connection(location: str) -> Iterator[Any]:
    engine = create_engine(location)
    with engine.begin() as made:
        yield made
    engine.dispose()


def ended(location: str) -> int:
    with connection(location) as made:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status NOT IN ('todo', 'doing')"
        return int(made.scalar(text(query)))


def check(location: str, jobs: int, trials: int) -> None:
    """Raise AssertionError unless each job has succeeded once, and its run has each trial once."""
    with connection(location) as made:
        states = dict(made.execute(text("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY 1")).all())
        ends = "SELECT count(*), count(DISTINCT job_id) FROM procrastinate_events WHERE type = 'succeeded'"
        assert states == {"succeeded": jobs}, states
        assert tuple(made.execute(text(ends)).one()) == (jobs, jobs)
        runs = "SELECT count(*) FROM run WHERE status = 'done' AND trials_recorded = :trials"
        whole = made.scalar(text(runs), {"trials": trials})
        assert whole == jobs, f"{whole} of {jobs} runs are done with {trials} trials"
        assert made.scalar(text("SELECT count(*) FROM trial")) == jobs * trials
        again = "SELECT count(*) FROM procrastinate_events WHERE type = 'deferred_for_retry'"
        resumed = made.scalar(text(again))
        print(f"each of {jobs} jobs ended once, and no trial is lost or twice; {resumed} jobs were resumed")


def server_cpu_s(server: Cluster) -> float:
    """Return the CPU time of all processes of the server, ended ones included [s]."""
    postmaster = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ticks = sum(map(int, stat_fields(postmaster)[11:15]))
    return (ticks + sum(sum(map(int, stat_fields(child)[11:13])) for child in children)) / TICKS_PER_S


def stat_fields(pid: str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; utime is the twelfth (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def bench_store(given: argparse.Namespace) -> None:
    with prepared(given.workers) as (_, location):
        begin_s = time.monotonic()
        trials = fill(location, given.runs, given.racks)
        took_s = time.monotonic() - begin_s
        print(f"{trials} trials in {given.runs} runs of {given.racks} racks, written in {took_s:.0f} s")
        with connection(location) as made:
            print(f"{int(made.scalar(text('SELECT pg_database_size(current_database())'))) / 1e9:.1f} GB")
        names = [f"rack-{number}" for number in range(given.racks)]
        with JobQueue.open(location) as queue:
            plan_text = PLAN.format(rounds=1, payloads=[1448], directions='["out"]')
            queue.submit(Submission("bench.toml", plan_text, names, 50, 0, 1.0, new_run_id))
        for verb in (["list", "runs"], ["report", "last"], ["report", run_id(given.runs // 2)],
                     ["history", "rack-7"], ["jobs"], ["retry", "1"]):  # fmt: skip
            found = timed([str(PROGRAM), *verb, "--store", location], given.repeats)
            wall, cpu = zip(*found, strict=True)
            print(f"{' '.join(verb):30} {statistics.median(wall):.2f} s ({min(wall):.2f}-{max(wall):.2f}), "
                  f"CPU time of the process {statistics.median(cpu):.2f} s")  # fmt: skip


def run_id(number: int) -> str:
    return f"20250101-000000-{number:06x}"


def fill(location: str, runs: int, racks: int) -> int:
    """Store runs of some fifty simulated trials, and return the number of trials.

    The trials of one run are drawn once and copied to all runs, with checksums of their own.
    """
    plan_text = PLAN.format(rounds=6, payloads=[1448, 76], directions='["in", "out"]')
    plan = stored_plan("bench", plan_text, option_schemas(), PLANNED).plan
    specs = [*plan.calibrations(), *plan.trials()]
    records = [simulated_record(spec, SimulationModel(), "bench", 1, STARTED_AT.isoformat()) for spec in specs]
    whole = make_run(trials_planned=len(specs), plan_text=plan_text, testbed_text='kind = "simulated"\n',
                     host_facts={"simulated": "yes"}, notes=())  # fmt: skip
    with Store.open(location):
        pass
    tables: dict[str, list[DatabaseRow]] = {
        "run": [run_row(whole, len(records))],
        "trial": [trial_row("", record) for record in records],
        "trial_raw": [raw_row("", record) for record in records],
    }
    with connection(location) as made:
        cursor = made.connection.driver_connection.cursor()
        for table, some in tables.items():
            with cursor.copy(f"COPY {table} ({', '.join(some[0])}) FROM STDIN") as copy:
                for number in range(runs):
                    started = (STARTED_AT + timedelta(minutes=10 * number)).isoformat()
                    own = {"run_id": run_id(number)}
                    if table == "run":
                        own |= {"started_at": started, "ended_at": started, "testbed_name": f"rack-{number % racks}"}
                    for row in some:
                        changed = {**row, **own}
                        copy.write_row(list({**changed, "checksum": checksum(changed)}.values()))
    with connection(location) as made:
        made.execute(text("ANALYZE"))
    return runs * len(specs)


def timed(command: list[str], repeats: int) -> list[tuple[float, float]]:
    """Return duration and CPU time of each call after the first [s]."""
    found = []
    for _ in range(1 + repeats):
        begin_s, cpu_s = time.monotonic(), children_cpu_s()
        subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=USUAL_ENVIRONMENT
        )
        found.append((time.monotonic() - begin_s, children_cpu_s() - cpu_s))
    return found[1:]


def main() -> None:
    """Print the figures of one bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("jobs", "store"))
    parser.add_argument("--jobs", type=at_least_one, default=20_000)
    parser.add_argument("--racks", type=at_least_one, default=200)
    parser.add_argument("--workers", type=at_least_one, default=16)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--rounds", type=at_least_one, default=1, help="rounds of each job; a round has two trials")
    parser.add_argument("--runs", type=at_least_one, default=20_000, help="runs of fifty trials in the store")
    parser.add_argument("--repeats", type=at_least_one, default=5)
    given = parser.parse_args()
    (bench_jobs if given.what == "jobs" else bench_store)(given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], sys.argv[3:])
    else:
        main()
