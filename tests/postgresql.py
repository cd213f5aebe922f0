"""A PostgreSQL server of the tests' own, from Debian's packages, on a socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Cluster:
    """A server that is up; `url` is its database for tests."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.databases = 0

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self._control("start", "-o", options, "-l", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """`immediate` is what a crash is like: transactions under way are lost, and recovery follows."""
        self._control("stop", "-m", mode)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It lives, and answers nothing, while the block runs."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        pids = [postmaster, *map(int, children)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def new_database(self) -> str:
        """The URL of an empty database."""
        self.databases += 1
        name = f"team_{self.databases}"
        as_postgres([str(self.programs / "createdb"), "-h", str(self.folder), name])
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _control(self, verb: str, *words: str) -> None:
        as_postgres([str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), "-w", "-t", "30", verb, *words])


def as_postgres(argv: list[str]) -> None:
    """As the user whom the server accepts: initdb and postgres refuse root."""
    is_root = os.geteuid() == 0
    who = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if is_root else []
    # Its output goes to a file: the server inherits it, and would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run([*who, *argv], stdout=output, stderr=output, check=False, timeout=60, cwd="/")
        output.seek(0)
        assert done.returncode == 0, output.read().decode()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A server for as long as the block runs; the test is skipped where there is no PostgreSQL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server (package postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="tunnelbench-test-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        made = Cluster(found[-1].parent, folder)
        as_postgres([str(made.programs / "initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", "postgres"])
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(folder)
