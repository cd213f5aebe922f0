"""Hosts whose programs print what an input says: a router, a daemon or a tool may print anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from tests.unit.tunnel.fakes import FakeDaemon

from tunnelbench.host.command import CommandFailed, Completed
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import LocalHost
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.model.testbed import HostAccess

FAILED_MARK = "\x01"
"""First character of an answer whose command fails; the rest is its error output."""


class Answers:
    """The texts of an input: each command gets the next one, and the last text answers all further commands."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts) or [""]
        self._next = 0

    def take(self) -> str:
        text = self._texts[min(self._next, len(self._texts) - 1)]
        self._next += 1
        return text

    def run(self, argv: Sequence[str], *, check: bool) -> Completed:
        text = self.take()
        if not text.startswith(FAILED_MARK):
            return Completed(tuple(argv), 0, text, "")
        if check:
            raise CommandFailed(argv, "ended with status 1", text[1:])
        return Completed(tuple(argv), 1, "", text[1:])


class HostileDaemon(FakeDaemon):
    """A daemon that has printed an input."""

    @property
    def log_size_bytes(self) -> int:
        return 0

    def printed_since(self, size_bytes: int, limit_bytes: int = 0) -> str:
        return self.log

    def signal(self, number: int) -> None:
        """Print the input once more: tinc prints its list of nodes when it gets a signal."""
        self.log += f"{self.log}\nEnd of nodes."


class HostileHost(LocalHost):
    """A host of a testbed; it starts nothing and writes only into its folder."""

    def __init__(self, name: str, folder: Path, answers: Answers) -> None:
        super().__init__(name, folder, (0,))
        self.answers = answers

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        return self.answers.run(argv, check=check)

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        return cast("Daemon", HostileDaemon(self.answers.take(), name or Path(argv[0]).name))

    def read_machine(self, path: str) -> str:
        return self.run(["cat", path]).stdout

    def fetch(self, path: Path) -> bytes:
        return self.run(["cat", str(path)]).stdout.encode(errors="replace")

    def has_program(self, program: str) -> bool:
        return True

    def remove(self, path: Path) -> None:
        """There is no file."""


class HostileRouter(LeasedHost):
    """A router behind SSH."""

    def __init__(self, folder: Path, answers: Answers) -> None:
        local = HostileHost("local", folder, answers)
        super().__init__("router", HostAccess("root@192.168.1.1"), "run", folder, local)
        self.script = "/tmp/tunnelbench-dut"
        self.answers = answers

    @property
    def is_connected(self) -> bool:
        return True

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        return self.answers.run(argv, check=check)

    def write(self, name: str, content: str) -> Path:
        return self.folder / name
