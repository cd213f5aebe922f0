"""Runs shell scripts on a host behind SSH, and daemons that end when the connection ends."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import STOP_GRACE_S, Daemon
from tunnelbench.model.errors import CannotHere

if TYPE_CHECKING:
    from tunnelbench.host.ssh import SshHost

PROCESS_NUMBER = re.compile(r"[0-9]{1,10}")

PID_POLL_S = 0.02
"""Time between two looks at the process number [s]."""

PID_LIMIT_S = 10.0
"""Limit for a program that was started to write its process number [s]."""

MAKE_FOLDER = """
umask 077
mkdir "$1" 2>/dev/null || {
    [ -d "$1" ] && [ ! -h "$1" ] && [ -O "$1" ] || { echo "it is a link, or belongs to another user"; exit 1; }
    case $(ls -ldn "$1") in d????-??-*) ;; *) echo "other users can write to it"; exit 1 ;; esac
} >&2
"""
"""Makes the folder $1, which no other user may have made or be able to change, because programs in it are run.

The folder is in /tmp, whose sticky bit prevents other users from replacing the folder after this check. The folder
already exists if the controller connects again.
"""

PUT_FILE = (
    MAKE_FOLDER
    + """
mkdir -p "${2%/*}" && cat >"$2.new" && mv -f "$2.new" "$2" || { rm -f "$2.new"; exit 1; }
"""
)
"""Writes standard input to the file $2 in the folder $1, in one step: a shell may still read the old file."""

STAY = """
umask 077
echo $$ >"$1" || exit 1
shift
exec 3<&0
{ cat <&3; kill $$; } >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-
"""
"""Shell script that writes its process number into a file and then becomes the program; the program ends with the
connection.

The session's standard input ends with the connection. `exec` is needed because a background job of a shell ignores
signals.
"""

STAY_WITH_INPUT = """
umask 077
echo $$ >"$1" || exit 1
shift
exec "$@"
"""
"""Shell script like STAY, for a program that ends by itself when its input ends."""


def in_shell(script: str, *arguments: str) -> list[str]:
    """Return the command that runs a piece of POSIX shell on a host behind SSH.

    `script` must be a constant; values go in as `arguments`, its $1, $2, ... The remote shell runs every command
    anyway, so one more shell adds no risk.
    """
    return ["sh", "-c", script, "sh", *arguments]


def by_shell(file: str, *arguments: str) -> list[str]:
    """Return the command that runs a script file; it works on file systems mounted noexec, too."""
    return ["sh", file, *arguments]


class SshDaemon(Daemon):
    """A program on a host behind SSH; its output comes over the connection into a file on this machine."""

    def __init__(self, host: SshHost, argv: Sequence[str], log_path: Path, name: str, *, has_input: bool) -> None:
        self.host = host
        self.pid_path = str(host.folder / f"{log_path.stem}.pid")
        self.has_input = has_input
        self._pid: int | None = None
        self._program = tuple(argv)
        command = host.command(in_shell(STAY_WITH_INPUT if has_input else STAY, self.pid_path, *argv))
        super().__init__(command, log_path, name, has_input=True, host=host.name)

    @property
    def pid(self) -> int:
        """The process number on that host. Raises CommandFailed if the program does not start, and a tunnel that needs
        it is then not measured."""
        deadline = time.monotonic() + PID_LIMIT_S
        while self._pid is None:
            text = self.host.run(["cat", self.pid_path], check=False).stdout.strip()
            if PROCESS_NUMBER.fullmatch(text):
                self._pid = int(text)
            elif not self.is_running or time.monotonic() > deadline:
                reason = self.ending or f"no process number in {PID_LIMIT_S:g} s"
                raise CommandFailed(self._program, f"does not start on the {self.host.name} ({reason})", self.output())
            else:
                time.sleep(PID_POLL_S)  # each look starts a program there, which takes CPU time of a slow router
        return self._pid

    @property
    def is_stopped(self) -> bool:
        """Always False: a check would be one more command on a router under test."""
        return False

    def signal(self, number: int) -> None:
        self.host.run(["kill", f"-{signal.Signals(number).name.removeprefix('SIG')}", str(self.pid)], check=False)

    def interrupt(self) -> None:
        if self.is_running:
            self.signal(signal.SIGINT)

    def close_input(self) -> None:
        if self.has_input or not self.is_running:
            super().close_input()

    def stop(self) -> None:
        if self.is_running:
            with suppress(CannotHere):  # lost: it ends with the connection
                self.signal(signal.SIGTERM)
                self.wait(STOP_GRACE_S)
        self.kill()

    def kill(self) -> None:
        if self.is_running:
            with suppress(CannotHere):
                self.signal(signal.SIGKILL)
                self.wait(STOP_GRACE_S)
        super().kill()  # of ssh itself
        with suppress(CannotHere):
            if self.host.is_connected:
                self.host.remove(Path(self.pid_path))
