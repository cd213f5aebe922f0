"""`tunnelbench clean`: remove what killed runs left behind, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import click

from tunnelbench.cli.here import RUN_FOLDER, left_runs, only_run_here
from tunnelbench.cli.output import emit_json, is_store_missing, json_option, open_store, store_option
from tunnelbench.host.command import undisturbed
from tunnelbench.model.errors import CannotHere
from tunnelbench.run import now
from tunnelbench.store import default_path
from tunnelbench.testbed.netns import left_namespaces, remove_namespace
from tunnelbench.tunnel import adapters


@click.command()
@store_option
@json_option
def command(store_location: str | None, as_json: bool) -> None:
    """Remove what killed runs left: processes, namespaces, keys and other files.

    What is ours is known by the folder that each run keeps in /run/tunnelbench; nothing else is touched.
    """
    if os.geteuid() != 0:
        raise CannotHere("only root can remove namespaces", "run it again as root, or with sudo")
    with only_run_here("clean"):
        removed = [{"run": run_id, "what": what} for run_id in left_runs() for what in clean_run(run_id)]
        ended = mark_as_killed(store_location)
    if as_json:
        emit_json({"removed": removed, "marked_as_killed": ended})
        return
    for entry in removed:
        click.echo(f"run {entry['run']}: removed {entry['what']}")
    for run_id in ended:
        click.echo(f"run {run_id}: killed; its trials are kept, and tunnelbench run --resume {run_id} does the rest")
    if not removed and not ended:
        click.echo("nothing of ours was left behind")


def clean_run(run_id: str) -> Iterator[str]:
    """Remove all that a run left; says what, thing by thing."""
    mark = run_id[-6:]
    with undisturbed():
        for namespace in left_namespaces(mark):
            pids = remove_namespace(namespace)
            yield f"namespace {namespace}" + (f" with {len(pids)} processes" if pids else "")
        for tunnel in adapters().values():
            for path in tunnel.left_files(mark):
                path.unlink(missing_ok=True)
                yield f"file {path}"
        folder = RUN_FOLDER / run_id
        shutil.rmtree(folder)
        yield f"folder {folder} with its keys and configurations"


def mark_as_killed(store_location: str | None) -> list[str]:
    """Note in the store that the runs which it takes to be under way are not; returns their ids."""
    place = store_location or default_path()
    if is_store_missing(place):
        return []
    with open_store(place) as store:
        stale = [run.run_id for run in store.runs() if run.status == "running"]
        for run_id in stale:
            store.end_run(run_id, "killed", now())
    return stale
