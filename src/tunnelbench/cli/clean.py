"""`tunnelbench clean`: remove what killed runs left behind, and nothing else."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence

import click

from tunnelbench.cli.here import STORE_NAME, left_runs, only_run_here
from tunnelbench.cli.output import emit_json, is_server, is_store_missing, json_option, open_store, store_option
from tunnelbench.guest.machine import left_guests
from tunnelbench.host.command import undisturbed
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.host.lent import LentHost
from tunnelbench.host.ssh import left_sockets
from tunnelbench.model.errors import CannotHere, UserError
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import read_testbed
from tunnelbench.qemu.machine import left_machines
from tunnelbench.qemu.quota import left_groups, remove_group
from tunnelbench.run import now
from tunnelbench.store import default_path
from tunnelbench.testbed import KINDS, open_testbed
from tunnelbench.testbed.changes import Changes
from tunnelbench.testbed.netns import left_namespaces, remove_namespace
from tunnelbench.testbed.ssh import SshTestbed
from tunnelbench.tunnel import adapters

BLANKED = ":***@"
"""What stands in a server's URL where its password was."""


@click.command()
@click.option("--on", "testbed", metavar="TESTBED", help="Also put back what runs have left on its router.")
@store_option
@json_option
def command(testbed: str | None, store_location: str | None, as_json: bool) -> None:
    """Remove what killed runs left: processes, namespaces, keys and other files.

    What is ours is known by the folder that each run keeps in /run/tunnelbench; nothing else is touched. A router puts
    everything back by itself, soon after the trial that was under way; --on does it at once, whoever uses it.
    """
    spec = read_testbed(testbed, (), KINDS).testbed if testbed else None
    if os.geteuid() != 0:
        raise CannotHere("only root can remove namespaces", "run it again as root, or with sudo")
    with only_run_here("clean"):
        runs = left_runs()
        stores = {store_location or str(default_path()), *(name for run_id in runs if (name := store_of(run_id)))}
        removed = [{"run": run_id, "what": what} for run_id in runs for what in clean_run(run_id)]
        ended, faults = [], []
        for place in sorted(stores):
            try:
                ended += mark_as_killed(place, runs)
            except UserError as error:  # no reason to leave anything on the machine
                faults.append(error)
        for run_id in runs:
            shutil.rmtree(RUN_FOLDER / run_id)
        put_back = list(clean_hosts(spec)) if spec else []
    if as_json:
        emit_json({"removed": removed, "marked_as_killed": ended, "put_back": put_back})
    else:
        tell(removed, ended, put_back)
    if faults:
        raise faults[0]


def clean_hosts(spec: TestbedSpec) -> Iterator[str]:
    """Put back what any run has left on the hosts of a testbed that are reached by SSH; says what, host by host."""
    name = f"clean-{secrets.token_hex(3)}"
    folder = RUN_FOLDER / name
    testbed = open_testbed(spec, name, folder)
    try:
        for host in testbed.lent if isinstance(testbed, SshTestbed) and spec.router else ():
            with LentHost(host.name, host.access, f"{name}-{host.name}", host.log_folder, testbed.local) as there:
                yield f"{host.name} {host.access.host}: {there.put_back()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell(removed: Sequence[Mapping[str, str]], ended: Sequence[str], put_back: Sequence[str]) -> None:
    """What was done, for people."""
    for entry in removed:
        click.echo(f"run {entry['run']}: removed {entry['what']}")
    for run_id in ended:
        click.echo(f"run {run_id}: killed; its trials are kept, and tunnelbench run --resume {run_id} does the rest")
    for line in put_back:
        click.echo(line)
    if not removed and not ended and not put_back:
        click.echo("nothing of ours was left behind")


def clean_run(run_id: str) -> Iterator[str]:
    """Remove all that a run left but the folder with the name of its store; says what, thing by thing.

    That folder is the mark by which the rest is known, so it goes last: cleaning up can be killed, too.
    """
    mark = run_id[-6:]
    with undisturbed():
        yield from _end_machines(mark)
        if changes := Changes(RUN_FOLDER / run_id).undo_all():
            yield f"{changes} change{'s' * (changes != 1)} of this machine's network"
        for folder in left_sockets(mark):
            shutil.rmtree(folder)
            yield f"folder {folder}"
        for namespace in left_namespaces(mark):
            pids = remove_namespace(namespace)
            yield f"namespace {namespace}" + (f" with {len(pids)} processes" if pids else "")
        for tunnel in adapters().values():
            for path in tunnel.left_files(mark):
                path.unlink(missing_ok=True)
                yield f"file {path}"
        folder = RUN_FOLDER / run_id
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != STORE_NAME:
                entry.unlink()
        yield f"folder {folder} with its keys and configurations"


def _end_machines(mark: str) -> Iterator[str]:
    """End what QEMU runs of a run, and remove what held it to a share of a CPU."""
    for what, pids in (("guest", left_guests(mark)), ("virtual router", left_machines(mark))):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            yield f"{what}, process {pid}"
    for group in left_groups(mark):
        remove_group(group)
        yield f"control group {group}"


def store_of(run_id: str) -> str:
    """The store that a run was writing to; empty where it did not come to that, or where a password is needed that
    nobody keeps."""
    try:
        name = os.fsdecode((RUN_FOLDER / run_id / STORE_NAME).read_bytes())
    except OSError:
        return ""
    return "" if BLANKED in name else name


def mark_as_killed(place: str, left: Sequence[str]) -> list[str]:
    """Note in a store that the runs which it takes to be under way are not; returns their ids.

    On a server, runs of other machines may well be under way: only those that were left here are meant.
    """
    if is_store_missing(place):
        return []
    with open_store(place) as store:
        running = [run.run_id for run in store.runs() if run.status == "running"]
        stale = [run_id for run_id in running if run_id in left or not is_server(place)]
        for run_id in stale:
            store.end_run(run_id, "killed", now())
    return stale
