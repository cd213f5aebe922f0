"""A host behind SSH that needs only an SSH server and a POSIX shell, such as dropbear and BusyBox.

The system's OpenSSH is used, with the user's configuration, keys, jump hosts and host key checking. One connection per
host carries everything: commands, files (by `cat`, because a small router has no sftp) and programs that keep running.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Self

from tunnelbench.host.command import (
    DEFAULT_TIMEOUT_S,
    CommandFailed,
    Completed,
    last_lines,
    read_output,
    remove_tree,
    run_command,
)
from tunnelbench.host.daemon import Daemon, ReadDaemon
from tunnelbench.host.host import RUN_FOLDER, Host
from tunnelbench.host.parsing import UnexpectedOutput, count
from tunnelbench.host.procfs import parse_stat
from tunnelbench.host.ssh_config import require_trusted_config
from tunnelbench.host.ssh_programs import MAKE_FOLDER, PUT_FILE, SshDaemon, in_shell
from tunnelbench.host.trust import sudo_number
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess

SOCKET_FOLDERS = RUN_FOLDER.parent
"""Folder of the folders with the connections' sockets.

A socket's path has at most 108 bytes (unix(7)), and the user's ssh must reach it. Only root can write here, and the
folder does not depend on the environment, so that `clean` finds what a killed run has left.
"""

SOCKET_PREFIX = "tunnelbench-ssh-"
"""Beginning of the name of the folder with a connection's socket; the run's mark follows."""

CONNECT_LIMIT_S = 10
"""Limit for the TCP connection [s]; a small router then needs seconds to agree on keys."""

LOGIN_LIMIT_S = 30.0
"""Limit for the whole login [s]."""

KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_MISSES = 3
"""Number of unanswered keepalives in a row after which the connection is lost.

The traffic of a trial may saturate the router's CPU, so that the router misses one or two.
"""

NOTHING_HANDED_OVER = tuple(
    word
    for setting in (
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "Tunnel=no",
        "GSSAPIDelegateCredentials=no",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "ControlPersist=no",
        "ForkAfterAuthentication=no",
        "UpdateHostKeys=no",
        "SetEnv=TUNNELBENCH=1",  # ssh takes the first SetEnv alone, and it cannot be empty
    )
    for word in ("-o", setting)
)
"""Options of every ssh: settings of the user that would give the router the user's agent or credentials, forward
something, start another command here or there, or add keys that the router names to the known hosts, are off
(ssh_config(5); options precede files).

These options are given for the shared connection and again for each command in it, because each command asks for agent
forwarding by itself.
"""

SSH = ("ssh",)
"""The program."""

NO_SETTINGS = ("-F", "none")
"""Option of a command in the shared connection, which needs no settings: SendEnv would give the router variables of the
environment, and no option turns it off."""

LOGIN_PAUSE_S = 1.0
"""Pause before the next attempt to log in [s]."""

CHECK_LIMIT_S = 10.0
"""Limit for a check of the connection [s]."""

BRING_LIMIT_S = 60.0
"""Limit for copying a program of half a megabyte over a slow connection [s]."""

SSH_FAILED = 255
"""Exit status of ssh if ssh itself failed, and not the command (ssh(1))."""

CONNECTION_FAULTS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that this machine knows",
        "a new firmware has a new key: compare the fingerprints, then remove the old key with ssh-keygen -R",
    ),
    (
        "Host key verification failed",
        "this machine does not know its host key",
        "log in once by hand, compare the fingerprint, and answer yes",
    ),
    (
        "Permission denied",
        "it accepts none of your keys, and TunnelBench uses no passwords",
        "put a key on it with ssh-copy-id, or on OpenWrt as a line in /etc/dropbear/authorized_keys",
    ),
    ("Connection refused", "no SSH server answers on that port", "start the SSH server, or name its port"),
    ("Could not resolve hostname", "there is no host of that name", "check the name, or give the address"),
    ("No route to host", "there is no route to it", "check the cable and the address"),
    ("Network is unreachable", "there is no route to it", "check the cable and the address"),
    ("timed out", "it does not answer", "check that it is switched on, and check the cable and the address"),
    ("not responding", "it no longer answers", "check that it is switched on, and check the cable"),
)
"""Messages in ssh's output, each with its meaning and a hint for the user."""


ANSWERS = (
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Host key verification failed",
    "Permission denied",
    "Could not resolve hostname",
)
"""Messages of CONNECTION_FAULTS after which a restart of the host would not help."""


def left_sockets(mark: str) -> list[Path]:
    """List the folders with sockets that a killed run left behind; the connections ended with the run."""
    found = SOCKET_FOLDERS.glob(f"{SOCKET_PREFIX}{mark}-*")
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


def _from_root(path: str) -> str:
    """Return a path that a testbed names, from / on: ssh starts in another folder. ssh itself reads `~` and `none`."""
    return path if path.startswith("~") or path == "none" else str(Path(path).absolute())


class LinkLost(CommandFailed):
    """The connection to a host was lost or does not exist; the state of the host is unknown."""

    def __init__(self, message: str, hint: str = "", *, is_silent: bool = True) -> None:
        CannotHere.__init__(self, message, hint)
        self.output = ""
        self.is_silent = is_silent
        """False if the host refused the login, or has no address: a restart of the host would not help."""


@dataclass(frozen=True)
class SshServer:
    """Address and TCP port of an SSH server."""

    address: IPv4Address | IPv6Address
    port: int


def parse_ssh_connection(text: str) -> SshServer | None:
    """Return the server that SSH_CONNECTION names (ssh(1): addresses and ports of client and server); None if it names
    none, as that of a server without a socket."""
    try:
        _, _, host, port_text = text.split()
        address, port = ip_address(host.partition("%")[0]), count(port_text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return SshServer(mapped or address, port) if port < 65536 else None


class SshHost(Host):
    """A machine behind SSH; `with`, or `connect` and `close`, hold the connection.

    `via` is the host on which ssh runs: this machine, or a namespace from which the machine can be reached. `folder` is
    on the remote machine; the output of its programs is kept in `log_folder` on this machine.
    """

    is_remote = True

    def __init__(self, name: str, access: HostAccess, folder: Path, log_folder: Path, via: Host) -> None:
        super().__init__(name, folder, ())
        self.access = access
        self.log_folder = log_folder
        self.via = via
        self._master: Daemon | None = None
        self._socket_folder: Path | None = None

    # The connection

    @property
    def is_connected(self) -> bool:
        """True if the connection is up."""
        return self._master is not None and self._master.is_running

    def connect(self) -> None:
        """Log in, make the host's folder and count its CPUs; does nothing if the connection is up.

        Raises LinkLost with the reason and a hint, CannotHere if another user could change the SSH configuration, or a
        file that it includes.
        """
        if self.is_connected:
            return
        self.close()
        if self.access.config:
            require_trusted_config(self.access.config)
        for folder in (self.log_folder, self.via.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = f"{SOCKET_PREFIX}{self.log_folder.parent.name[-6:]}-"
        self._socket_folder = Path(tempfile.mkdtemp(prefix=prefix, dir=SOCKET_FOLDERS))
        argv = [*self._as_user(self._socket_folder), *self._ssh(), *self._login_options(), self.access.host]
        try:
            self._log_in(argv)
        except BaseException:  # also an interrupt: nobody else would end ssh and remove its socket
            self.close()
            raise

    def _log_in(self, argv: Sequence[str]) -> None:
        """Start the connection's ssh, make the host's folder and count its CPUs. Raises as `connect`."""
        self._master = self.via.start(argv, name=f"ssh-{self.name}")
        deadline = time.monotonic() + LOGIN_LIMIT_S
        while not self._socket.exists():
            if not self._master.is_running or time.monotonic() > deadline:
                raise self._fault(self._master.output())
            time.sleep(0.01)
        made = self.run(in_shell(MAKE_FOLDER, str(self.folder)), check=False)
        if made.returncode != 0:
            raise CannotHere(
                f"the folder {self.folder} cannot be made on the {self.name}: {last_lines(made.stderr, 1)}",
                "look at it there, and remove it",
            )
        try:
            self.cpus = tuple(sorted(parse_stat(self.read("/proc/stat"))))
        except UnexpectedOutput:
            raise CannotHere(f"/proc/stat of the {self.name} has no CPU times", "look at it there") from None

    def reconnect(self, limit_s: float) -> None:
        """Try to log in again for at most `limit_s`. Raises LinkLost with the last reason."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self.connect()
            except LinkLost:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOGIN_PAUSE_S)
            else:
                return

    def close(self) -> None:
        if self._master is not None:
            self._master.stop()
            self._master = None
        if self._socket_folder is not None:
            remove_tree(self._socket_folder, ignore_errors=True)  # an ssh that was killed may leave a second file
            self._socket_folder = None

    @property
    def _socket(self) -> Path:
        if self._socket_folder is None:
            raise LinkLost(f"there is no SSH connection to the {self.name}")
        return self._socket_folder / "s"

    def _ssh(self) -> list[str]:
        """Return the beginning of every command line of ssh for this host."""
        return [*SSH, "-T", "-S", str(self._socket), *NOTHING_HANDED_OVER]

    def _login_options(self) -> list[str]:
        access = self.access
        # fmt: off
        return [*(["-F", _from_root(access.config)] if access.config else []),
                "-M", "-N", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_LIMIT_S}",
                "-o", f"ServerAliveInterval={KEEPALIVE_INTERVAL_S}", "-o", f"ServerAliveCountMax={KEEPALIVE_MISSES}",
                *(["-i", _from_root(access.identity)] if access.identity else []),
                *(["-p", str(access.port)] if access.port else [])]
        # fmt: on

    def _as_user(self, folder: Path) -> list[str]:
        """Return the words that run ssh as the user who called sudo, who has the keys and the known hosts."""
        uid, gid = sudo_number("SUDO_UID"), sudo_number("SUDO_GID")
        if os.geteuid() != 0 or not uid or gid is None:
            return []
        os.chown(folder, uid, gid)
        return ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--init-groups", "--pdeathsig", "KILL"]

    def _fault(self, output: str) -> LinkLost:
        """Return the error for a login that failed, from the output of ssh."""
        failed = f"the {self.name}, {self.access.host}, cannot be reached by SSH"
        for words, meaning, hint in CONNECTION_FAULTS:
            if words in output:
                return LinkLost(f"{failed}: {meaning}", hint, is_silent=words not in ANSWERS)
        return LinkLost(f"{failed}: {last_lines(output, 1)}")

    # Commands and files

    def command(self, argv: Sequence[str]) -> list[str]:
        # ProxyCommand: without the shared connection, ssh would open a new one.
        options = ["-o", "ProxyCommand=false", "-o", "LogLevel=ERROR"]
        return [*self._ssh(), *NO_SETTINGS, *options, self.access.host, "--", shlex.join(argv)]

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """Run a command as `Host.run` does. Raises LinkLost if the connection is lost, without `check`, too."""
        return self._finished(argv, self._run(argv, stdin, timeout_s), check=check)

    def _run(self, argv: Sequence[str], stdin: str | bytes, timeout_s: float) -> Completed:
        if not self.is_connected:
            raise self._link_lost()
        done = run_command(self.command(argv), stdin=stdin, timeout_s=timeout_s, check=False, host=self.name)
        if done.returncode == SSH_FAILED and not self._answers():
            raise self._link_lost()
        return done

    def _finished(self, argv: Sequence[str], done: Completed, *, check: bool) -> Completed:
        """Return a command's result without the SSH wrapper. Raises CommandFailed if it failed and `check` is set."""
        if check and done.returncode != 0:
            raise CommandFailed(argv, f"ended with status {done.returncode} on the {self.name}", done.stderr)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def shell(self, script: str, *arguments: str, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Run a piece of POSIX shell on the host and return its output; `arguments` are its $1, $2, ..."""
        return self.run(in_shell(script, *arguments), stdin=stdin, timeout_s=timeout_s).stdout

    def ssh_server(self) -> SshServer | None:
        """Return the host's SSH server as the host itself names it; None if the host does not say."""
        return parse_ssh_connection(self.shell('echo "$SSH_CONNECTION"'))

    def _answers(self) -> bool:
        """Return True if the connection's ssh process answers."""
        argv = [*self._ssh(), *NO_SETTINGS, "-O", "check", self.access.host]
        return run_command(argv, check=False, timeout_s=CHECK_LIMIT_S).returncode == 0 and self.is_connected

    def _link_lost(self) -> LinkLost:
        output = self._master.output() if self._master else ""
        reason = f": {last_lines(output, 1)}" if output.strip() else ""
        return LinkLost(f"the SSH connection to the {self.name} was lost{reason}")

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        if not self.is_connected:
            raise self._link_lost()
        log_path, name = self._log_of(name or Path(argv[0]).name)
        return SshDaemon(self, argv, log_path, name, has_input=has_input)

    def start_read(self, argv: Sequence[str]) -> ReadDaemon:
        raise CannotHere(f"a soak cannot run yet if the {self.name} is behind SSH", "leave [soak] out")

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
        done = self._run(in_shell(PUT_FILE, str(self.folder), str(path)), content, timeout_s)
        if done.returncode != 0:
            raise CannotHere(
                f"{path} cannot be written on the {self.name}: {last_lines(done.stderr, 1)}",
                "its /tmp is in its memory: delete files there, or restart it",
            )
        return path

    def remove(self, path: Path) -> None:
        self.run(["rm", "-f", str(path)])

    def fetch(self, path: Path) -> bytes:
        return read_output(self.command(["cat", str(path)]), host=self.name)

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
        """Return True without a check, for which small routers have no program. A missing socket fails later."""
        del family, protocol
        return True

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
