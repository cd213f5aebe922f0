"""`tunnelbench site`: make a folder of web pages from exported runs and published results."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from hashlib import sha256
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import click

from tunnelbench.cli.common_options import emit
from tunnelbench.cli.run_files import exported_content, read_exported
from tunnelbench.cli.site_record import (
    Drawn,
    SiteRecord,
    basis_of,
    digest,
    read_record,
    settled,
    write_record,
)
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.input_files import read_regular
from tunnelbench.host.trust import KEPT_PERMISSIONS, held_for_writing, require_trusted_folder
from tunnelbench.model.errors import CannotHere, ExitCode, WrongInput
from tunnelbench.model.reference import Reference
from tunnelbench.model.text import counted, printable
from tunnelbench.reference import read_reference, reference_names, shipped_names
from tunnelbench.report.site.gather import DeviceFacts, GatheredRun, gathered
from tunnelbench.report.site.pages import other_pages, run_page

LIST = ".tunnelbench-site"
"""Name of the file that lists a site's files, one per line. TunnelBench never deletes other files in the folder."""
LARGEST_DEVICES_BYTES = 1_000_000
PAGE_NAMES = re.compile(
    r"(?:index|ranking)\.(?:html|json)|methodology\.html|compare\.html|assets/(?:charts\.js|site\.css|site\.js)"
    r"|(?:runs|devices|references)/[\w.-]+\.(?:html|json)",
    re.ASCII,
)
"""Names of files in a site."""

FEW = 8
"""Smallest number of runs for which pages are made by several processes."""

FOREIGN_NAMED = 3


@click.command()
@click.argument("folder")
@click.argument("files", nargs=-1)
@click.option("--devices", metavar="FILE", help="TOML file with price and watts of devices, by name.")
@click.option("--no-imported", is_flag=True, help="Leave out published results that you imported.")
def command(folder: str, files: tuple[str, ...], devices: str | None, *, no_imported: bool) -> None:
    """Make a web site in FOLDER from FILES of `tunnelbench export`, and from the published results, imported ones too.

    The site needs no server and no network. An existing site is replaced completely or not at all. A FOLDER with other
    files is refused. A folder among FILES stands for the runs in it that `tunnelbench contribute` wrote.
    """
    if "-" in files:
        raise WrongInput("a site cannot be made from standard input (-)", "write the exported run into a file")
    given = {} if devices is None else read_devices(devices)
    target = Path(folder)
    references = [read_reference(name) for name in (shipped_names if no_imported else reference_names)()]
    drawn = make_site(target, sorted(set(runs_in(files))), references, given)
    skipped = [each for each in drawn.values() if isinstance(each, str)]
    runs = runs_of(drawn)
    twice = len(drawn) - len(skipped) - len(runs)
    for name in sorted(given.keys() - {run.entry.device for run in runs}):
        say(f"{printable(str(devices))} names the device {printable(name)}, but no run was measured on it")
    for each in skipped:
        say(f"skipped: {each}")
    said = f"; left out because another file has the same run: {counted(twice, 'file')}" if twice else ""
    imported = sum(reference.is_imported for reference in references)
    of_user = f", {imported} of them imported" if imported else ""
    say(f"{counted(len(runs), 'run')}, {counted(len(references), 'published result')}{of_user}{said}")
    emit(f"{target / 'index.html'}\n")
    if skipped:
        sys.exit(ExitCode.CHECK_FAILED)


def make_site(
    target: Path, files: Sequence[str], references: Sequence[Reference], given: Mapping[str, DeviceFacts]
) -> dict[str, Drawn]:
    """Make a site, or those of its files anew that would change; returns what was drawn from each input."""
    basis = basis_of(references, given)
    record = read_record(target, basis)
    inputs = settled(files)
    known = record.unchanged(inputs)
    with explained(target):
        if known.keys() == set(files) == record.inputs.keys() and record.is_whole(target):
            require_own(target, target, record)
            return known
        with replaced(target, record) as draft:
            kept = {file: each for file, each in known.items() if isinstance(each, str) or draft.has(each)}
            missing = [file for file in files if file not in kept]
            found = kept | dict(zip(missing, draw_runs(draft.folder, missing), strict=True))
            drawn = {file: found[file] for file in files}
            runs = runs_of(drawn)
            if files and not runs:
                raise WrongInput(str(drawn[files[0]]), "no file is a run; nothing was changed")
            for each in kept.values():
                if isinstance(each, GatheredRun):
                    draft.keep(each.entry.page)
                    draft.keep(each.entry.data)
            for name, text in other_pages(runs, references, given):
                draft.put(name, text.encode())
    write_record(target, basis, inputs, drawn, draft.digests)
    return drawn


def runs_of(drawn: Mapping[str, Drawn]) -> list[GatheredRun]:
    """Return the runs, and a run that is in several files once."""
    return list({each.entry.run_id: each for each in drawn.values() if isinstance(each, GatheredRun)}.values())


def runs_in(files: Sequence[str]) -> Iterator[str]:
    """Yield the names of files; of a folder, those of its files DEVICE/RUN.json."""
    for file in files:
        if Path(file).is_dir():
            yield from (str(path) for path in sorted(Path(file).glob("*/*.json")))
        else:
            yield file


def draw_runs(draft: Path, files: Sequence[str]) -> list[GatheredRun | str]:
    """Read each file and write its run's page.

    Returns the data for the other pages in the order of the files, and the error in place of a file that is no run.
    """
    workers = min(len(os.sched_getaffinity(0)), -(-len(files) // FEW))
    if workers < 2 or not has_temporary_folder():  # the processes talk through a socket there
        return [draw_run(draft, file) for file in files]
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # `python -c` would take modules from the current folder, maybe another user's
    pool = ProcessPoolExecutor(workers, mp_context=get_context("forkserver"))
    try:
        return list(pool.map(draw_run, repeat(draft), files, chunksize=FEW))
    except BrokenProcessPool:
        hint = "look with `dmesg` if the memory was used up, and make the site of fewer files"
        raise CannotHere("a process that makes pages was killed; nothing was changed", hint) from None
    finally:
        pool.shutdown(cancel_futures=True)  # after an error in one file
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def has_temporary_folder() -> bool:
    """Return True if Python finds a folder for temporary files in which it can write."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return False
    return True


def draw_run(draft: Path, file: str) -> GatheredRun | str:
    """Write the page of a run and a copy of its file; returns the error if the file is no run."""
    try:
        found = read_exported(file)
        if found.run.is_simulated:
            return f"{printable(file)}: the run is simulated: nothing was measured"
        run = gathered(found)
        page = run_page(found).encode()
    except WrongInput as error:
        return error.message
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # Not a bug of the pages: they can always be made of what is measured.
        return f"{printable(file)}: no page can be made of its figures: {printable(str(error))}"
    write(draft, run.entry.page, page)
    write(draft, run.entry.data, exported_content(file))
    return run


def write(draft: Path, name: str, content: bytes) -> None:
    path = draft / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


class Draft:
    """A site that is being made: its files are new, or are taken from the site that it replaces."""

    def __init__(self, folder: Path, old: Path, record: SiteRecord) -> None:
        self.folder = folder
        self.digests: dict[str, str] = {}
        """Digests of the files that were taken over; in the end, those of all files."""
        self._old = old
        self._record = record

    def has(self, run: GatheredRun) -> bool:
        """Return True if the old site has the files of a run."""
        return all(self._record.is_intact(name, self._old / name) for name in (run.entry.page, run.entry.data))

    def keep(self, name: str) -> None:
        """Take an intact file from the old site. Two inputs with the same run have the same page."""
        if name in self.digests:
            return
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        try:
            path.hardlink_to(self._old / name)
        except OSError:  # the file system has no hard links, or an input with the same run was new
            shutil.copyfile(self._old / name, path)
        self.digests[name] = self._record.files[name].digest

    def put(self, name: str, content: bytes) -> None:
        """Write a file, or take it from the old site if it is there with the same content."""
        is_there = self._record.is_intact(name, self._old / name)
        if is_there and self._record.files[name].digest == sha256(content).hexdigest():
            self.keep(name)
        else:
            write(self.folder, name, content)


@contextmanager
def replaced(target: Path, record: SiteRecord) -> Iterator[Draft]:
    """Make a new folder, which replaces the target if the block succeeds and is deleted if it fails."""
    with held_for_writing(target) as place:
        require_trusted_folder(target.absolute(), "the folder", "name another folder; nothing was changed")
        yield from _replaced(place, target, record)


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Turn errors of the file system inside the block into CannotHere or WrongInput."""
    try:
        yield
    except OSError as error:
        raise _cannot(target, error) from None
    except RecursionError:
        hint = "name another folder; nothing was changed"
        raise WrongInput(f"{printable(str(target))} has too many folders inside each other", hint) from None


def _replaced(place: Path, target: Path, record: SiteRecord) -> Iterator[Draft]:
    """Do the work of `replaced`; `place` is a path of the target that another user cannot redirect with a link."""
    require_own(place, target, record)
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    old = draft.with_name(f"{draft.name}.old")
    try:
        made = Draft(draft, place, record)
        yield made
        names = {str(path.relative_to(draft)) for path in draft.rglob("*") if path.is_file()}
        made.digests.update((name, digest(draft / name)) for name in names - made.digests.keys())
        write(draft, LIST, "".join(sorted(f"{name} {each}\n" for name, each in made.digests.items())).encode())
        made.digests[LIST] = digest(draft / LIST)
        draft.chmod(place.stat().st_mode & KEPT_PERMISSIONS if place.exists() else 0o755)
        require_own(place, target, record)  # again: another program may have written there meanwhile
        if place.exists():
            place.rename(old)
        try:
            draft.rename(place)
        except OSError:
            if old.exists():
                old.rename(place)
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)


def require_own(place: Path, target: Path, record: SiteRecord) -> None:
    """Raise WrongInput if a place is not a folder, or contains files that are not part of a site.

    `target` is its name for messages. Files that are unchanged by its record are not read.
    """
    if not place.exists():
        return
    if place.is_symlink() or not place.is_dir():
        raise WrongInput(f"{printable(str(target))} is not a folder", "name an empty folder, or a new one")
    own = listed_files(place / LIST)
    paths = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_symlink() or not path.is_dir()}
    foreign = sorted(
        name for name, path in paths.items() if name not in own or own[name] not in ("", record.digest(name, path))
    )
    if foreign:
        named = ", ".join(printable(name) for name in foreign[:FOREIGN_NAMED])
        more = f" and {len(foreign) - FOREIGN_NAMED} more" if len(foreign) > FOREIGN_NAMED else ""
        message = f"{printable(str(target))} has files that are not part of a site: {named}{more}"
        raise WrongInput(message, "name an empty folder, or a new one; nothing was changed")


def listed_files(path: Path) -> dict[str, str]:
    """Return the files that the list of a site names, by name, with their digests; empty if there is no list.

    A list is not trusted: it may have come with a folder from elsewhere. It names only files of a site, and each counts
    only with the content that it had when the site was made.
    """
    if path.is_symlink() or not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    entries = dict(line.rpartition(" ")[::2] for line in lines)
    return {name: found for name, found in entries.items() if PAGE_NAMES.fullmatch(name) and found} | {LIST: ""}


def _cannot(target: Path, error: OSError) -> CannotHere:
    why = "its parent folder does not exist" if error.errno == errno.ENOENT else error.strerror or str(error)
    return CannotHere(f"{printable(str(target))} cannot be made: {why}", "name another folder; nothing was changed")


def read_devices(file: str) -> dict[str, DeviceFacts]:
    """Read facts of devices: a table for each, with the texts `price` and `watts`.

    Raises WrongInput for a file of any other content.
    """
    name = printable(file)
    try:
        tables = tomllib.loads(read_regular(file, LARGEST_DEVICES_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WrongInput(f"{name} cannot be read: {why}", 'such as: ["APU.1D"] price = "120 EUR"') from None
    found = {}
    for device, facts in tables.items():
        is_known = isinstance(facts, dict) and facts.keys() <= {"price", "watts"}
        if not is_known or not all(isinstance(value, str) for value in facts.values()):
            message = f"{name}: {printable(device)}: not a table with the texts price and watts"
            raise WrongInput(message, 'such as: ["APU.1D"] price = "120 EUR", watts = "6-12 W"')
        found[device] = DeviceFacts(**facts)
    return found
