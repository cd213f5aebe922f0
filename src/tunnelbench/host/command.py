"""The one place that starts programs.

Every command is an argument list, never a shell string, and is logged so that a person can paste it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tunnelbench.model.errors import CannotHere
from tunnelbench.model.text import printable

log = logging.getLogger("tunnelbench.command")

DEFAULT_TIMEOUT_S = 20.0
STOP_GRACE_S = 1.5
"""How long a daemon may take over SIGTERM before it gets SIGKILL."""

FILE_LIMIT_BYTES = 64_000_000
"""What a daemon may print, or write into one file: its log lies in memory. The kernel ends it at that (SIGXFSZ)."""

LINE_LIMIT = 300
"""Of a daemon's last line, characters that are told."""

DIE_WITH_CONTROLLER = ("setpriv", "--pdeathsig", "KILL")
"""Prefix of long-lived commands: the kernel ends them when the controller dies, even by kill -9 (prctl(2))."""


class CommandFailed(CannotHere):
    """A command ended with a status other than 0, or not in time."""

    def __init__(self, argv: Sequence[str], status: str, output: str) -> None:
        last_lines = " / ".join(output.strip().splitlines()[-3:])
        super().__init__(f"`{shlex.join(argv)}` {status}: {last_lines or 'no output'}")
        self.output = output


@dataclass(frozen=True)
class Completed:
    """What a finished command left."""

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
) -> Completed:
    """Run a command to its end; no file that it writes may be longer than `file_limit_bytes`, or FILE_LIMIT_BYTES.

    Raises CommandFailed when it does not end in `timeout_s`, or (with `check`) ends with a status other than 0, and
    CannotHere when there is no such program.
    """
    log.info("%s", shlex.join(argv))
    # Files in memory, not pipes: a program that prints without end is ended at a limit, and a stray grandchild holds
    # nobody up.
    with (
        _memory_file() as output,
        _memory_file() as errors,
        _popen(argv, stdin=subprocess.PIPE, stdout=output, stderr=errors) as process,
    ):
        _limit_files(process, file_limit_bytes)
        try:
            process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill_session(process)
            process.wait()
            said = _text(_content(errors) or _content(output))
            raise CommandFailed(argv, f"did not end in {timeout_s:g} s", said) from None
        except BaseException:  # an interrupt: the child is in a session of its own and would live on
            _kill_session(process)
            process.wait()
            raise
        stdout, stderr = _content(output), _content(errors)
    completed = Completed(tuple(argv), process.returncode, _text(stdout), _text(stderr))
    if check and completed.returncode != 0:
        status = f"ended with status {completed.returncode}"
        raise CommandFailed(argv, status, completed.stderr or completed.stdout)
    return completed


def run_attached(argv: Sequence[str]) -> int:
    """Run a program on our own terminal, to its end; returns its status. CannotHere when there is no such program."""
    log.info("%s", shlex.join(argv))
    try:
        return subprocess.run([*DIE_WITH_CONTROLLER, *argv], check=False).returncode
    except FileNotFoundError:
        raise CannotHere(f"the program `{DIE_WITH_CONTROLLER[0]}` is missing") from None


def read_output(argv: Sequence[str], timeout_s: float = DEFAULT_TIMEOUT_S) -> bytes:
    """What a command prints, byte for byte; errors as `run_command`."""
    log.info("%s", shlex.join(argv))
    with (
        _memory_file() as output,
        _memory_file() as errors,
        _popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors) as process,
    ):
        _limit_files(process)
        try:
            process.wait(timeout_s)
        except BaseException as error:
            _kill_session(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise CommandFailed(argv, f"did not end in {timeout_s:g} s", _text(_content(errors))) from None
            raise
        if process.returncode != 0:
            raise CommandFailed(argv, f"ended with status {process.returncode}", _text(_content(errors)))
        return _content(output)


class Daemon:
    """A program that runs until it is stopped; its output goes to a file.

    `has_input`: its standard input stays open until `close_input`, for programs that end with it. `has_output`: its
    standard output is `process.stdout`, and only its errors go to the file. `pass_fds`: descriptors of ours that it
    gets under the same numbers.
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
    ) -> None:
        self._pass_fds = tuple(pass_fds)
        log.info("%s >%s 2>&1 &", shlex.join(argv), shlex.quote(str(log_path)))
        self.argv = tuple(argv)
        self.log_path = log_path
        self.name = name or log_path.stem
        """What people call it."""
        self.process = self._launch([*DIE_WITH_CONTROLLER, *argv], has_input=has_input, has_output=has_output)
        _limit_files(self.process)

    def _launch(self, argv: Sequence[str], *, has_input: bool, has_output: bool) -> subprocess.Popen[bytes]:
        with _opened(self.log_path) as output:
            return _popen(
                argv,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE if has_output else output,
                stderr=output if has_output else subprocess.STDOUT,
                pass_fds=self._pass_fds,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def output(self, limit_bytes: int = 1_000_000) -> str:
        """What it has printed, at most the last `limit_bytes`."""
        with self.log_path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit_bytes))
            return _text(file.read())

    @property
    def log_size_bytes(self) -> int:
        """How much it has printed so far [bytes]."""
        return self.log_path.stat().st_size

    def printed_since(self, size_bytes: int, limit_bytes: int = 1_000_000) -> str:
        """What it has printed after its first `size_bytes`, at most `limit_bytes` from there."""
        with self.log_path.open("rb") as file:
            file.seek(size_bytes)
            return _text(file.read(limit_bytes))

    def last_line(self) -> str:
        """What it printed last; that it printed too much, where it was ended for that."""
        if self.process.poll() in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
            return f"it printed more than {FILE_LIMIT_BYTES / 1e6:.0f} MB"
        lines = self.output(4096).strip().splitlines()
        return printable(lines[-1][:LINE_LIMIT]) if lines else "no output"

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped it (SIGSTOP): it lives and does nothing."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in "Tt"

    def wait_for(self, text: str, timeout_s: float) -> bool:
        """Whether it prints `text` within `timeout_s`; gives up at once when it ends without."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            running = self.is_running  # asked first: what a dying program prints last is still read
            if text in self.output():
                return True
            if not running:
                return False
            time.sleep(0.01)
        return False

    def wait(self, timeout_s: float) -> bool:
        """Whether it ends by itself within `timeout_s`."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: int) -> None:
        """Send it a signal; does no harm when it has ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def interrupt(self) -> None:
        """SIGINT, which makes tcpdump and ping print what they have and end."""
        self.signal(signal.SIGINT)

    def close_input(self) -> None:
        """Close its standard input; does no harm when called twice."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # what it has not read is lost with it
                self.process.stdin.close()

    def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL to all that it started. Does no harm when called twice."""
        if self.is_running and not self.is_stopped:  # a stopped one would hear of it when it goes on
            self.process.terminate()
            self.wait(STOP_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End it and all that it started by SIGKILL. Does no harm when called twice."""
        _kill_session(self.process)
        self.process.wait()
        self.close_input()
        if self.process.stdout is not None:
            self.process.stdout.close()


class ReadDaemon(Daemon):
    """A program whose lines are taken as they come and then forgotten: it may print for weeks.

    What it prints goes to a pipe, which it fills where nobody reads.
    """

    _rest = b""
    _last = ""

    def _launch(self, argv: Sequence[str], *, has_input: bool, has_output: bool) -> subprocess.Popen[bytes]:
        del has_output  # it always has
        process = _popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not has_input and process.stdin is not None:
            process.stdin.close()
        if process.stdout is None:
            raise ValueError("it was started with a pipe")
        self._pipe = process.stdout
        os.set_blocking(self._pipe.fileno(), False)
        with suppress(OSError):  # over the system's limit for users
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return process

    def new_lines(self) -> list[str]:
        """What it has printed since the last call, as far as it came to the end of a line."""
        content = self._rest
        with suppress(BlockingIOError):
            while block := os.read(self._pipe.fileno(), PIPE_BYTES):
                content += block
                if len(content) > FILE_LIMIT_BYTES:
                    break
        whole, newline, rest = content.rpartition(b"\n")
        self._rest = rest[:FILE_LIMIT_BYTES]
        lines = _text(whole).split("\n") if newline else []
        self._last = next((line for line in reversed(lines) if line.strip()), self._last)
        return lines

    def output(self, limit_bytes: int = 1_000_000) -> str:
        """The last line that was taken: the others are forgotten."""
        return self._last[-limit_bytes:]


PIPE_BYTES = 1 << 20
"""The most that a pipe holds without privileges (pipe(7), pipe-max-size): some half an hour of the engine's lines."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Take down in peace: signals that ask to end are held back until the block is left, then heard.

    Where they arrive in the middle of it, half of what was set up would stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    held: list[int] = []
    # Handlers, not a mask: a thread that draws would receive what this one masks.
    previous = {
        number: signal.signal(number, lambda heard, _: held.append(heard))
        for number in ASK_TO_END
        if signal.getsignal(number) is not signal.SIG_IGN  # as nohup has it
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for heard in held:
            signal.raise_signal(heard)


ASK_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _popen(argv: Sequence[str], **streams: object) -> subprocess.Popen[bytes]:
    try:
        # A session of its own: a Ctrl-C on the terminal is for the controller, which takes down in order.
        return subprocess.Popen(list(argv), start_new_session=True, **streams)  # type: ignore[call-overload, no-any-return]
    except FileNotFoundError:
        raise CannotHere(f"the program `{argv[0]}` is missing", "tunnelbench doctor names the package") from None


def _limit_files(process: subprocess.Popen[bytes], limit_bytes: int | None = None) -> None:
    limit_bytes = limit_bytes or FILE_LIMIT_BYTES
    with suppress(ProcessLookupError):  # it has ended already
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))


def _memory_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("tunnelbench"), "w+b")


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise CannotHere(f"{path} cannot be written: {error.strerror}", "make room there") from None


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None and Path(f"/proc/{process.pid}").exists():
        return  # ours was waited for and left nobody behind: its number is a stranger's by now
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads its session, so its group has the same number


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
