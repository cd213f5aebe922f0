"""`tunnelbench testbed stop` ends the shells of its user only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli.testbed import shell_mark
from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.machine import left_machines

USER, OTHER_USER = 4_000_001, 4_000_002
"""Numbers that no user has, so that no real shell is ended."""


@contextmanager
def shell_of(user: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose arguments are those of a shell that a user has started."""
    monkeypatch.setattr(os, "getuid", lambda: user)
    name = ["-name", f"tunnelbench-{shell_mark(MALTA)}-router,debug-threads=on"]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", *name]) as process:
        deadline = time.monotonic() + 5
        while not left_machines(shell_mark(MALTA)) and time.monotonic() < deadline:
            time.sleep(0.01)  # a program that has just begun has no command line for a moment
        try:
            yield process
        finally:
            process.kill()


def test_stop_ends_the_shells_of_its_user_only(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with shell_of(OTHER_USER, monkeypatch) as of_other, shell_of(USER, monkeypatch) as own:
        assert type_in("testbed", "stop", "malta").stdout == f"ended: process {own.pid}\n"
        own.wait(5)
        assert type_in("testbed", "stop", "malta").stdout == "you have no running shell of malta\n"
        assert of_other.poll() is None
