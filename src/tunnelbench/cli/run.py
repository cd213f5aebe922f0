"""`tunnelbench run`: measure what a plan says on a testbed, and print the table."""

from __future__ import annotations

import difflib
import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from tunnelbench import __version__
from tunnelbench.cli.clean import clean_run
from tunnelbench.cli.here import STORE_NAME, only_run_here
from tunnelbench.cli.output import emit, has_colour, is_server, json_option, open_store, store_option, terminal_width
from tunnelbench.cli.progress import Lines, LiveView, Progress
from tunnelbench.cli.soaks import soak_reports
from tunnelbench.cli.telling import say
from tunnelbench.guest.kernel import cached_kernel
from tunnelbench.guest.session import GuestKernel, GuestRun, choose_guest
from tunnelbench.host.command import undisturbed
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.host.programs import require_programs
from tunnelbench.model.errors import ExitCode, UserError, WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.testbed import DEBIAN_KERNEL, TestbedSpec
from tunnelbench.plan import (
    LoadedPlan,
    LoadedTestbed,
    override_target,
    read_plan,
    read_testbed,
    stored_plan,
    stored_testbed,
)
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import find_image
from tunnelbench.report import render
from tunnelbench.run import now, run_plan
from tunnelbench.store import Store
from tunnelbench.testbed import KINDS, open_testbed
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel import PLANNED, option_schemas

FIRST_PLAN = "quick"
FIRST_TESTBED = "netns"


@click.command()
@click.argument("plan", required=False)
@click.option("--on", "testbed", metavar="TESTBED", help="Where to run it.  [default: netns]")
@click.option("--router", metavar="USER@HOST", help="Measure this router, by SSH: find out how it is connected, ask.")
@click.option("--yes", "is_agreed", is_flag=True, help="With --router: do not ask.")
@click.option("--save", metavar="FILE", help="With --router: write the testbed file for next time.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value, as tcp.duration_s=2.")
@click.option("--resume", metavar="RUN", help="Do what is missing of a run that ended early; `last` is the latest.")
@store_option
@json_option
def command(resume: str | None, store_location: str | None, *, as_json: bool, **files: Any) -> None:
    """Measure what PLAN says (a name or a file; default: quick) and print the table.

    Each trial is stored when it ends. With --json the results go to standard output as JSON, the progress to standard
    error.
    """
    named = Named(**files)
    named.check()
    require_programs()
    new = (
        new_job(named, as_json=as_json) if resume is None else None
    )  # before a store is made: a wrong file leaves none
    with (
        only_run_here(new.run_id if new else f"--resume {resume}"),
        open_store(store_location, create=new is not None) as store,
    ):
        job = new or resumed_job(store, str(resume), named)
        carry_out(job, store, as_json)
        run, records, speeds = store.run(job.run_id), store.trials(job.run_id), store.cipher_speeds(job.run_id)
        soaks = soak_reports(store, job.run_id)
    if as_json:
        emit(render(run, records, "json", speeds=speeds, soaks=soaks))
    else:
        emit(render(run, records, "terminal", terminal_width(), colour=has_colour(), speeds=speeds, soaks=soaks))
        click.echo(f"\nRun {job.run_id}, stored in {store.name}. Again, or in another format:")
        click.echo(
            f"  tunnelbench report {job.run_id} --format terminal|html|markdown|textile|dokuwiki|csv|series|json"
        )
    if not any(record.counts for record in records):
        click.echo("tunnelbench: no trial gave a figure that counts; the doubts above say why", err=True)
        sys.exit(ExitCode.CANNOT)


@dataclass(frozen=True)
class Named:
    """What the command line names."""

    plan: str | None
    testbed: str | None
    overrides: tuple[str, ...]
    router: str | None = None
    is_agreed: bool = False
    save: str | None = None

    def check(self) -> None:
        """Raises WrongInput for what does not go together."""
        if self.router and self.testbed:
            raise WrongInput("--router and --on both say where to measure", "leave one of them out")
        if (self.is_agreed or self.save) and not self.router:
            raise WrongInput("--yes and --save go with --router", "leave them out, or name the router")

    def read_plan(self) -> LoadedPlan:
        """The plan, or the default one, with what is set."""
        sets = [text for text in self.overrides if override_target(text) == "plan"]
        return read_plan(self.plan or FIRST_PLAN, option_schemas(), sets, PLANNED)

    def read_testbed(self) -> LoadedTestbed:
        """The testbed, or the default one, with what is set."""
        sets = [text for text in self.overrides if override_target(text) == "testbed"]
        return read_testbed(self.testbed or FIRST_TESTBED, sets, KINDS)


@dataclass(frozen=True)
class Job:
    """One run, new or to be gone on with."""

    run_id: str
    plan: LoadedPlan
    testbed: LoadedTestbed
    known: Sequence[TrialRecord] = ()
    """Trials that are stored already."""
    stored_facts: Mapping[str, Any] | None = None
    """What it was begun on; None: it is new."""

    @property
    def is_new(self) -> bool:
        return self.stored_facts is None


def new_job(named: Named, *, as_json: bool = False) -> Job:
    """A run of what is named; a router that is named is looked at, and the user asked."""
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    plan = named.read_plan()
    if named.router is None:
        return Job(run_id, plan, named.read_testbed())
    from tunnelbench.cli import router  # noqa: PLC0415 # only this one way needs it

    testbed, picture = router.discovered(named.router, run_id)
    if named.save:
        router.keep(testbed.text, Path(named.save))
    router.confirm(picture, is_agreed=named.is_agreed, to_stderr=as_json)
    return Job(run_id, plan, testbed)


def resumed_job(store: Store, reference: str, named: Named) -> Job:
    """What is missing of a stored run. WrongInput, with the difference, where plan, testbed or machine have changed."""
    if named.overrides:
        raise WrongInput(
            "--set does not go with --resume: a run goes on as it began", "start a new run for other values"
        )
    run = store.run(reference)
    if run.status == "imported":
        raise WrongInput(f"run {run.run_id} was measured elsewhere: it cannot go on here", "start a run of your own")
    if named.plan is not None:
        refuse_change("plan", run.plan_text, named.read_plan().text)
    if named.testbed is not None:
        refuse_change("testbed", run.testbed_text, named.read_testbed().text)
    refuse_change("machine", _as_lines(run.host_facts), _as_lines(machine_facts()))
    plan = stored_plan(run.plan_name, run.plan_text, option_schemas(), PLANNED)
    testbed = stored_testbed(run.testbed_name, run.testbed_text, KINDS)
    return Job(run.run_id, plan, testbed, store.trials(run.run_id), run.host_facts)


FACTS_OF_HOSTS = ("guest", "router_", "client_", "server_")
"""How the names of facts of other machines begin."""

DRIFTING_FACTS = ("cpu_mhz", "memory_available_kib", "tmp_free_kib", "radio_tx_mbps", "radio_rx_mbps", "signal_dbm")
"""What differs between two looks at one machine: how the names of such facts end."""


def _as_lines(facts: Mapping[str, Any]) -> str:
    """All but what is said of other machines: that is known only once they were asked."""
    return "".join(
        f"{name}: {value}\n"
        for name, value in sorted(facts.items())
        if not name.endswith(DRIFTING_FACTS) and not name.startswith(FACTS_OF_HOSTS)
    )


def _lines_of_hosts(facts: Mapping[str, Any]) -> str:
    return "".join(
        f"{name}: {value}\n"
        for name, value in sorted(facts.items())
        if name.startswith(FACTS_OF_HOSTS) and not name.endswith(DRIFTING_FACTS)
    )


def refuse_change(what: str, before: str, now_is: str) -> None:
    """Raises WrongInput with the difference: figures of two plans, testbeds or machines do not belong in one run."""
    if before == now_is:
        return
    difference = difflib.unified_diff(
        before.splitlines(), now_is.splitlines(), f"{what} of the run", f"{what} now", lineterm="", n=0
    )
    raise WrongInput(
        f"the {what} has changed since the run began:\n" + "\n".join(difference),
        "start a new run, or put it back as it was",
    )


def carry_out(job: Job, store: Store, as_json: bool) -> None:
    """Measure what is to be measured; what was is kept however it ends, and the user is told."""
    progress = (
        Lines(job.plan.plan, to_stderr=as_json) if as_json or not sys.stdout.isatty() else LiveView(job.plan.plan)
    )
    progress.know(job.known)
    if not job.is_new:
        missing = progress.total - progress.done
        click.echo(f"run {job.run_id}: {progress.done} trials are there, {missing} are missing", err=as_json)
        if not missing:
            return
    try:
        measure(job, store, progress, as_json=as_json)
    except BaseException as error:
        say_what_is_kept(job.run_id, progress.done, store, error)
        raise


def measure(job: Job, store: Store, progress: Progress, *, as_json: bool) -> None:
    """Run the plan; the run's end, however it comes, is stored too."""
    folder = RUN_FOLDER / job.run_id
    spec = job.testbed.testbed
    refuse_what_a_router_cannot(job)
    if folder.exists():  # it was killed, and nobody has cleaned up
        with undisturbed():
            list(clean_run(job.run_id))
    for board in spec.boards:
        find_image(BOARDS[board], say)
    if spec.finds_cpu_share:
        spec = with_share(job, spec, folder, to_stderr=as_json)
    testbed = open_testbed(spec, job.run_id, folder)
    if spec.needs_guest and job.plan.plan.soak:
        raise WrongInput(
            f"testbed {spec.name}: a soak cannot run inside a guest yet",
            "leave [soak] out, or take a testbed of this kernel",
        )
    guest = guest_for(spec, job.run_id, folder) if spec.needs_guest else None
    facts = guest.facts if guest else look_at(testbed, folder)
    if job.stored_facts is None:
        store.begin_run(new_record(job, testbed, facts))
    else:
        what = "guest" if guest else "router"
        refuse_change(what, _lines_of_hosts(job.stored_facts), _lines_of_hosts(facts))
        store.resume_run(job.run_id)

    def keep(record: TrialRecord) -> None:
        store.add_trial(job.run_id, record)

    status = "failed"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        place = store.name if is_server(store.name) else str(Path(store.name).absolute())
        (folder / STORE_NAME).write_bytes(os.fsencode(place))
        with store.holding(job.run_id), progress.showing():
            keep_speed = partial(store.add_cipher_speed, job.run_id)
            speeds = [] if job.is_new else store.cipher_speeds(job.run_id)
            plan = job.plan.plan
            if guest:
                known = list(job.known)
                GuestRun(plan, spec, guest, job.run_id, folder, keep, progress, keep_speed, known, speeds).run()
            else:
                run_plan(
                    plan,
                    testbed,
                    keep,
                    progress,
                    job.known,
                    store_speed=keep_speed,
                    known_speeds=speeds,
                    journal=store.soaks(job.run_id),
                )
        status = "done"
    except (KeyboardInterrupt, SystemExit):
        status = "interrupted"
        raise
    finally:
        with undisturbed():
            note_end(job.run_id, store, status)
            shutil.rmtree(folder, ignore_errors=True)


def with_share(job: Job, spec: TestbedSpec, folder: Path, *, to_stderr: bool) -> TestbedSpec:
    """A testbed whose virtual router has the share of a CPU at which it is the limit: that of the run, or a new one."""
    from tunnelbench.share import brief, find_share  # noqa: PLC0415 # only virtual routers need it

    if job.stored_facts is not None:
        return replace(spec, cpu_share_percent=float(job.stored_facts["guest_cpu_share_percent"]))

    def open_at(percent: float) -> Testbed:
        testbed = open_testbed(replace(spec, cpu_share_percent=percent), job.run_id, folder)
        look_at(testbed, folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        return testbed

    say("tunnelbench: looking for the share of a CPU at which the virtual router is the limit of every tunnel")
    try:
        found = find_share(job.plan.plan, open_at, Lines(brief(job.plan.plan), to_stderr=to_stderr))
    finally:
        with undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
    say(f"tunnelbench: the virtual router gets {found.percent:g} % of a CPU: {found.reason}")
    return replace(spec, cpu_share_percent=found.percent)


def look_at(testbed: Testbed, folder: Path) -> Mapping[str, Any]:
    """What the testbed's own hosts are; nothing stays of a look that fails."""
    try:
        return testbed.look()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def refuse_what_a_router_cannot(job: Job) -> None:
    """Raises WrongInput for what cannot be measured on a testbed with a router of its own."""
    spec, plan = job.testbed.testbed, job.plan.plan
    if not KINDS[spec.kind].has_own_router:
        return
    if plan.soak:
        raise WrongInput(f"testbed {spec.name}: a soak cannot run on a router behind SSH yet", "leave [soak] out")


def guest_for(testbed: TestbedSpec, run_id: str, folder: Path) -> GuestKernel:
    """The guest that a testbed asks for; what it takes to find that out is deleted again where there is none."""
    if testbed.kernel == DEBIAN_KERNEL and cached_kernel() is None:
        say("tunnelbench: fetching Debian's kernel through apt, some 70 MB, and unpacking it into the cache")
    try:
        guest = choose_guest(testbed, run_id[-6:], folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    say(f"tunnelbench: booting kernel {guest.kernel.version} {guest.accelerator.words}")
    return guest


def note_end(run_id: str, store: Store, status: str) -> None:
    """Store how a run ended. Where that cannot be done it must not hide why the run ended."""
    try:
        store.end_run(run_id, status, now())
    except UserError as error:
        if status == "done":
            raise
        say(f"tunnelbench: {error.message}")
        say(f"hint: the store takes run {run_id} to be running; tunnelbench run --resume {run_id} mends that")


def new_record(job: Job, testbed: Testbed, guest_facts: Mapping[str, Any]) -> RunRecord:
    """What is stored of a run when it begins."""
    return RunRecord(
        run_id=job.run_id,
        started_at=now(),
        ended_at=None,
        status="running",
        plan_name=job.plan.plan.name,
        plan_title=job.plan.plan.title,
        plan_text=job.plan.text,
        testbed_name=job.testbed.testbed.name,
        testbed_text=job.testbed.text,
        host_facts={**machine_facts(), **guest_facts},
        trials_planned=len(job.plan.plan.calibrations()) + len(job.plan.plan.trials()),
        trials_recorded=0,
        tunnelbench_version=__version__,
        notes=testbed.notes,
    )


def say_what_is_kept(run_id: str, done: int, store: Store, error: BaseException) -> None:
    """After a run that ended early: what is there, how to see it and how to go on."""
    kept = [] if not done else ["1 trial is"] if done == 1 else [f"{done} trials are"]
    if has_soak(store, run_id):
        kept.append("what was measured of a soak is")
    if not kept:
        return
    ended = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "ended early"
    say(f"tunnelbench: run {run_id} {ended}; {' and '.join(kept)} kept in {store.name}")
    say(f"hint: tunnelbench report {run_id} shows them")
    say(f"hint: tunnelbench run --resume {run_id} does the rest")


def has_soak(store: Store, run_id: str) -> bool:
    """Whether a soak of the run has begun; a store that cannot be read must not hide why the run ended."""
    try:
        return bool(store.soaks(run_id).all())
    except UserError:
        return False
