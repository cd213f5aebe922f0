"""`tunnelbench run`: measure what a plan says on a testbed, and print the table."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from tunnelbench import __version__
from tunnelbench.cli.progress import Lines, LiveView, Progress
from tunnelbench.host.command import undisturbed
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.programs import require_programs
from tunnelbench.model.errors import CannotHere, ExitCode
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.plan import LoadedPlan, LoadedTestbed, override_target, read_plan, read_testbed
from tunnelbench.report import render
from tunnelbench.run import now, run_plan
from tunnelbench.store import Store, default_path
from tunnelbench.testbed import KINDS, open_testbed
from tunnelbench.tunnel import PLANNED, option_schemas

RUN_FOLDER = Path("/run/tunnelbench")
"""Keys and configurations of a run live below it, in memory, and are deleted with the run."""


@click.command()
@click.argument("plan", default="quick")
@click.option("--on", "testbed", default="netns", metavar="TESTBED", help="Where to run it.  [default: netns]")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value, as tcp.duration_s=2.")
@click.option("--store", "store_path", type=click.Path(path_type=Path), help="Where results are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON; progress goes to standard error.")
def command(plan: str, testbed: str, overrides: tuple[str, ...], store_path: Path | None, as_json: bool) -> None:
    """Measure what PLAN says (a name or a file; default: quick) and print the table.

    Each trial is stored when it ends.
    """
    targets = [(override_target(text), text) for text in overrides]
    loaded_plan = read_plan(plan, option_schemas(), [text for target, text in targets if target == "plan"], PLANNED)
    loaded_testbed = read_testbed(testbed, [text for target, text in targets if target == "testbed"], KINDS)
    require_programs()
    store_location = store_path or default_path()
    with only_run_here() as run_id, Store.open(store_location) as store:
        progress = LiveView(loaded_plan.plan) if shows_live(as_json) else Lines(loaded_plan.plan, to_stderr=as_json)
        try:
            measure(run_id, loaded_plan, loaded_testbed, store, progress)
        except BaseException as error:
            say_what_is_kept(run_id, progress.done, store_location, error)
            raise
        run, records = store.run(run_id), store.trials(run_id)
    if as_json:
        click.echo(render(run, records, "json"), nl=False)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        click.echo(render(run, records, "terminal", width, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
        click.echo(f"Run {run_id}, stored in {store_location}. Again, or in another format:")
        click.echo(f"  tunnelbench report {run_id} --format terminal|markdown|textile|csv|json")
    if not any(record.counts for record in records):
        click.echo("tunnelbench: no trial gave a figure that counts; the doubts above say why", err=True)
        sys.exit(ExitCode.CANNOT)


def shows_live(as_json: bool) -> bool:
    """A live view is drawn on a terminal only."""
    return not as_json and sys.stdout.isatty()


def measure(run_id: str, plan: LoadedPlan, testbed: LoadedTestbed, store: Store, progress: Progress) -> None:
    """Run the plan; the run's end, however it comes, is stored too."""
    folder = RUN_FOLDER / run_id
    bench = open_testbed(testbed.testbed, run_id, folder)
    store.begin_run(
        RunRecord(
            run_id=run_id,
            started_at=now(),
            ended_at=None,
            status="running",
            plan_name=plan.plan.name,
            plan_title=plan.plan.title,
            plan_text=plan.text,
            testbed_name=testbed.testbed.name,
            testbed_text=testbed.text,
            host_facts=machine_facts(),
            trials_planned=len(plan.plan.calibrations()) + len(plan.plan.trials()),
            trials_recorded=0,
            tunnelbench_version=__version__,
            notes=bench.notes,
        )
    )

    def keep(record: TrialRecord) -> None:
        store.add_trial(run_id, record)

    status = "failed"
    try:
        folder.mkdir(mode=0o700)
        with progress.showing():
            run_plan(plan.plan, bench, keep, progress)
        status = "done"
    except (KeyboardInterrupt, SystemExit):
        status = "interrupted"
        raise
    finally:
        with undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
            store.end_run(run_id, status, now())


def say_what_is_kept(run_id: str, done: int, store_location: Path, error: BaseException) -> None:
    """After a run that ended early: what is there, and how to see it."""
    if done:
        ended = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "ended early"
        trials = "1 trial is" if done == 1 else f"{done} trials are"
        click.echo(f"tunnelbench: run {run_id} {ended}; {trials} kept in {store_location}", err=True)
        click.echo(f"hint: tunnelbench report {run_id} shows them", err=True)


@contextmanager
def only_run_here() -> Iterator[str]:
    """A new run's id, and the lock that keeps a second run off this machine: they would measure each other."""
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    try:
        RUN_FOLDER.mkdir(mode=0o700, exist_ok=True)
        lock = (RUN_FOLDER / "lock").open("a+")
    except OSError as error:
        raise CannotHere(f"{RUN_FOLDER} cannot be used: {error.strerror}", "run it as root") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            message = f"another run measures on this machine already: {holder}"
            raise CannotHere(message, "wait until it ends; two at once would measure each other") from None
        lock.seek(0)
        lock.truncate()
        lock.write(f"run {run_id}, process {os.getpid()}, since {now()}\n")
        lock.flush()
        yield run_id
