"""The only module that starts programs.

Every command is an argument list, never a shell string. The log of commands is a shell script with comments, so that a
person can paste each line.
"""

from __future__ import annotations

import logging
import math
import os
import resource
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tunnelbench.host.signals import interrupts_ignored, undisturbed
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.text import printable, without_keys

log = logging.getLogger("tunnelbench.command")

DEFAULT_TIMEOUT_S = 20.0
FILE_LIMIT_BYTES = 100_000_000
"""Largest file that a daemon may write, its log included, because logs lie in memory. The kernel ends a daemon that
writes more (SIGXFSZ). `model.plan.LARGEST_RESULT_BYTES` is smaller, so that no program's results are cut."""

LINE_LIMIT = 300
"""Length at which a message cuts a line of a program's output [characters]."""

LAST_LINES = 3
"""Number of last lines of output that a message about a failed command or daemon quotes."""

LONGEST_PAUSE_S = 0.05
"""Longest time from one look for the status of a process to the next [s]."""

DIE_WITH_CONTROLLER = ("setpriv", "--pdeathsig", "KILL")
"""Prefix of long-lived commands: the kernel ends them when the controller dies, even by kill -9 (prctl(2))."""

START_FOLDER = "/"
"""Current folder of every program. Other users may be able to write to the folder in which the user started
TunnelBench, and programs such as Python and QEMU look for files in their current folder."""

FILE_LIMIT = ("prlimit", f"--fsize={FILE_LIMIT_BYTES}:{FILE_LIMIT_BYTES}")
"""Prefix of daemons: none of their files grows beyond FILE_LIMIT_BYTES. A daemon may change its user at any time, and
root without CAP_SYS_RESOURCE, as in most containers, cannot set a limit of another user's process."""

CONTROLLER = "controller"
"""Name that the log gives to this machine, for commands that work on no host of a testbed."""


class CommandFailed(CannotHere):
    """A command ended with a status other than 0, or not in time."""

    def __init__(self, argv: Sequence[str], status: str, output: str) -> None:
        super().__init__(f"`{shlex.join(argv)}` {status}: {last_lines(output)}")
        self.output = output


class Process(subprocess.Popen[bytes]):
    """A program that was started, whose status a signal cannot lock.

    Popen takes a lock before it asks the kernel for the status. The exception of a signal handler can come just after
    the lock was taken. The lock would stay taken, and the next `wait` would never end.
    """

    def poll(self) -> int | None:
        with undisturbed:
            return super().poll()

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None:
            return super().wait()  # takes its lock by `with`, which no signal can interrupt
        deadline, pause_s = time.monotonic() + timeout, 0.0005
        with _end_of(self) as end:
            while (status := self.poll()) is None:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                pause_s = min(2 * pause_s, left_s, LONGEST_PAUSE_S)
                if end.poll(math.ceil(pause_s * 1e3)):
                    pause_s = 0.0005
                    time.sleep(pause_s)  # another thread may be reading the status
        return status


@contextmanager
def _end_of(process: Process) -> Iterator[select.poll]:
    """Yield an object whose `poll` returns at once when the process ends (pidfd_open(2))."""
    end = select.poll()
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # the process was collected, or the kernel is older than 5.3: `poll` then only passes the time
        yield end
        return
    try:
        end.register(descriptor, select.POLLIN)
        yield end
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Completed:
    """Status and output of a command that has ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def run_command(
    argv: Sequence[str],
    *,
    stdin: str | bytes = "",
    timeout_s: float = DEFAULT_TIMEOUT_S,
    check: bool = True,
    file_limit_bytes: int | None = None,
    host: str = CONTROLLER,
) -> Completed:
    """Run a command to its end; no file that it writes may be longer than `file_limit_bytes`, or FILE_LIMIT_BYTES.

    `host` is the name that the log gives to the machine on which the command works. Raises CommandFailed when the
    command does not end in `timeout_s`, or (with `check`) ends with a status other than 0. Raises CannotHere when there
    is no such program.
    """
    content = stdin.encode() if isinstance(stdin, str) else stdin
    status, stdout, stderr = _run_to_end(
        argv, content, timeout_s, check=check, file_limit_bytes=file_limit_bytes, host=host
    )
    return Completed(tuple(argv), status, text_of(stdout), text_of(stderr))


def read_output(argv: Sequence[str], timeout_s: float = DEFAULT_TIMEOUT_S, host: str = CONTROLLER) -> bytes:
    """Return the output of a command byte for byte; raises as `run_command`."""
    return _run_to_end(argv, b"", timeout_s, check=True, file_limit_bytes=None, host=host)[1]


def _run_to_end(
    argv: Sequence[str], stdin: bytes, timeout_s: float, *, check: bool, file_limit_bytes: int | None, host: str
) -> tuple[int, bytes, bytes]:
    """Return status, output and error output."""
    # Memory files instead of pipes: the kernel ends a program that prints without end, and a stray grandchild that
    # holds the output open does not delay the controller.
    with (
        _logged(argv, host) as entry,
        _memory_file() as output,
        _memory_file() as errors,
        start_process(argv, stdin=subprocess.PIPE, stdout=output, stderr=errors) as process,
    ):
        try:
            _limit_files(process, file_limit_bytes or FILE_LIMIT_BYTES)
            process.communicate(stdin, timeout=timeout_s)
        except BaseException as error:  # the child is in a session of its own and would survive an interrupt
            kill_session(process)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            entry.ending = f"did not end in {timeout_s:g} s"
            raise CommandFailed(argv, entry.ending, text_of(_content(errors) or _content(output))) from None
        entry.ending = f"status {process.returncode}"
        stdout, stderr = _content(output), _content(errors)
    if check and process.returncode != 0:
        raise CommandFailed(argv, f"ended with {entry.ending}", text_of(stderr or stdout))
    return process.returncode, stdout, stderr


def remove_tree(folder: Path, *, ignore_errors: bool = False) -> None:
    """Delete a folder with all its content. Raises OSError or CommandFailed, unless `ignore_errors`."""
    try:
        shutil.rmtree(folder, ignore_errors=ignore_errors)
    except RecursionError:  # Python 3.11 calls itself for each folder in another one; a user can make a thousand
        run_command(["rm", "-rf", "--one-file-system", "--", str(folder)], check=not ignore_errors)


def run_attached(argv: Sequence[str]) -> int:
    """Run a program on the controller's terminal and return its status. Raises CannotHere when there is none."""
    with _logged(argv, CONTROLLER) as entry:
        try:
            status = subprocess.run([*DIE_WITH_CONTROLLER, *argv], check=False, cwd=START_FOLDER).returncode
        except FileNotFoundError:
            raise CannotHere(f"the program `{DIE_WITH_CONTROLLER[0]}` is missing") from None
        entry.ending = f"status {status}"
        return status


def page(argv: Sequence[str], text: str, settings: Mapping[str, str]) -> None:
    """Show a text in a pager on the controller's terminal; `settings` are environment variables for it.

    Only the pager reacts to Ctrl-C: `less` does not end at Ctrl-C; if the controller ended, both `less` and the shell
    would read from the terminal.
    """
    with _logged(argv, CONTROLLER) as entry, interrupts_ignored():
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, env={**os.environ, **settings})
        with suppress(BrokenPipeError):  # the reader left before the end
            process.communicate(text.encode("utf-8", "replace"))
        entry.ending = f"status {process.wait()}"


def run_for_user(argv: Sequence[str], environment: Mapping[str, str], limit_s: float, **identity: object) -> int:
    """Start a program that may outlive the controller, and return its status; 0 if it still runs after `limit_s`.

    `identity` is the user with their groups, as Popen takes them. Raises CannotHere if the program cannot be started.
    """
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with _logged(argv, CONTROLLER) as entry:
        process = start_process(argv, env=environment, **nowhere, **identity)
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(limit_s)
            entry.ending = f"status {status}"
            return status
        entry.ending = f"still running after {limit_s:g} s"
        return 0


@dataclass
class LogEntry:
    """Result of a command, which is known only when it ends; the log prints it as a comment."""

    ending: str = "did not start, or was interrupted"


@contextmanager
def _logged(argv: Sequence[str], host: str) -> Iterator[LogEntry]:
    """Log a command when it ends, as a line of shell with a comment; not its input, which may hold a key."""
    entry, started_s = LogEntry(), time.monotonic()
    try:
        yield entry
    finally:
        note("%s  # %s: %s, %.3f s", shlex.join(argv), host, entry.ending, time.monotonic() - started_s)


def note(text: str, *values: object) -> None:
    """Write a line to the log of commands."""
    with undisturbed:  # a signal in the log's lock would make every later line of another thread wait for it
        log.info(text, *values)


def last_lines(output: str, count: int = LAST_LINES) -> str:
    """Return the last lines of some output in one line that is safe to print and has no keys, or `no output`."""
    lines = without_keys(output.strip()).splitlines()[-count:]
    return " / ".join(printable(line[:LINE_LIMIT]) for line in lines) or "no output"


def start_process(argv: Sequence[str], **options: object) -> Process:
    """Start a program in a session of its own, in START_FOLDER, with options of Popen.

    Raises CannotHere if there is no such program, or if it cannot be started.
    """
    process: Process | None = None
    try:
        with undisturbed:  # a signal inside Popen would leave a process behind
            # A session of its own: a Ctrl-C on the terminal reaches the controller only, which takes down in order.
            process = Process(  # type: ignore[call-overload]
                list(argv), start_new_session=True, cwd=START_FOLDER, **options
            )
    except FileNotFoundError:
        raise CannotHere(f"the program `{argv[0]}` is missing", "tunnelbench doctor names the package") from None
    except OSError as error:  # such as a program for another machine, or too many processes
        raise CannotHere(f"the program `{argv[0]}` cannot be started: {error.strerror}") from None
    except ValueError as error:  # an argument with a NUL, or with half of a surrogate pair, from a router's answer
        raise CannotHere(f"the program `{argv[0]}` cannot be started: an argument is not text: {error}") from None
    except BaseException:
        if process is not None:
            kill_session(process)
            with process:  # waits, and closes its streams
                raise
        raise
    return process


def _limit_files(process: subprocess.Popen[bytes], limit_bytes: int) -> None:
    """Limit the length of the files that a process writes."""
    # It has already ended, or changed its user where root has no CAP_SYS_RESOURCE.
    with suppress(ProcessLookupError, PermissionError):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))


def _memory_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("tunnelbench"), "w+b")


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children that are still in its process group."""
    if process.returncode is not None and Path(f"/proc/{process.pid}").exists():
        return  # ours has ended, and the kernel has given its number to another process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads its session, so its group has the same number


def text_of(output: bytes) -> str:
    """Decode a program's output as UTF-8; invalid bytes become replacement characters."""
    return output.decode("utf-8", "replace")
