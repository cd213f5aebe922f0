"""The record of a site: what each of its files was made from, so that `site` makes anew only what has changed.

The record is in the user's cache and not in the site, because a site may come from elsewhere, with pages that somebody
else has made. As for git(1), a file counts as unchanged if the kernel's facts about it are the same: each write changes
its ctime.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tunnelbench import __version__
from tunnelbench.host.cache import cache_folder, made_cache_folder
from tunnelbench.host.input_files import read_regular
from tunnelbench.host.trust import PACKAGE
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.reference import Reference
from tunnelbench.report.site.gather import DeviceFacts, GatheredRun

RECORDS = "sites"
"""Folder of the cache with a record for each site."""
LARGEST_RECORD_BYTES = 1_000_000_000
SETTLED_NS = 1_000_000_000
"""Age from which the facts of an input are believed [ns]: a younger file may be written again with the same ctime."""

Identity = tuple[int, int, int, int, int]
"""Device, inode, size [byte], and times of the last write and of the last change [ns] of a file."""

Drawn = GatheredRun | str
"""A run whose page is made, or the error of a file that is no run."""


class KnownInput(BaseModel):
    """A file that was read."""

    model_config = ConfigDict(frozen=True)

    identity: Identity
    drawn: Drawn


class KnownFile(BaseModel):
    """A file of the site."""

    model_config = ConfigDict(frozen=True)

    identity: Identity
    digest: str
    """SHA-256 of its content."""


class SiteRecord(BaseModel):
    """The record of one site; an empty one describes no site."""

    model_config = ConfigDict(frozen=True)

    basis: str = ""
    """Digest of all that the pages follow from beside the inputs."""
    inputs: dict[str, KnownInput] = {}
    """Inputs by their names as they were given."""
    files: dict[str, KnownFile] = {}
    """Files of the site by their paths in it."""

    def digest(self, name: str, path: Path) -> str:
        """Return the digest of a file of the site, which is at `path`; that of an unchanged one without reading it."""
        return self.files[name].digest if self.is_intact(name, path) else digest(path)

    def is_intact(self, name: str, path: Path) -> bool:
        """Return True if a file of the site, which is at `path`, is the one that was written there."""
        return name in self.files and identity(path) == self.files[name].identity

    def is_whole(self, folder: Path) -> bool:
        """Return True if all files of the site are in its folder, and intact."""
        return bool(self.files) and all(self.is_intact(name, folder / name) for name in self.files)

    def unchanged(self, inputs: Mapping[str, Identity]) -> dict[str, Drawn]:
        """Return what was drawn from those inputs that have not changed."""
        return {
            name: self.inputs[name].drawn
            for name, found in inputs.items()
            if name in self.inputs and self.inputs[name].identity == found
        }


def identity(path: Path, *, follows_links: bool = False) -> Identity | None:
    """Return the identity of a regular file; None for anything else."""
    try:
        found = path.stat(follow_symlinks=follows_links)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def settled(files: Iterable[str]) -> dict[str, Identity]:
    """Return the identities of the inputs that were not changed a moment ago."""
    newest_ns = time.time_ns() - SETTLED_NS
    found = ((file, identity(Path(file), follows_links=True)) for file in files)
    return {file: each for file, each in found if each is not None and each[-1] < newest_ns}


def digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; `-`, which no list has, for anything else."""
    if path.is_symlink() or not path.is_file():
        return "-"
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def basis_of(references: Sequence[Reference], given: Mapping[str, DeviceFacts]) -> str:
    """Return a digest of program, published results and facts of devices."""
    return sha256(repr((__version__, _program(), references, sorted(given.items()))).encode()).hexdigest()


@cache
def _program() -> list[tuple[str, int, int]]:
    """Return name, size and time of each file of TunnelBench, so that a changed program makes all pages anew."""
    places = ((path, path.stat()) for path in sorted(PACKAGE.rglob("*")) if path.suffix not in {".pyc", ""})
    return [(str(path), found.st_size, found.st_mtime_ns) for path, found in places]


def read_record(target: Path, basis: str) -> SiteRecord:
    """Return the record of a site; an empty one if there is none, or if it was made from another basis."""
    with suppress(OSError, ValueError, CannotHere):  # CannotHere: a cache that root does not trust
        found = SiteRecord.model_validate_json(read_regular(_place(cache_folder(), target), LARGEST_RECORD_BYTES))
        if found.basis == basis:
            return found
    return SiteRecord()


def write_record(
    target: Path, basis: str, inputs: Mapping[str, Identity], drawn: Mapping[str, Drawn], digests: Mapping[str, str]
) -> None:
    """Keep the record of a site that was just made, with the digest of each of its files. Its loss is no error."""
    with suppress(OSError, ValueError, CannotHere):
        record = SiteRecord(
            basis=basis,
            inputs={name: KnownInput(identity=found, drawn=drawn[name]) for name, found in inputs.items()},
            files=dict(_known_files(target, digests)),
        )
        place = _place(made_cache_folder(), target)
        place.parent.mkdir(exist_ok=True)
        draft = place.with_suffix(".draft")
        draft.write_bytes(record.model_dump_json().encode())
        draft.replace(place)


def _known_files(target: Path, digests: Mapping[str, str]) -> Iterator[tuple[str, KnownFile]]:
    for name, found in digests.items():
        if (own := identity(target / name)) is not None:
            yield name, KnownFile(identity=own, digest=found)


def _place(cache_root: Path, target: Path) -> Path:
    return cache_root / RECORDS / f"{sha256(str(target.absolute()).encode(errors='surrogateescape')).hexdigest()}.json"
