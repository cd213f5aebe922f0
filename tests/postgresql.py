"""A PostgreSQL server for tests, from Debian's packages, on a socket in a temporary folder."""

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
    """A server that runs."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.databases = 0

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self._control("start", "-o", options, "-l", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop the server. The mode `immediate` is like a crash: the next start recovers, without open transactions."""
        self._control("stop", "-m", mode)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server with SIGSTOP while the block runs: it exists and does not answer."""
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
        """Create an empty database and return its URL."""
        self.databases += 1
        name = f"team_{self.databases}"
        as_postgres([str(self.programs / "createdb"), "-h", str(self.folder), name])
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _control(self, verb: str, *words: str) -> None:
        as_postgres([str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), "-w", "-t", "30", verb, *words])


def as_postgres(argv: list[str]) -> None:
    """Run a command as the user `postgres`, because initdb and postgres refuse root."""
    is_root = os.geteuid() == 0
    who = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if is_root else []
    # The output goes to a file: the server inherits it and would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run([*who, *argv], stdout=output, stderr=output, check=False, timeout=60, cwd="/")
        output.seek(0)
        assert done.returncode == 0, output.read().decode()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a server while the block runs. The test is skipped where PostgreSQL is not installed."""
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


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server for the tests of a module, which imports this fixture."""
    with cluster() as made:
        yield made
