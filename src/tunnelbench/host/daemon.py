"""Daemons: programs that run until they are stopped."""

from __future__ import annotations

import fcntl
import math
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from tunnelbench.host.command import (
    CONTROLLER,
    DIE_WITH_CONTROLLER,
    FILE_LIMIT,
    FILE_LIMIT_BYTES,
    LAST_LINES,
    Process,
    kill_session,
    last_lines,
    note,
    start_process,
    text_of,
)
from tunnelbench.host.procfs import stat_fields
from tunnelbench.model.errors import CannotHere

STOP_GRACE_S = 1.5
"""Time that a daemon has to end after SIGTERM before it gets SIGKILL [s]."""

SEARCHED_BYTES = 1_000_000
"""Number of bytes of a daemon's output that are read in one step while waiting for a line."""

SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.001, 0.01
"""Shortest and longest time from one look for a line of a daemon's output to the next [s]."""

PIPE_BYTES = 1 << 20
"""Largest pipe without privileges (pipe(7), pipe-max-size): it holds about half an hour of the engine's lines."""


class Daemon:
    """A program that runs until it is stopped, with its output in a file.

    `has_input`: its standard input stays open until `close_input`, for programs that end with it. `has_output`: its
    standard output is `process.stdout`, and only its errors go to the file. `pass_fds`: descriptors of the controller
    that it gets under the same numbers. `host`: name of the machine on which it works, for the log. `survives`: it
    keeps running when the controller ends.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log_path: Path,
        name: str = "",
        *,
        has_input: bool = False,
        has_output: bool = False,
        pass_fds: Sequence[int] = (),
        host: str = CONTROLLER,
        survives: bool = False,
    ) -> None:
        self._pass_fds = tuple(pass_fds)
        self.argv = tuple(argv)
        self.log_path = log_path
        self.name = name or log_path.stem
        """Name of the program in messages."""
        self.host_name = host
        prefix = () if survives else DIE_WITH_CONTROLLER
        self.process = self._launch([*FILE_LIMIT, *prefix, *argv], has_input=has_input, has_output=has_output)
        self._started_s = self._ended_at_s = time.monotonic()
        note("%s >%s 2>&1 &  # %s: process %d", shlex.join(argv), shlex.quote(str(log_path)), host, self.process.pid)
        self._watcher = threading.Thread(target=self._note_end, args=(self.process.pid,), daemon=True)
        self._watcher.start()

    def _launch(self, argv: Sequence[str], *, has_input: bool, has_output: bool) -> Process:
        with _opened(self.log_path) as output:
            return start_process(
                argv,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE if has_output else output,
                stderr=output if has_output else subprocess.STDOUT,
                pass_fds=self._pass_fds,
            )

    def _note_end(self, pid: int) -> None:
        """Wait for the end of the process and store the time: of several daemons that end, the first one is usually the
        cause."""
        with suppress(ChildProcessError):  # another thread has waited for it first
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._ended_at_s = time.monotonic()
        self.process.wait()
        note("# %s: %s, process %d: %s, %.3f s", self.host_name, self.name, pid, self.ending,
                 self._ended_at_s - self._started_s)  # fmt: skip

    @property
    def pid(self) -> int:
        """Process number of the daemon on the machine where it runs."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def ended_at_s(self) -> float:
        """Time at which the daemon ended, on the controller's monotonic clock [s]; infinity while it runs."""
        if self.is_running:
            return math.inf
        self._watcher.join()
        return self._ended_at_s

    def output(self, limit_bytes: int = FILE_LIMIT_BYTES) -> str:
        """Return the daemon's output so far: by default all of it, otherwise at most its last `limit_bytes`."""
        with self.log_path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit_bytes))
            return text_of(file.read())

    @property
    def log_size_bytes(self) -> int:
        """Length of the daemon's output so far [bytes]."""
        return self.log_path.stat().st_size

    def printed_since(self, size_bytes: int, limit_bytes: int = SEARCHED_BYTES) -> str:
        """Return at most `limit_bytes` of the daemon's output after its first `size_bytes`."""
        with self.log_path.open("rb") as file:
            file.seek(size_bytes)
            return text_of(file.read(limit_bytes))

    def last_lines(self, count: int = LAST_LINES) -> str:
        """Return the last lines of the output as one line, or a sentence that the daemon printed too much."""
        if self.killed_by == signal.SIGXFSZ.name:
            return f"it was ended because it printed more than {FILE_LIMIT_BYTES / 1e6:.0f} MB"
        return last_lines(self.output(4096), count)

    @property
    def ending(self) -> str:
        """Exit status or signal with which the daemon ended, such as `status 1` or `signal 9`; empty if it runs."""
        status = self.process.poll()
        if status is None:
            return ""
        return f"status {status}" if status >= 0 else f"signal {-status}"

    @property
    def killed_by(self) -> str:
        """Name of the signal that ended the daemon, such as SIGKILL; empty if the daemon runs or ended by itself."""
        status = self.process.poll() or 0
        number = -status if status < 0 else status - 128  # a shell and sshd report a signal as 128 + its number
        return signal.Signals(number).name if number in {*signal.Signals} else ""

    def last_line(self) -> str:
        """Return the last line of the daemon's output."""
        return self.last_lines(1)

    @property
    def is_stopped(self) -> bool:
        """True if a signal (SIGSTOP) has paused the daemon: the process exists but does not run."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat_fields(status)[0] in "Tt"

    def wait_for(self, text: str, timeout_s: float) -> bool:
        """Wait until the daemon prints `text`. Returns False if it ends before, or after `timeout_s`."""
        deadline, pause_s = time.monotonic() + timeout_s, SHORTEST_LOOK_S
        while time.monotonic() < deadline:
            running = self.is_running  # before the output is read, which then holds the last line of a dying program
            if text in self.output(SEARCHED_BYTES):
                return True
            if not running:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_LOOK_S)
        return False

    def wait(self, timeout_s: float) -> bool:
        """Wait until the daemon ends by itself. Returns False after `timeout_s`."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the daemon; has no effect if it has ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT, which makes tcpdump and ping print their summary and end."""
        self.signal(signal.SIGINT)

    def close_input(self) -> None:
        """Close the daemon's standard input; a second call has no effect."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # input that it has not read is lost
                self.process.stdin.close()

    def stop(self) -> None:
        """End the daemon by SIGTERM, then all its processes by SIGKILL. A second call has no effect."""
        if self.is_running and not self.is_stopped:  # a stopped one cannot answer SIGTERM
            self.process.terminate()
            self.wait(STOP_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End the daemon and its processes by SIGKILL. A second call has no effect."""
        kill_session(self.process)
        self.process.wait()
        self._watcher.join()
        self.close_input()
        if self.process.stdout is not None:
            self.process.stdout.close()


def deaths(when: str, *groups: tuple[str, Iterable[Daemon]]) -> str:
    """Return a text with all ended daemons in the order in which they ended, with their last lines; empty if all run.

    Each group has the name of a host and its daemons. `when` is a text after the word `ended`, such as `early`.
    """
    ended = [(daemon, host) for host, daemons in groups for daemon in daemons if not daemon.is_running]
    ended.sort(key=lambda each: each[0].ended_at_s)
    first_s = ended[0][0].ended_at_s if ended else 0.0
    texts: list[str] = []
    for daemon, host in ended:
        moment = f" {daemon.ended_at_s - first_s:.2f} s later" if texts else f" {when}"
        texts.append(f"{daemon.name} on the {host} ended{moment}; last: {daemon.last_lines()}")
    return "; ".join(texts)


class ReadDaemon(Daemon):
    """A daemon whose output the controller reads line by line and does not keep, because the daemon may run for weeks.

    The output goes to a pipe. If the controller does not read the pipe, the pipe becomes full and the daemon waits.
    """

    _rest = b""
    _last = ""

    def _launch(self, argv: Sequence[str], *, has_input: bool, has_output: bool) -> Process:
        del has_output  # always true
        process = start_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not has_input and process.stdin is not None:
            process.stdin.close()
        if process.stdout is None:
            raise ValueError("the process has no pipe for its output")
        self._pipe = process.stdout
        os.set_blocking(self._pipe.fileno(), False)
        with suppress(OSError):  # above the system's limit for users
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return process

    def new_lines(self) -> list[str]:
        """Return the complete lines that the daemon has printed since the last call."""
        content = self._rest
        with suppress(BlockingIOError):
            while block := os.read(self._pipe.fileno(), PIPE_BYTES):
                content += block
                if len(content) > FILE_LIMIT_BYTES:
                    break
        whole, newline, rest = content.rpartition(b"\n")
        self._rest = rest[:FILE_LIMIT_BYTES]
        lines = text_of(whole).split("\n") if newline else []
        self._last = next((line for line in reversed(lines) if line.strip()), self._last)
        return lines

    def output(self, limit_bytes: int = FILE_LIMIT_BYTES) -> str:
        """Return the last line that was read; earlier lines are not kept."""
        return self._last[-limit_bytes:]


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise CannotHere(f"{path} cannot be written: {error.strerror}", "make room there") from None
