"""`tunnelbench site`: a folder of pages from exported runs and the published results that ship."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import click

from tunnelbench.cli.reading import exported_content, read_exported
from tunnelbench.cli.telling import say
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.text import counted, printable
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.site.gather import GatheredRun
from tunnelbench.report.site.pages import DeviceFacts, other_pages, run_page, summary

LIST = ".tunnelbench-site"
"""Names the files of a site, one a line: what is not in it is somebody else's."""

FEW = 8
"""So many runs are drawn before other processes have begun."""

FOREIGN_NAMED = 3


@click.command()
@click.argument("folder")
@click.argument("files", nargs=-1)
@click.option("--devices", metavar="FILE", help="TOML with price and watts of devices, by their names.")
def command(folder: str, files: tuple[str, ...], devices: str | None) -> None:
    """Make a site in FOLDER from FILES that `tunnelbench export` wrote, and from the published results that ship.

    It needs no server and asks no network. A site that is there is replaced as a whole, or stays as it is; a folder
    with other files in it is refused.
    """
    if "-" in files:
        raise WrongInput("-: a site is made of files", "write it into a file first")
    given = {} if devices is None else read_devices(devices)
    target = Path(folder)
    with replaced(target) as draft:
        runs = draw_runs(draft, sorted(set(files)))
        twice = len(runs) - len({run.entry.run_id for run in runs})
        runs = list({run.entry.run_id: run for run in runs}.values())
        references = [read_reference(name) for name in reference_names()]
        for name, text in other_pages(runs, references, given):
            write(draft, name, text.encode())
    for name in sorted(given.keys() - {run.entry.device for run in runs}):
        say(f"no run is of {printable(name)}, which {printable(str(devices))} names")
    said = f"; {twice} files hold a run that another one holds, too" if twice else ""
    say(f"{counted(len(runs), 'run')}, {counted(len(references), 'published result')}{said}")
    click.echo(str(target / "index.html"))


def draw_runs(draft: Path, files: Sequence[str]) -> list[GatheredRun]:
    """Read each file and write its run's page; what the other pages need of each, in the order of the files."""
    workers = min(len(os.sched_getaffinity(0)), -(-len(files) // FEW))
    if workers < 2:
        return [draw_run(draft, file) for file in files]
    pool = ProcessPoolExecutor(workers, mp_context=get_context("forkserver"))
    try:
        return list(pool.map(draw_run, repeat(draft), files, chunksize=FEW))
    finally:
        pool.shutdown(cancel_futures=True)  # one that is wrong ends it


def draw_run(draft: Path, file: str) -> GatheredRun:
    """Write the page of a run, and the file that it came in beside it."""
    found = read_exported(file)
    run = summary(found)
    write(draft, run.entry.page, run_page(found).encode())
    write(draft, run.entry.data, exported_content(file))
    return run


def write(draft: Path, name: str, content: bytes) -> None:
    path = draft / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """A folder that takes the target's place when the block has ended well, and vanishes when not."""
    try:
        require_own(target)
        place = target.resolve()
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise _cannot(target, error) from None
    old = draft.with_name(f"{draft.name}.old")
    try:
        yield draft
        names = sorted(str(path.relative_to(draft)) for path in draft.rglob("*") if path.is_file())
        write(draft, LIST, "".join(f"{name}\n" for name in names).encode())
        draft.chmod(place.stat().st_mode & 0o7777 if place.exists() else 0o755)
        require_own(target)  # somebody may have put something there meanwhile
        if place.exists():
            place.rename(old)
        try:
            draft.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise
    except OSError as error:
        raise _cannot(target, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)


def require_own(target: Path) -> None:
    """WrongInput where the target is no folder, or holds what no site of ours does."""
    if not target.exists():
        return
    if not target.is_dir():
        raise WrongInput(f"{printable(str(target))} is no folder", "name a folder that is empty, or none yet")
    listed = target / LIST
    own = set(listed.read_text(encoding="utf-8", errors="replace").splitlines()) | {LIST} if listed.is_file() else set()
    files = [str(path.relative_to(target)) for path in target.rglob("*") if path.is_symlink() or not path.is_dir()]
    foreign = sorted(name for name in files if name not in own)
    if foreign:
        named = ", ".join(printable(name) for name in foreign[:FOREIGN_NAMED])
        more = f" and {len(foreign) - FOREIGN_NAMED} more" if len(foreign) > FOREIGN_NAMED else ""
        message = f"{printable(str(target))} holds files that are no part of a site: {named}{more}"
        raise WrongInput(message, "name a folder that is empty, or none yet; nothing was changed")


def _cannot(target: Path, error: OSError) -> CannotHere:
    why = "there is no folder to make it in" if error.errno == errno.ENOENT else error.strerror or str(error)
    return CannotHere(f"{printable(str(target))} cannot be made: {why}", "name another folder; nothing was changed")


def read_devices(file: str) -> dict[str, DeviceFacts]:
    """What is known of devices: a table for each, with `price` and `watts` as texts. WrongInput where it is not so."""
    name = printable(file)
    try:
        tables = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"{name} cannot be read: {why}", 'such as: ["APU.1D"] price = "120 EUR"') from None
    found = {}
    for device, facts in tables.items():
        is_known = isinstance(facts, dict) and facts.keys() <= {"price", "watts"}
        if not is_known or not all(isinstance(value, str) for value in facts.values()):
            message = f"{name}: {printable(device)}: not a table of the texts price and watts"
            raise WrongInput(message, 'such as: ["APU.1D"] price = "120 EUR", watts = "6-12 W"')
        found[device] = DeviceFacts(**facts)
    return found
