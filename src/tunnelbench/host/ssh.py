"""A host behind SSH that needs nothing but an SSH server and a POSIX shell: dropbear and BusyBox will do.

The system's own OpenSSH is used, with the user's configuration, keys, jump hosts and host key checking. One connection
a host carries everything: commands, files by `cat` (a small router has no sftp) and programs that stay.
"""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tunnelbench.host.command import (
    DEFAULT_TIMEOUT_S,
    STOP_GRACE_S,
    CommandFailed,
    Completed,
    Daemon,
    ReadDaemon,
    read_output,
    run_command,
)
from tunnelbench.host.host import Host
from tunnelbench.host.procfs import parse_stat
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access

SOCKET_PREFIX = "tunnelbench-ssh-"
"""Of the folder with the connection's socket, in the folder for temporary files; what follows is the run's mark. A
socket's path has 108 bytes at most (unix(7)), and the user's ssh must reach it."""

CONNECT_LIMIT_S = 10
"""For the TCP connection; a small router then takes seconds to agree on keys."""

LOGIN_LIMIT_S = 30.0

ALIVE_EVERY_S = 5
ALIVE_MISSED = 3
"""So many questions in a row without an answer, and the connection is lost. A router whose CPU is saturated by the
traffic of a trial may well miss one or two."""

RETRY_S = 1.0

PID_LIMIT_S = 10.0
"""For a program that was started there to leave its number."""

BRING_LIMIT_S = 60.0
"""For a program of half a megabyte over a slow connection."""

FAILED = 255
"""What ssh ends with where it, and not the command, has failed (ssh(1))."""

CONNECTION_FAULTS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "it shows another host key than the one that is known",
        "after a new firmware that is normal: compare fingerprints, then forget the old one with ssh-keygen -R",
    ),
    (
        "Host key verification failed",
        "its host key is not known here",
        "log in once by hand, compare the fingerprint, and say yes",
    ),
    (
        "Permission denied",
        "it takes none of your keys, and a password is never typed here",
        "put a key on it: ssh-copy-id, or on OpenWrt a line in /etc/dropbear/authorized_keys",
    ),
    ("Connection refused", "no SSH server answers on that port", "start it there, or name its port"),
    ("Could not resolve hostname", "there is no host of that name", "check the name, or give its address"),
    ("No route to host", "there is no way to it", "check cable and address"),
    ("Network is unreachable", "there is no way to it", "check cable and address"),
    ("timed out", "it does not answer", "check that it is switched on, the cable and the address"),
    ("not responding", "it no longer answers", "check that it is switched on, and the cable"),
)
"""What ssh prints, what that means, and what to do."""

STAY = """
umask 077
echo $$ >"$1" || exit 1
shift
exec 3<&0
{ cat <&3; kill $$; } >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-
"""
"""Runs a program as this very process, its number in a file; it is ended when the connection is: then the session's
standard input ends. `exec`, so that it ignores no signals, as a shell's background jobs do."""

STAY_WITH_INPUT = """
umask 077
echo $$ >"$1" || exit 1
shift
exec "$@"
"""
"""The same for a program that ends with its input."""


def in_shell(script: str, *arguments: str) -> list[str]:
    """The command that runs a piece of POSIX shell on the far side, where a shell takes every command in any case.

    `script` is a constant of ours; what varies goes in as `arguments`, its $1, $2, ...
    """
    return ["sh", "-c", script, "sh", *arguments]


def by_shell(file: str, *arguments: str) -> list[str]:
    """The command that runs a script there, whether or not its file system lets files be run."""
    return ["sh", file, *arguments]


def left_sockets(mark: str) -> list[Path]:
    """Folders with sockets of connections that a killed run has left; the connections have ended with it."""
    return sorted(Path(tempfile.gettempdir()).glob(f"{SOCKET_PREFIX}{mark}-*"))


class LinkLost(CommandFailed):
    """The connection to a host was lost, or is not there: what runs on it now nobody knows."""

    def __init__(self, message: str, hint: str = "") -> None:
        CannotHere.__init__(self, message, hint)
        self.output = ""


class SshHost(Host):
    """A machine that is reached by SSH; `with` or `connect` and `close` hold its connection.

    `via` is where ssh runs: this machine, or a namespace from which the host is to be reached. `folder` is on that
    machine; what its programs print is kept in `log_folder` on this one.
    """

    def __init__(self, name: str, access: Access, folder: Path, log_folder: Path, via: Host) -> None:
        super().__init__(name, folder, ())
        self.access = access
        self.log_folder = log_folder
        self.via = via
        self._master: Daemon | None = None
        self._socket_folder: Path | None = None

    # The connection

    @property
    def is_connected(self) -> bool:
        return self._master is not None and self._master.is_running

    def connect(self) -> None:
        """Log in, make the host's folder and count its CPUs; does nothing where that is done.

        Raises LinkLost with what is wrong in words.
        """
        if self.is_connected:
            return
        self.close()
        for folder in (self.log_folder, self.via.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket_folder = Path(tempfile.mkdtemp(prefix=f"{SOCKET_PREFIX}{self.log_folder.parent.name[-6:]}-"))
        argv = [*self._as_user(self._socket_folder), "ssh", "-M", "-N", *self._options(), self.access.host]
        self._master = self.via.start(argv, name=f"ssh-{self.name}")
        deadline = time.monotonic() + LOGIN_LIMIT_S
        while not self._socket.exists():
            if not self._master.is_running or time.monotonic() > deadline:
                said = self._master.output()
                self.close()
                raise self._fault(said)
            time.sleep(0.01)
        self.run(["mkdir", "-p", "-m", "700", str(self.folder)])
        self.cpus = tuple(sorted(parse_stat(self.read("/proc/stat"))))

    def reconnect(self, limit_s: float) -> None:
        """Log in again, trying for at most `limit_s`. Raises LinkLost with the last reason."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self.connect()
            except LinkLost:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)
            else:
                return

    def close(self) -> None:
        """End the connection, and with it all that was started over it; does no harm when called twice."""
        if self._master is not None:
            self._master.stop()
            self._master = None
        if self._socket_folder is not None:
            with suppress(FileNotFoundError):
                self._socket.unlink()
            self._socket_folder.rmdir()
            self._socket_folder = None

    @property
    def _socket(self) -> Path:
        if self._socket_folder is None:
            raise LinkLost(f"there is no SSH connection to the {self.name}")
        return self._socket_folder / "s"

    def _options(self) -> list[str]:
        access = self.access
        # fmt: off
        return ["-T", "-x", "-S", str(self._socket), "-o", "BatchMode=yes", "-o", "ControlPersist=no",
                "-o", "ClearAllForwardings=yes", "-o", f"ConnectTimeout={CONNECT_LIMIT_S}",
                "-o", f"ServerAliveInterval={ALIVE_EVERY_S}", "-o", f"ServerAliveCountMax={ALIVE_MISSED}",
                *(["-F", access.config] if access.config else []),
                *(["-i", access.identity] if access.identity else []),
                *(["-p", str(access.port)] if access.port else [])]
        # fmt: on

    def _as_user(self, folder: Path) -> list[str]:
        """Under sudo, the words by which ssh runs as the user who called: theirs are the keys and the known hosts."""
        uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
        if os.geteuid() != 0 or not uid.isdigit() or not gid.isdigit() or uid == "0":
            return []
        os.chown(folder, int(uid), int(gid))
        return ["setpriv", "--reuid", uid, "--regid", gid, "--init-groups", "--pdeathsig", "KILL"]

    def _fault(self, said: str) -> LinkLost:
        """What went wrong with the connection, from what ssh printed."""
        beginning = f"the {self.name}, {self.access.host}, cannot be reached by SSH"
        for words, meaning, hint in CONNECTION_FAULTS:
            if words in said:
                return LinkLost(f"{beginning}: {meaning}", hint)
        lines = said.strip().splitlines()
        return LinkLost(f"{beginning}: {lines[-1] if lines else 'ssh did not say why'}")

    # What a host is asked

    @property
    def machine(self) -> str:
        return self.name

    def command(self, argv: Sequence[str]) -> list[str]:
        # Without the connection there is to be no other in its place: ssh would take one if it could.
        return ["ssh", "-S", str(self._socket), "-T", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR",
                *(["-F", self.access.config] if self.access.config else []),
                self.access.host, "--", shlex.join(argv)]  # fmt: skip

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """As `Host.run`; LinkLost where the connection is lost, whatever `check` says."""
        return self._to_its_end(argv, stdin, timeout_s, check=check)

    def _to_its_end(self, argv: Sequence[str], stdin: str | bytes, timeout_s: float, *, check: bool) -> Completed:
        if not self.is_connected:
            raise self._lost()
        done = run_command(self.command(argv), stdin=stdin, timeout_s=timeout_s, check=False)
        if done.returncode == FAILED and not self._still_there():
            raise self._lost()
        if check and done.returncode != 0:
            raise CommandFailed(argv, f"ended with status {done.returncode} on the {self.name}", done.stderr)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def shell(self, script: str, *arguments: str, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """What a piece of POSIX shell prints there; `arguments` are its $1, $2, ..."""
        return self.run(in_shell(script, *arguments), stdin=stdin, timeout_s=timeout_s).stdout

    def _still_there(self) -> bool:
        checked = run_command(
            ["ssh", "-S", str(self._socket), "-O", "check", self.access.host], check=False, timeout_s=PID_LIMIT_S
        )
        return checked.returncode == 0 and self.is_connected

    def _lost(self) -> LinkLost:
        said = self._master.output() if self._master else ""
        lines = said.strip().splitlines()
        because = f": {lines[-1]}" if lines else ""
        return LinkLost(f"the SSH connection to the {self.name} was lost{because}")

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        if not self.is_connected:
            raise self._lost()
        log_path, called = self._log_of(name or Path(argv[0]).name)
        pid_path = str(self.folder / f"{log_path.stem}.pid")
        started = in_shell(STAY_WITH_INPUT if has_input else STAY, pid_path, *argv)
        return SshDaemon(self, started, log_path, called, pid_path, has_input=has_input)

    def start_read(self, argv: Sequence[str]) -> ReadDaemon:
        raise CannotHere(f"a soak cannot run with the {self.name} behind SSH yet", "leave [soak] out")

    def _log_of(self, name: str) -> tuple[Path, str]:
        path, name = super()._log_of(name)
        return self.log_folder / path.name, name

    def write(self, name: str, content: str) -> Path:
        return self._put(name, content.encode())

    def bring(self, program: Path) -> Path:
        path = self._put(program.name, program.read_bytes(), BRING_LIMIT_S)
        self.run(["chmod", "700", str(path)])
        return path

    def _put(self, name: str, content: bytes, timeout_s: float = DEFAULT_TIMEOUT_S) -> Path:
        path = self.folder / name
        script = in_shell('umask 077; mkdir -p "${1%/*}" && cat >"$1"', str(path))
        try:
            self._to_its_end(script, content, timeout_s, check=True)
        except LinkLost:
            raise
        except CommandFailed as error:
            why = (error.output.strip().splitlines() or ["no reason given"])[-1]
            with suppress(CommandFailed):  # half of it would only take more room
                self.remove(path)
            message = f"{path} cannot be written on the {self.name}: {why}"
            raise CannotHere(message, "its /tmp is its memory: make room there, or restart it") from None
        return path

    def remove(self, path: Path) -> None:
        self.run(["rm", "-f", str(path)])

    def fetch(self, path: Path) -> bytes:
        return read_output(self.command(["cat", str(path)]))

    def read_machine(self, path: str) -> str:
        return self.read(path)

    def ip_batch(self, *lines: str) -> None:
        # BusyBox's `ip` has no -batch.
        self.shell("\n".join(["set -e", *(shlex.join(["ip", *shlex.split(line)]) for line in lines)]))

    def has_program(self, program: str) -> bool:
        return self.run(["command", "-v", program], check=False).returncode == 0

    def has_path(self, path: str) -> bool:
        return self.run(["test", "-e", path], check=False).returncode == 0

    def has_congestion_control(self, algorithm: str) -> bool:
        if algorithm in self.read("/proc/sys/net/ipv4/tcp_available_congestion_control").split():
            return True
        return self.run(["modprobe", f"tcp_{algorithm}"], check=False).returncode == 0

    def knows_socket(self, family: int, protocol: int) -> bool:
        """Taken for granted: nothing on a small router opens such a socket by itself. Bringing the tunnel up tells."""
        del family, protocol
        return True

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SshDaemon(Daemon):
    """A program on a host behind SSH. What it prints comes over the connection into a file here."""

    def __init__(
        self, host: SshHost, argv: Sequence[str], log_path: Path, name: str, pid_path: str, *, has_input: bool
    ) -> None:
        self.host = host
        self.pid_path = pid_path
        self.has_input = has_input
        self._pid: int | None = None
        super().__init__(host.command(argv), log_path, name, has_input=True)

    @property
    def pid(self) -> int:
        """Its number on that host."""
        deadline = time.monotonic() + PID_LIMIT_S
        while self._pid is None:
            told = self.host.run(["cat", self.pid_path], check=False).stdout.strip()
            if told.isdigit():
                self._pid = int(told)
            elif not self.is_running or time.monotonic() > deadline:
                raise CannotHere(f"{self.name} does not start on the {self.host.name}: {self.last_line()}")
        return self._pid

    @property
    def is_stopped(self) -> bool:
        """Not asked: that would be one more command on a router that is being measured."""
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
