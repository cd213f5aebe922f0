"""`tunnelbench run`: measure a plan on a testbed, and print the table of results."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tunnelbench import __version__
from tunnelbench.cli.availability import require_trusted_programs
from tunnelbench.cli.clean import clean_run, mark_left_runs, remove_rest
from tunnelbench.cli.command_log import is_verbose, log_options
from tunnelbench.cli.common_options import (
    emit,
    has_colour,
    is_server,
    json_option,
    open_store,
    store_option,
    terminal_width,
)
from tunnelbench.cli.completion import plan_names, run_names, testbed_names
from tunnelbench.cli.page_file import show_page
from tunnelbench.cli.plans import load_plan, plan_of_run
from tunnelbench.cli.progress import LiveView, PlainProgress, Progress
from tunnelbench.cli.published_progress import PublishedProgress
from tunnelbench.cli.run_lock import RUN_ID_PATTERN, STORE_NAME, left_runs, new_run_id, only_run_here
from tunnelbench.cli.soak_reports import soak_reports
from tunnelbench.cli.stderr_messages import say
from tunnelbench.cli.stored_results import StoredResults, say_what_is_kept
from tunnelbench.guest.kernel import cached_kernel
from tunnelbench.guest.session import GuestKernel, GuestRun, choose_guest
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import RUN_FOLDER, make_private
from tunnelbench.host.programs import require_programs
from tunnelbench.host.signals import AskedToEnd, undisturbed
from tunnelbench.host.trust import require_trusted
from tunnelbench.measure.clock_check import now
from tunnelbench.measure.request import RunRequest, RunSink
from tunnelbench.measure.version_watch import ACCEPT
from tunnelbench.model.errors import (
    CannotHere,
    ExitCode,
    KeptForDebugging,
    MeasuredElsewhere,
    StoreLost,
    UserError,
    WrongInput,
)
from tunnelbench.model.plan import CALIBRATION_KIND, Plan
from tunnelbench.model.result import NO_VALID_FIGURE, RUNNING, RunRecord, TrialRecord
from tunnelbench.model.shipped import DEFAULT_TESTBED, FIRST_PLAN
from tunnelbench.model.testbed import DEBIAN_KERNEL, HOST_KERNEL, TestbedSpec
from tunnelbench.model.text import counted, printable
from tunnelbench.plan import (
    LoadedPlan,
    LoadedTestbed,
    override_target,
    read_testbed,
    stored_testbed,
)
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.image import find_image
from tunnelbench.report.render import render
from tunnelbench.run import run_plan
from tunnelbench.store.store import Store
from tunnelbench.testbed import KINDS, open_testbed
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.place import acquire_place
from tunnelbench.traffic import engine
from tunnelbench.tunnel import virtual_router_packages


def checked_run_id(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Raises WrongInput for an id that `run` would not make."""
    if value is not None and not RUN_ID_PATTERN.fullmatch(value):
        raise WrongInput("--run-id: not the id of a run", "leave it out")
    return value


@click.command()
@click.argument("plan", required=False, shell_complete=plan_names)
@click.option(
    "--on", "testbed", metavar="TESTBED", shell_complete=testbed_names, help="Testbed to run on.  [default: netns]"
)
@click.option("--router", metavar="USER@HOST", help="Measure this router over SSH: find its cables, then ask.")
@click.option("--yes", "is_agreed", is_flag=True, help="With --router: start without asking.")
@click.option("--save", metavar="FILE", help="With --router: write the testbed file for next time.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a value (tcp.duration_s=2).")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=run_names,
    help="Measure the missing trials of a run; `last` is the latest.",
)
@click.option(ACCEPT, "accepts_versions", is_flag=True, help="With --resume: continue with programs of other versions.")
@click.option("--keep", is_flag=True, help="Stop at the first failed trial, and leave its namespaces and tunnel up.")
@click.option("--open", "opens_page", is_flag=True, help="Write the page of the run here, and open it in the browser.")
@click.option("--run-id", callback=checked_run_id, hidden=True, help="Id of the new run, which a job already has.")
@click.option("--wait", "waits", is_flag=True, help="Wait until no other run measures on this machine.")
@log_options
@store_option
@json_option
def command(
    resume: str | None,
    store_location: str | None,
    *,
    keep: bool,
    waits: bool,
    opens_page: bool,
    as_json: bool,
    **files: Any,
) -> None:
    """Measure PLAN (a name or a file; default: quick) and print the answer and a table.

    Each trial is stored when it ends. With --json the results go to standard output as JSON, the progress to standard
    error.
    """
    named = RunArguments(**files)
    named.check(is_resumed=resume is not None)
    leave_out_tuning()
    new = (
        new_job(named, as_json=as_json) if resume is None else None
    )  # before the store is made, so that a wrong file leaves no store
    # A simulated run disturbs no other run, and needs neither programs nor the rights of root.
    is_simulated = new.testbed.testbed.is_simulated if new else is_stored_simulation(resume, store_location)
    if not is_simulated:
        require_programs()
    with (
        nullcontext() if is_simulated else only_run_here(new.run_id if new else f"--resume {resume}", waits=waits),
        open_store(store_location, create=new is not None) as store,
    ):
        job = new or resumed_job(store, str(resume), named, has_lock=not is_simulated)
        carry_out(job, store, as_json, keep=keep)
        run, records, speeds = store.run(job.run_id), store.trials(job.run_id), store.cipher_speeds(job.run_id)
        soaks = soak_reports(store, job.run_id)
    stored = f"the run is stored: tunnelbench report {job.run_id} prints its table"
    if as_json:
        emit(render(run, records, "json", speeds=speeds, soaks=soaks), stored)
    else:
        text = render(
            run, records, "terminal", terminal_width(), colour=has_colour(), speeds=speeds, soaks=soaks, full=False
        )
        reading = " The commands above need the same --store." if store_location else ""
        emit(f"{text}Stored in {store.name}.{reading}\n", stored)
    if opens_page:
        show_page(run.run_id, render(run, records, "html", speeds=speeds, soaks=soaks))
    if not any(record.counts and record.spec.tunnel.kind != CALIBRATION_KIND for record in records):
        say(f"tunnelbench: {NO_VALID_FIGURE}; the warnings above give the reasons")
        sys.exit(ExitCode.CANNOT)


def is_stored_simulation(run_id: str | None, location: str | None) -> bool:
    """Return True if a run is stored and simulated; the id must be whole, so that it means one run for all time."""
    if run_id is None or not RUN_ID_PATTERN.fullmatch(run_id):
        return False
    with open_store(location, marks_killed=False) as store, suppress(WrongInput):
        return store.run(run_id).is_simulated
    return False


TUNING = ("OPENSSL_", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GLIBC_TUNABLES", "MALLOC_")
"""Starts of the names of environment variables that change the speed of programs."""


def leave_out_tuning() -> None:
    """Take variables out of the environment that would change the speed of the run's programs, and say so.

    A variable such as OPENSSL_ia32cap, which can switch AES instructions off, is in no report. Settings belong into the
    plan (`aes_instructions`).
    """
    for name in sorted(name for name in os.environ if name.startswith(TUNING)):
        del os.environ[name]
        say(f"tunnelbench: the run does not use {printable(name)}, which changes the speed of programs")


@dataclass(frozen=True)
class RunArguments:
    """The arguments of the command line."""

    plan: str | None
    testbed: str | None
    overrides: tuple[str, ...]
    router: str | None = None
    is_agreed: bool = False
    save: str | None = None
    accepts_versions: bool = False
    run_id: str | None = None

    def check(self, *, is_resumed: bool) -> None:
        """Raises WrongInput for arguments that exclude each other."""
        if self.router and self.testbed:
            raise WrongInput("--router and --on contradict each other: both name a testbed", "leave one of them out")
        if (self.is_agreed or self.save) and not self.router:
            raise WrongInput("--yes and --save go with --router", "leave them out, or name the router")
        if self.accepts_versions and not is_resumed:
            raise WrongInput(f"{ACCEPT} goes with --resume", "leave it out, or name the run")

    def read_plan(self, testbed: TestbedSpec) -> LoadedPlan:
        """Read the plan, or the default one, with the values of --set, for a testbed."""
        sets = [text for text in self.overrides if override_target(text) == "plan"]
        return load_plan(self.plan or FIRST_PLAN, sets, testbed)

    def read_testbed(self) -> LoadedTestbed:
        """Read the testbed, or the default one, with the values of --set."""
        sets = [text for text in self.overrides if override_target(text) == "testbed"]
        return read_testbed(self.testbed or DEFAULT_TESTBED, KINDS, sets)


@dataclass(frozen=True)
class RunJob:
    """One run, new or resumed."""

    run_id: str
    plan: LoadedPlan
    testbed: LoadedTestbed
    known: Sequence[TrialRecord] = ()
    """Trials of the run that are already stored."""
    stored_facts: Mapping[str, Any] | None = None
    """Facts of the machines at the start of the run; None if the run is new."""
    accepts_versions: bool = False
    """True if a resumed run may continue with programs of other versions."""

    @property
    def is_new(self) -> bool:
        return self.stored_facts is None


def new_job(named: RunArguments, *, as_json: bool = False) -> RunJob:
    """Return the description of a new run. With --router, examine the router and ask the user for consent first."""
    run_id = named.run_id or new_run_id()
    if named.router is None:
        testbed = named.read_testbed()
        return RunJob(run_id, named.read_plan(testbed.testbed), testbed)
    from tunnelbench.cli import router_setup  # noqa: PLC0415 # only --router needs it

    plan = named.read_plan(TestbedSpec(router_setup.ROUTER_TESTBED, "ssh"))
    testbed, picture = router_setup.discovered(named.router, run_id)
    if named.save:
        router_setup.keep(testbed.text, Path(named.save))
    router_setup.confirm(picture, is_agreed=named.is_agreed, to_stderr=as_json)
    return RunJob(run_id, plan, testbed)


def resumed_job(store: Store, reference: str, named: RunArguments, *, has_lock: bool = True) -> RunJob:
    """Return the missing part of a stored run. Raises WrongInput, with the difference, if an input has changed.

    With the run lock, which only a simulated run does without, a run that was killed is marked first, so that `last`
    can mean it.
    """
    if named.overrides:
        raise WrongInput(
            "--set does not go with --resume: a resumed run keeps its values", "start a new run for other values"
        )
    if has_lock:
        mark_left_runs(store, left_runs())
    run = store.run(reference)
    if run.status == "imported":
        raise WrongInput(
            f"run {run.run_id} was measured on another machine: resume it there", "start a new run on this machine"
        )
    with store.holding(run.run_id):
        pass  # if another process measures it, that is the reason, and not that this machine is another one
    testbed = stored_testbed(run.testbed_name, run.testbed_text, KINDS)
    if not has_lock and not testbed.testbed.is_simulated:  # each user who may store results may have stored its facts
        raise WrongInput(
            f"run {run.run_id} is stored as simulated, and its testbed is not", "start a new run on this testbed"
        )
    if named.plan is not None:
        refuse_change("plan", run.plan_text, named.read_plan(testbed.testbed).text)
    if named.testbed is not None:
        refuse_change("testbed", run.testbed_text, named.read_testbed().text)
    if run.tunnelbench_version != __version__ and not named.accepts_versions:
        raise WrongInput(
            f"run {run.run_id} began with TunnelBench {run.tunnelbench_version}, and this is {__version__}",
            f"use the earlier version, start a new run, or add {ACCEPT}: the new trials are then doubtful",
        )
    if not testbed.testbed.is_simulated:
        refuse_change("machine", _as_lines(run.host_facts), _as_lines(machine_facts()))
    plan = plan_of_run(run)
    known = store.trials(run.run_id)
    return RunJob(run.run_id, plan, testbed, known, run.host_facts, named.accepts_versions)


FACTS_OF_HOSTS = ("guest", "router_", "gateway_", "client_", "server_")
"""Prefixes of the names of facts about other machines."""

DRIFTING_FACTS = ("cpu_mhz", "memory_available_kib", "tmp_free_kib", "radio_tx_mbps", "radio_rx_mbps", "signal_dbm")
"""Suffixes of the names of facts that change between two readings of the same machine."""


def _as_lines(facts: Mapping[str, Any], *, of_hosts: bool = False) -> str:
    """Return the facts of this machine, or those of the others, which are known only after they were asked."""
    return "".join(
        f"{name}: {value}\n"
        for name, value in sorted(facts.items())
        if name.startswith(FACTS_OF_HOSTS) == of_hosts and not name.endswith(DRIFTING_FACTS)
    )


def refuse_change(what: str, before: str, now_is: str) -> None:
    """Raises WrongInput with the difference: one run must not mix figures of two plans, testbeds or machines."""
    if before == now_is:
        return
    difference = difflib.unified_diff(
        before.splitlines(), now_is.splitlines(), f"{what} of the run", f"{what} now", lineterm="", n=0
    )
    raise WrongInput(
        f"the {what} has changed since the run began:\n" + "\n".join(difference),
        "start a new run, or undo the change",
    )


def carry_out(job: RunJob, store: Store, as_json: bool, *, keep: bool = False) -> None:
    """Measure the missing trials. If the run ends early, its trials stay in the store, and the user gets a message."""
    progress = (
        PlainProgress(job.plan.plan, to_stderr=as_json)
        if as_json or not sys.stdout.isatty() or is_verbose()
        else LiveView(job.plan.plan)
    )
    progress.know(job.known)
    known = progress.done
    if not job.is_new:
        missing = progress.total - progress.done
        say(f"run {job.run_id}: {counted(progress.done, 'trial')} stored, {missing} missing", err=as_json)
        if not missing:
            return
    try:
        measure(job, store, progress, keep=keep)
    except StoreLost:
        raise
    except BaseException as error:
        if isinstance(error, AskedToEnd):
            end_interrupted(job.run_id, store)
        if not isinstance(error, MeasuredElsewhere) or progress.done > known:
            say_what_is_kept(job.run_id, progress.done, store, error)
        raise


def measure(job: RunJob, store: Store, progress: Progress, *, keep: bool) -> None:
    """Prepare the testbed, lock the run, and measure it."""
    folder = RUN_FOLDER / job.run_id
    spec = job.testbed.testbed
    if keep and (spec.needs_guest or not KINDS[spec.kind].can_stay_up):
        message = f"testbed {spec.name}: --keep needs a testbed of namespaces on this machine's kernel"
        raise WrongInput(message, "leave --keep out: on a router or guest, changes are always undone")
    if spec.is_simulated:
        simulate(job, store, progress)
        return
    require_trusted_files(job.plan.plan, spec)
    make_private(RUN_FOLDER)
    if folder.exists():  # the run was killed, and its files are left
        with undisturbed:
            list(clean_run(job.run_id))
    for board in spec.boards:
        find_image(BOARDS[board], virtual_router_packages(), say)
    is_kept = False
    try:
        spec = acquire_place(spec, job.run_id, folder, say)
        testbed = open_testbed(spec, job.run_id, folder)
        guest = guest_for(spec, job.run_id, folder) if spec.needs_guest else None
        facts = guest.facts if guest else testbed.look()
        with store.holding(job.run_id):  # before the run is listed as running
            if job.stored_facts is None:
                store.begin_run(new_record(job, testbed, facts))
            else:
                what = "guest" if guest else "router"
                refuse_change(what, _as_lines(job.stored_facts, of_hosts=True), _as_lines(facts, of_hosts=True))
                store.resume_run(job.run_id)
            measure_locked(job, store, progress, testbed, guest, keep=keep)
    except KeptForDebugging:
        is_kept = True
        raise
    finally:
        if not is_kept:
            remove_rest(job.run_id)


def simulate(job: RunJob, store: Store, progress: Progress) -> None:
    """Draw the missing trials of a simulated run. It makes no folder, namespace or device."""
    testbed = open_testbed(job.testbed.testbed, job.run_id, RUN_FOLDER / job.run_id)
    with store.holding(job.run_id):
        if job.is_new:
            store.begin_run(new_record(job, testbed, testbed.look()))
        else:
            store.resume_run(job.run_id)
        run = store.run(job.run_id)
        request = RunRequest(job.plan.plan, testbed, job.known)
        observer = PublishedProgress(progress, store.progress(job.run_id))
        with StoredResults(store, run, [*job.known]) as results, progress.showing(), observer.publishing():
            run_plan(request, RunSink(results, observer))


def measure_locked(
    job: RunJob, store: Store, progress: Progress, testbed: Testbed, guest: GuestKernel | None, *, keep: bool
) -> None:
    """Measure a run that is stored and locked, and store its end status in any case."""
    speeds = [] if job.is_new else store.cipher_speeds(job.run_id)
    run = store.run(job.run_id)
    versions = run.tunnelbench_version, job.accepts_versions
    request = RunRequest(job.plan.plan, testbed, job.known, speeds, *versions, keep)
    results = StoredResults(store, run, [*job.known], [*speeds])
    observer = PublishedProgress(progress, store.progress(job.run_id))
    sink = RunSink(results, observer)
    folder = RUN_FOLDER / job.run_id
    with results:
        folder.mkdir(mode=0o700, exist_ok=True)
        place = store.name if is_server(store.name) else str(Path(store.name).absolute())
        (folder / STORE_NAME).write_bytes(os.fsencode(place))
        try:
            with progress.showing(), observer.publishing():
                if guest:
                    GuestRun(guest, request, sink).run()
                else:
                    run_plan(request, sink)
        except (FileNotFoundError, CannotHere) as error:
            if folder.exists() or isinstance(error, StoreLost):
                raise
            raise CannotHere(
                f"{folder}, which holds the files of the run, was deleted while it was measured",
                "end a run with Ctrl-C; tunnelbench clean removes what killed runs left",
            ) from error


def require_trusted_files(plan: Plan, spec: TestbedSpec) -> None:
    """Raises CannotHere if root would use a program, a kernel or an engine that another user could change."""
    require_trusted_programs(plan.tunnels)
    if spec.kernel not in (HOST_KERNEL, DEBIAN_KERNEL):
        require_trusted(spec.kernel, "the kernel")
    if plan.udp or plan.soak or plan.connections:
        require_trusted(engine.locate(), "the packet engine")


def end_interrupted(run_id: str, store: Store) -> None:
    """Remove what a signal between two steps has left, such as a namespace that was made and not noted yet."""
    remove_rest(run_id)
    with suppress(UserError):  # `clean` marks it later
        if any(run.run_id == run_id and run.status == RUNNING for run in store.runs(only=[run_id])):
            store.end_run(run_id, "interrupted", now())


def guest_for(testbed: TestbedSpec, run_id: str, folder: Path) -> GuestKernel:
    """Return the guest kernel for a testbed."""
    if testbed.kernel == DEBIAN_KERNEL and cached_kernel() is None:
        say("tunnelbench: fetching Debian's kernel through apt, some 70 MB, and unpacking it into the cache")
    guest = choose_guest(testbed, run_id[-6:], folder)
    say(f"tunnelbench: booting kernel {guest.kernel.version} {guest.accelerator.words}")
    return guest


def new_record(job: RunJob, testbed: Testbed, guest_facts: Mapping[str, Any]) -> RunRecord:
    """Return the record of a new run at its start."""
    return RunRecord(
        run_id=job.run_id,
        started_at=now(),
        ended_at=None,
        status=RUNNING,
        plan_name=job.plan.plan.name,
        plan_title=job.plan.plan.title,
        plan_text=job.plan.text,
        testbed_name=job.testbed.testbed.name,
        testbed_text=job.testbed.text,
        host_facts=guest_facts if testbed.spec.is_simulated else {**machine_facts(), **guest_facts},
        trials_planned=len(job.plan.plan.every_trial()),
        trials_recorded=0,
        tunnelbench_version=__version__,
        notes=testbed.notes,
    )
