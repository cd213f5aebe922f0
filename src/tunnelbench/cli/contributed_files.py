"""Checks files of the folder `results/`, which may come from anybody: their places, and the runs in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tunnelbench.cli.plans import planned_trials
from tunnelbench.cli.run_files import file_content
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.reference import read_reference, shipped_names
from tunnelbench.report.contribution.judge import LARGEST_FILE_BYTES, figures_digests, names_left, objections
from tunnelbench.report.contribution.place import READ_ME, RESULTS, file_of
from tunnelbench.report.contribution.published import Highest, highest_published
from tunnelbench.report.exchange import read
from tunnelbench.tunnel import compresses, encrypts

MOST_FILES = 20_000
"""Largest number of files and folders that are checked at once."""

Refused = tuple[str, Sequence[str]]
"""A path, and the reasons why it is refused."""


def check_files(paths: Sequence[Path]) -> tuple[int, list[Refused]]:
    """Check files and folders. Returns the number of files, and the refused ones with their reasons."""
    refused: list[Refused] = []
    seen: dict[str, str] = {}
    highest = shipped_highest()
    checked = 0
    for path, why in _places(paths):
        if not why:
            checked += 1
        reasons = [why] if why else _of_file(path, seen, highest)
        if reasons:
            refused.append((str(path), reasons))
    return checked, refused


def changed_files(paths: Sequence[Path], published: Path) -> list[Refused]:
    """Return the published files that a folder among `paths` changes or lacks: only a maintainer does that."""
    found: list[Refused] = []
    folders = [path for path in paths if path.is_dir()]
    for path, why in _places([published]):
        for folder in folders if not why else ():
            same = folder / path.relative_to(published)
            if not same.is_file() or same.is_symlink():
                found.append((str(same), ["it removes a published result: a maintainer does that"]))
            elif _content(same) != _content(path):
                found.append((str(same), ["it changes a published result: contribute the new run beside it"]))
    return found


def shipped_highest() -> Highest:
    """Return the highest shipped throughput of each device and kind of tunnel."""
    return highest_published(map(read_reference, shipped_names()))


def _places(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each file below the paths, with the reason why it cannot be a contributed run; empty if it can."""
    count = 0
    for path in paths:
        for each in _of_folder(path) if path.is_dir() and not path.is_symlink() else [(path, _fault(path))]:
            count += 1
            if count > MOST_FILES:
                raise WrongInput(f"there are more than {MOST_FILES} files", "check fewer files at once")
            yield each


def _of_folder(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder of results with their faults; only folders of devices may stand in it."""
    for device in _entries(results):
        path = results / device.name
        if device.name == READ_ME and device.is_file(follow_symlinks=False):
            continue
        if not device.is_dir(follow_symlinks=False):
            yield path, f"only {READ_ME} and folders of devices stand in {RESULTS}"
            continue
        yield from ((path / entry.name, _fault(path / entry.name)) for entry in _entries(path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        message = f"{printable(str(folder))} cannot be read: {error.strerror}"
        raise WrongInput(message, f"name the folder {RESULTS} of a clone") from None


def _fault(path: Path) -> str:
    """Return why a path is no file that can be read; empty if it can."""
    try:
        found = path.lstat()
    except (OSError, ValueError) as error:
        return f"it cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    if stat.S_ISLNK(found.st_mode):
        return "it is a link: only regular files are accepted"
    if not stat.S_ISREG(found.st_mode):
        return f"it is no regular file: a contributed run is {RESULTS}/DEVICE/RUN.json"
    if path.suffix != ".json":
        return f"it is no JSON file: a contributed run is {RESULTS}/DEVICE/RUN.json"
    if found.st_size > LARGEST_FILE_BYTES:
        return f"it is too large: {found.st_size} bytes, at most {LARGEST_FILE_BYTES} are accepted"
    return ""


def _content(path: Path) -> bytes:
    return file_content(str(path), LARGEST_FILE_BYTES, "name a file of the folder results/")


def _of_file(path: Path, seen: dict[str, str], highest: Highest) -> list[str]:
    """Return why a file is refused. `seen` has the trials of the files before, by the digest of their figures."""
    try:
        found = read(_content(path))
        place = file_of(found.run, found.original_id)
    except WrongInput as error:
        return [printable(error.message)]
    reasons = []
    if path.absolute().parts[-3:] != (RESULTS, *place.split("/")):
        reasons.append(f"it is in the wrong place: its run belongs to {RESULTS}/{place}")
    reasons += [*names_left(found), *objections(found, encrypts, compresses, highest, planned_trials)]
    digests = [(record, figures_digests(record)) for record in found.records]
    copies = [
        (record, next(seen[key] for key in keys if key in seen)) for record, keys in digests if seen.keys() & keys
    ]
    counting = [(record, other) for record, other in copies if record.counts]
    if counting:
        record, other = counting[0]
        reasons.append(f"{len(counting)} of its trials are copies, such as trial {record.spec.sequence} of {other}")
    seen |= {key: printable(str(path)) for record, keys in digests if record.counts for key in keys}
    return reasons
