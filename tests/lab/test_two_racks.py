"""The commands of docs/racks.md lead from an empty PostgreSQL to two racks with results, as they are written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.lab.awaiting import until
from tests.lab.bench import TUNNELBENCH
from tests.postgresql import Cluster, cluster

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PASSWORDS = "local all postgres trust\nlocal all all scram-sha-256\n"
"""pg_hba.conf: the administrator is trusted, as by Debian's default, and all others need their password."""


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server of its own: roles and users belong to all databases of a server."""
    with cluster() as made:
        made.stop()
        (made.folder / "data" / "pg_hba.conf").write_text(PASSWORDS)
        made.start()
        yield made


def test_ten_commands_make_two_racks(server: Cluster, tmp_path: Path) -> None:
    section = (ROOT / "docs" / "racks.md").read_text().split("## Two racks in ten commands\n")[1].split("\n## ")[0]
    setup, service, workers, use = re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)
    commands = [line.strip() for line in (setup + workers + use).splitlines()]
    assert len(commands) == 10
    administrator = Person(server, tmp_path / "postgres", "postgres", service)
    for command in commands[:6]:
        administrator.does(command)
    racks = [Person(server, tmp_path / name, name, service) for name in ("attic", "cellar")]
    anna = Person(server, tmp_path / "anna", "anna", service)
    with ExitStack() as stack:
        for rack, command in zip(racks, commands[6:8], strict=True):
            (rack.home / f"{rack.name}.toml").write_text('kind = "simulated"\n')
            stack.enter_context(rack.serves(command))
        submitted, listed = (anna.does(command) for command in commands[8:])
        assert [line.split()[0] for line in submitted.splitlines()] == ["job", "job"]
        assert "attic" in listed
        assert "cellar" in listed
        until(lambda: all(job["state"] == "done" for job in anna.jobs(commands[9])), "the jobs are done", 120)
    store = commands[9].partition(" --store ")[2]
    runs = json.loads(anna.does(f"tunnelbench list runs --json --store {store}"))
    assert {run["testbed_name"]: run["status"] for run in runs} == {"attic.toml": "done", "cellar.toml": "done"}
    assert "ENCRYPTED" in anna.does(f"tunnelbench report last --store {store}")
    refused = racks[0].tries(commands[8])
    assert refused.returncode != 0
    assert "permission denied" in refused.stderr


class Person:
    """Somebody with a folder, a service file of libpq and a password, who repeats commands of the documentation."""

    def __init__(self, server: Cluster, home: Path, name: str, service: str) -> None:
        self.name, self.home = name, home
        home.mkdir(mode=0o700)
        lines = [line.strip() for line in service.splitlines()]
        values = {"host=db.example.net": f"host={server.folder}", "user=attic": f"user={name}"}
        file = home / ".pg_service.conf"
        file.touch(0o600)
        file.write_text("\n".join(values.get(line, line) for line in lines).replace("...", f"secret of {name}") + "\n")
        (home / "examples").symlink_to(ROOT / "examples")
        path = f"{Path(TUNNELBENCH).parent}:{server.programs}:{os.environ['PATH']}"
        self.environment = os.environ | {"HOME": str(home), "PATH": path, "PGHOST": str(server.folder)}
        if name == "postgres":
            self.environment["PGUSER"] = name

    def tries(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal; `createuser` then reads the password, twice, from its input."""
        argv = shlex.split(command)
        return subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=120, start_new_session=True,
            env=self.environment, cwd=self.home, input=f"secret of {argv[-1]}\n" * 2,
        )  # fmt: skip

    def does(self, command: str) -> str:
        done = self.tries(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def jobs(self, listing: str) -> list[dict[str, str]]:
        return list(json.loads(self.does(f"{listing} --all --json")))

    @contextmanager
    def serves(self, command: str) -> Iterator[None]:
        """Start a worker, and stop it, as with Ctrl-C, at the end of the block."""
        worker = subprocess.Popen(
            shlex.split(command), env=self.environment, cwd=self.home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            yield
        finally:
            worker.send_signal(signal.SIGINT)
            worker.communicate(timeout=60)
