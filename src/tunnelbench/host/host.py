"""The interface of a host, which runs commands and holds files: this machine, a namespace, or a machine behind SSH."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed, run_command
from tunnelbench.host.daemon import Daemon, ReadDaemon
from tunnelbench.host.procfs import CpuTimes
from tunnelbench.model.errors import CannotHere

RUN_FOLDER = Path("/run/tunnelbench")
"""Folder in memory for the keys and configurations of runs."""

THIS_MACHINE = "this machine"


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter, or check that an existing one is this user's.

    Raises CannotHere if it is a link, belongs to another user, or could be written by others: root runs the undo
    commands in the folders of runs.
    """
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if found.st_uid == 0 != os.geteuid():
            raise CannotHere(f"only root can use {folder}", "run it again as root, or with sudo")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise CannotHere(
                f"{folder} is not used, because it is a link, belongs to another user, or others can write to it",
                "look at what is in it, and delete it",
            )
        if found.st_mode & 0o055:
            folder.chmod(0o700)
    except OSError as error:
        raise unusable(folder, error) from None


def unusable(path: Path | str, error: OSError) -> CannotHere:
    """Return the error for a file or a folder of runs that cannot be used."""
    if isinstance(error, PermissionError):
        hint = "run it as root"
    else:
        hint = "make room there" if error.errno == errno.ENOSPC else "move it away"
    return CannotHere(f"{path} cannot be used: {error.strerror}", hint)


@dataclass(frozen=True)
class CpuReading:
    """CPU times of a host and of the tunnel's daemons on it, read at one moment."""

    clock_s: float
    """Time on this machine's monotonic clock [s]."""
    cpus: Mapping[int, CpuTimes]
    """Times by the number of the CPU."""
    daemons_s: Mapping[str, float] | None
    """CPU time of the tunnel's daemons by program [s]; None: there are no daemons."""
    daemons_method: str
    """Source of `daemons_s`: `schedstat` or `ticks`; empty: there are no daemons."""
    instructions: int | None = None
    """Number of instructions that a virtual CPU of fixed speed has executed since its start; None: any other host."""
    lag_s: float | None = None
    """Time by which the clock of a virtual CPU of fixed speed is behind this machine's clock [s]; None: any other
    host."""
    instructions_by_place: Mapping[str, int] | None = None
    """`instructions` by kernel function and program file; None: they are not counted by place."""


@dataclass(frozen=True)
class SamplerOutput:
    """The CPU readings of a sampler, and the CPU time that the sampler itself used."""

    readings: tuple[CpuReading, ...]
    cost_s: float | None
    """CPU time that the sampler itself used on the host [s]; None: unknown."""
    raw: str
    """Text that the readings were parsed from."""
    marked: tuple[CpuReading, ...] = ()
    """The readings of `Sampler.mark_open` and `Sampler.mark_close`; empty if the sampler reads at its own times."""


class Sampler(Protocol):
    """Reads the CPUs of another machine about once a second and keeps the readings there."""

    def mark_open(self) -> float:
        """Take a reading for the begin of the measured window, if the sampler can read at once.

        Returns the time by which a virtual clock is behind [s]. A further call replaces the reading.
        """

    def mark_close(self) -> None:
        """Take a reading for the end of the measured window, if the sampler can read at once."""

    def stop(self) -> SamplerOutput:
        """End the sampler and return its readings; a second call returns the same."""


class Host(ABC):
    """A place where commands run; the only interface that adapters have to a machine.

    `folder` is a directory of this run on that host, mode 0700, deleted with the run.
    """

    namespace: str = ""
    """Name of the host's network namespace on this machine; empty if the host is not a namespace."""
    shell_command: str = ""
    """Command that opens a shell on the host, for a user to examine it; empty if the host is not a namespace."""
    is_remote: bool = False
    """True if each command on the host goes over SSH."""
    has_own_clock: bool = False
    """True if the host's clock serves this run only, so that it may be set."""
    programs_key: str = ""
    """Key of the testbed that gives the host, a virtual machine, more programs; empty: packages can be installed."""

    def __init__(self, name: str, folder: Path, cpus: Sequence[int]) -> None:
        self.name = name
        self.folder = folder
        self.cpus = tuple(cpus)
        self._daemon_count = 0
        self.programs_survive = False
        """True if the programs that `start` starts keep running when the controller ends (`run --keep`)."""

    @property
    def machine(self) -> str:
        """Name of the machine that the host is on; hosts with the same name share it. Default: the host's own name."""
        return self.name

    @property
    def cpus_here(self) -> tuple[int, ...]:
        """CPUs of this machine that the host uses; empty if it is on another machine."""
        return self.cpus if self.machine == THIS_MACHINE else ()

    @abstractmethod
    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the argument list that, started on this machine, runs `argv` on the host and on its CPUs."""

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        """Start to read the CPUs of another machine, for at most `limit_s`; None: the host is this machine."""
        return None

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """Run a command on the host to its end; raises as `run_command`."""
        return run_command(self.command(argv), stdin=stdin, timeout_s=timeout_s, check=check, host=self.name)

    def run_undoable(self, argv: Sequence[str], undo: Sequence[str], *, stdin: str = "") -> None:
        """Run a command that changes the host. A host that exists without the run notes the command `undo` first, which
        has no effect if there is nothing to undo."""
        self.run(argv, stdin=stdin)

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        """Start a program on the host that runs until it is stopped; its output goes into the host's folder.

        `name` is the program's name in messages; empty: the first word of the command.
        """
        return Daemon(
            self.command(argv),
            *self._log_of(name or Path(argv[0]).name),
            has_input=has_input,
            host=self.name,
            survives=self.programs_survive,
        )

    def start_read(self, argv: Sequence[str]) -> ReadDaemon:
        """Start a program with an input, and read its output line by line as it comes."""
        return ReadDaemon(self.command(argv), *self._log_of(Path(argv[0]).name), has_input=True, host=self.name)

    def _log_of(self, name: str) -> tuple[Path, str]:
        """Return a new file for the output of a program with that name, and the program's name."""
        self._daemon_count += 1
        return self.folder / f"{self._daemon_count:04d}-{name}.log", name

    def write(self, name: str, content: str) -> Path:
        """Write a file into the host's folder; only its owner can read it, because it may hold a key."""
        path = self.folder / name
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(content)
        except OSError as error:
            raise CannotHere(f"{path} cannot be written: {error.strerror}", "make room there") from None
        return path

    def bring(self, program: Path) -> Path:
        """Copy a program of this machine to the host if it is another machine; returns the program's path there."""
        return program

    def remove(self, path: Path) -> None:
        """Delete a file on the host; does nothing if there is none."""
        path.unlink(missing_ok=True)

    def fetch(self, path: Path) -> bytes:
        """Return the content of a file on the host."""
        return path.read_bytes()

    def set_kernel_file(self, path: str, value: str) -> None:
        """Write a value into a file under /proc/sys or /sys as the host sees it."""
        self.run(["tee", path], stdin=value)

    def read(self, *paths: str) -> str:
        """Return the text of files as the host sees them, one after the other."""
        return self.run(["cat", *paths]).stdout

    def read_machine(self, path: str) -> str:
        """Return the text of a file that all namespaces of the machine share, without starting a process locally."""
        return Path(path).read_text()

    def ip(self, *arguments: str) -> Completed:
        """Run `ip` on the host."""
        return self.run(["ip", *arguments])

    def device_mtu_bytes(self, device: str) -> int | None:
        """Return the MTU of a device as `ip` prints it [bytes]; None if it cannot be read."""
        return self._number_of_device(device, "mtu")

    def device_queue_packets(self, device: str) -> int | None:
        """Return the length of a device's queue as `ip` prints it [packets]; None if it cannot be read."""
        return self._number_of_device(device, "qlen")

    def _number_of_device(self, device: str, name: str) -> int | None:
        found = re.search(rf"\b{name} (\d{{1,9}})\b", self.ip("link", "show", "dev", device).stdout)
        return int(found[1]) if found else None

    def ip_batch(self, *lines: str) -> None:
        """Run several `ip` commands on the host in one process; the first that fails ends it."""
        self.run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")

    def has_program(self, program: str) -> bool:
        """Return True if a program of that name or path can be started on the host."""
        return shutil.which(program) is not None

    def has_path(self, path: str) -> bool:
        """Return True if the host has such a file or device."""
        return Path(path).exists()

    @cached_property
    def has_ipv6(self) -> bool:
        """True if the host's kernel has IPv6."""
        return self.has_path("/proc/net/snmp6")

    def has_congestion_control(self, algorithm: str) -> bool:
        """Return True if TCP on the host can use an algorithm; the attempt loads a kernel module if it is one."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
            except OSError:
                return False
        return True

    def has_link_type(self, link_type: str, *arguments: str) -> bool:
        """Return True if the kernel there makes devices of a type such as `wireguard`.

        It makes one, with the arguments that the type needs, and deletes it: the kernel may load a module on demand, so
        that no list of modules is an answer.
        """
        probe = "tbprobe0"
        try:
            self.ip("link", "add", probe, "type", link_type, *arguments)
        except CommandFailed as error:
            return "exists" in error.output.lower()
        self.ip("link", "del", probe)
        return True

    def knows_socket(self, family: int, protocol: int) -> bool:
        """Return True if the host has datagram sockets of a family and protocol; the attempt loads a kernel module."""
        try:
            socket.socket(family, socket.SOCK_DGRAM, protocol).close()
        except OSError:
            return False
        return True

    def knows_netlink_family(self, family: str) -> bool:
        """Return True if the host's kernel answers `ip FAMILY show`; the attempt loads a module."""
        return self.run(["ip", family, "show", "tunnel"], check=False).returncode == 0

    def close(self) -> None:  # noqa: B027 # most hosts hold nothing
        """Release the host's resources, such as a connection or a namespace; a second call has no effect."""


class LocalHost(Host):
    """This machine as a host that makes keys and starts guests; its network is not changed."""

    machine = THIS_MACHINE

    def command(self, argv: Sequence[str]) -> list[str]:
        return list(argv)
