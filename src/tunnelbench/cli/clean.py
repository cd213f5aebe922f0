"""`tunnelbench clean`: remove the processes, namespaces and files of killed runs and of runs with --keep."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from tunnelbench.cli.command_log import log_options
from tunnelbench.cli.common_options import (
    emit,
    emit_json,
    forged,
    is_server,
    is_store_missing,
    json_option,
    open_store,
    store_option,
)
from tunnelbench.cli.run_lock import STORE_NAME, left_runs, only_run_here, remove_run_folder
from tunnelbench.cli.stderr_messages import say
from tunnelbench.guest.machine import left_guests
from tunnelbench.host.command import remove_tree
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.host.namespace import left_namespaces, remove_namespace
from tunnelbench.host.parsing import UNREADABLE
from tunnelbench.host.signals import undisturbed
from tunnelbench.host.ssh import left_sockets
from tunnelbench.measure.clock_check import now
from tunnelbench.model.errors import CannotHere, UserError
from tunnelbench.model.result import RUNNING
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.model.text import printable
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.machine import left_machines
from tunnelbench.store.location import default_path
from tunnelbench.testbed import KINDS, open_testbed
from tunnelbench.testbed.place import place_held, release_place
from tunnelbench.testbed.undo_journal import UndoJournal
from tunnelbench.tunnel import adapters

if TYPE_CHECKING:
    from tunnelbench.store.store import Store

BLANKED = ":***@"
"""Text that replaces the password in a server's URL."""


@click.command()
@click.option("--on", "testbed", metavar="TESTBED", help="Also undo what runs left on its router.")
@log_options
@store_option
@json_option
def command(testbed: str | None, store_location: str | None, as_json: bool) -> None:
    """Remove what killed runs, and runs with --keep, left: processes, namespaces, keys and other files.

    Each run has a folder in /run/tunnelbench, and `clean` touches nothing that does not belong to one of these runs. A
    router undoes all changes by itself soon after the interrupted trial. --on does that now, even if another machine is
    using the router.
    """
    spec = read_testbed(testbed, KINDS).testbed if testbed else None
    if os.geteuid() != 0:
        raise CannotHere("only root can remove namespaces", "run it again as root, or with sudo")
    with only_run_here("clean"):
        runs = left_runs()
        stores = {store_location or str(default_path()), *(name for run_id in runs if (name := store_of(run_id)))}
        removed: list[dict[str, str]] = []
        ended: list[str] = []
        faults: list[UserError] = []
        cleaned: list[str] = []
        put_back: list[str] = []
        has_place = spec is not None and spec.place is not None
        if spec and has_place:  # now, while a run that was killed still has it: nobody else can use the router yet
            with gathering(faults):
                put_back += clean_hosts(spec)
        for run_id in runs:
            with gathering(faults):
                removed.extend({"run": run_id, "what": what} for what in clean_run(run_id))
                cleaned.append(run_id)
        for place in sorted(stores):
            with gathering(faults):
                ended += mark_as_killed(place, runs)
        for run_id in cleaned:  # another one keeps its folder, by which the next `clean` finds the rest
            with gathering(faults):
                remove_run_folder(RUN_FOLDER / run_id)
        if spec and not has_place:
            put_back += clean_hosts(spec)
    if as_json:
        emit_json({"removed": removed, "marked_as_killed": ended, "put_back": put_back})
    else:
        report(removed, ended, put_back, is_complete=not faults)
    for fault in faults[1:]:
        say(f"tunnelbench: {fault.message}")
    if faults:
        raise faults[0]


@contextmanager
def gathering(faults: list[UserError]) -> Iterator[None]:
    """Add an error to a list that has no such error yet: the rest is cleaned all the same."""
    try:
        yield
    except UserError as error:
        found = error
    except OSError as error:
        found = CannotHere(f"{printable(os.fsdecode(error.filename or 'a file'))}: {error.strerror}")
    else:
        return
    if found.message not in {fault.message for fault in faults}:
        faults.append(found)


def clean_hosts(spec: TestbedSpec) -> Iterator[str]:
    """Undo the changes of all runs on the hosts of a testbed behind SSH; yields one line for each host.

    A place of labgrid is held meanwhile, and is released even if a run that was killed had acquired it.
    """
    name = f"clean-{secrets.token_hex(3)}"
    folder = RUN_FOLDER / name
    try:
        with place_held(spec, name, folder, adopts=True) as held:
            testbed = open_testbed(held, name, folder)
            for host in testbed.permanent_hosts:
                with host.visit(f"{name}-{host.name}", testbed.local) as there:
                    yield f"{host.name} {host.access.host}: {there.put_back()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(
    removed: Sequence[Mapping[str, str]], ended: Sequence[str], put_back: Sequence[str], *, is_complete: bool
) -> None:
    """Print the removed items, the ended runs and the restored hosts."""
    kept = "killed; its trials are kept; tunnelbench run --resume"
    lines = [
        *(f"run {entry['run']}: removed {entry['what']}" for entry in removed),
        *(f"run {run_id}: {kept} {run_id} measures the rest" for run_id in ended),
        *put_back,
    ]
    nothing = ["no run has left anything behind"] if is_complete else []
    emit("".join(f"{line}\n" for line in lines or nothing))


def clean_run(run_id: str) -> Iterator[str]:
    """Remove everything of a run except its folder with the name of its store; yields a text for each removed item.

    The caller removes the folder last, because the folder identifies the rest if `clean` itself is killed. Raises
    UserError if something cannot be removed: the folder then stays as it is.
    """
    mark, folder = run_id[-6:], RUN_FOLDER / run_id
    faults: list[UserError] = []
    with undisturbed:
        yield from _end_machines(mark)
        # A link is deleted and not followed: a journal elsewhere is not this run's.
        if folder.is_dir() and not folder.is_symlink():
            with gathering(faults):
                if changes := UndoJournal(folder).undo_all():
                    yield f"{changes} change{'s' * (changes != 1)} of this machine's network"
            with gathering(faults):
                if place := release_place(folder):
                    yield f"the hold on the place {place} of labgrid"
        for sockets in left_sockets(mark):
            remove_tree(sockets, ignore_errors=True)  # another user may have made it, and mounted something in it
            if not sockets.exists():
                yield f"folder {sockets}"
        yield from _remove_namespaces(mark, faults)
        for tunnel in adapters().values():
            with gathering(faults):
                for path in tunnel.left_files(mark):
                    path.unlink(missing_ok=True)
                    yield f"file {path}"
        if faults:
            raise faults[0]
        if folder.is_symlink() or folder.exists():
            remove_run_folder(folder, keep=STORE_NAME)
            yield f"folder {folder} with its keys and configurations"


def remove_rest(run_id: str) -> None:
    """Remove what a run has left although it was taken down, and its folder.

    If something cannot be removed, the folder stays, so that `clean` finds the rest, and the user gets a message.
    """
    with undisturbed:
        faults: list[UserError] = []
        with gathering(faults):
            list(clean_run(run_id))
            remove_run_folder(RUN_FOLDER / run_id)
        for fault in faults:
            say(f"tunnelbench: run {run_id} leaves something behind: {fault.message}")
            say("hint: tunnelbench clean removes it when the cause is gone")


def _remove_namespaces(mark: str, faults: list[UserError]) -> Iterator[str]:
    """Remove the namespaces of a run with their processes; yields a text for each."""
    with gathering(faults):
        for namespace in left_namespaces(mark):
            with gathering(faults):
                pids = remove_namespace(namespace)
                yield f"namespace {namespace}" + (f" with {len(pids)} processes" if pids else "")


def _end_machines(mark: str) -> Iterator[str]:
    """End a run's virtual machines."""
    for what, pids in (("guest", left_guests(mark)), ("virtual router", left_machines(mark))):
        for pid in pids:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
            yield f"{what}, process {pid}"


LONGEST_NAME_BYTES = 4096
"""Longest path or URL of a store that is read; a path of Linux has at most as many bytes (PATH_MAX)."""


def store_of(run_id: str) -> str:
    """Return the path or URL of a run's store; empty if the run had none yet, or if the store needs a password."""
    try:
        folder = RUN_FOLDER / run_id
        if folder.is_symlink() or not (folder / STORE_NAME).is_file():  # a FIFO would never end
            return ""
        with (folder / STORE_NAME).open("rb") as file:
            name = os.fsdecode(file.read(LONGEST_NAME_BYTES))
    except OSError:
        return ""
    return "" if BLANKED in name else name


def mark_as_killed(place: str, left: Sequence[str]) -> list[str]:
    """Mark runs as killed that a store lists as running although they have ended; returns their ids.

    Simulated runs of this machine, and on a server runs of other machines, may still be running: they hold their lock.
    """
    if is_store_missing(place):
        return []
    try:
        with open_store(place, marks_killed=False) as store:
            return mark_left_runs(store, left)
    except UNREADABLE as error:  # `clean` removes the rest whatever a store holds
        raise forged("a store on a server" if is_server(place) else place, error) from error  # a URL has a password


def mark_left_runs(store: Store, left: Sequence[str]) -> list[str]:
    """Mark the running runs whose lock nobody holds as killed; returns their ids. The caller has the run lock.

    `left` has the ids of the runs that have a folder on this machine: a server may not have noticed their end yet.
    """
    abandoned = store.mark_abandoned(now())
    stale: list[str] = []
    if is_server(store.name):
        stale = [run.run_id for run in store.runs(only=left) if run.status == RUNNING]
        for run_id in stale:
            store.end_run(run_id, "killed", now())
    return abandoned + stale
