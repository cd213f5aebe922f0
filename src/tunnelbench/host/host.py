"""A host: something that runs commands and holds files. This machine, or a network namespace of it."""

from __future__ import annotations

import os
import shutil
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed, Completed, Daemon, ReadDaemon, run_command
from tunnelbench.host.procfs import CpuTimes
from tunnelbench.model.errors import CannotHere

RUN_FOLDER = Path("/run/tunnelbench")
"""Keys and configurations of a run live below it, in memory."""


LEAST_ARGUMENTS = {"vxlan": ("external",), "geneve": ("external",), "xfrm": ("if_id", "1")}
"""Without which no device of a type is made; an external (collect metadata) one needs no addresses."""


@dataclass(frozen=True)
class CpuReading:
    """One moment: every CPU's times, and what the tunnel's daemons on the host have used."""

    clock_s: float
    """On this machine's monotonic clock [s]."""
    cpus: Mapping[int, CpuTimes]
    daemons_s: Mapping[str, float] | None
    """CPU time of the tunnel's daemons by program [s]; None: there are none."""
    daemons_method: str


@dataclass(frozen=True)
class Samples:
    """What a sampler has read."""

    readings: tuple[CpuReading, ...]
    cost_s: float | None
    """What the sampler itself has used of the host's CPUs [s]; None: it did not come to telling that."""
    raw: str


class Sampler(Protocol):
    """Reads the CPUs of another machine about once a second; what it reads stays there until it is asked for."""

    def stop(self) -> Samples:
        """End it, and fetch what it has read; the second time it returns the same."""


class Host(ABC):
    """Where commands run. Adapters know nothing more of a machine than this.

    `folder` is a directory of this run on that host, mode 0700, deleted with the run.
    """

    def __init__(self, name: str, folder: Path, cpus: Sequence[int]) -> None:
        self.name = name
        self.folder = folder
        self.cpus = tuple(cpus)
        self._daemon_count = 0

    @property
    def machine(self) -> str:
        """What this host is on: two hosts of one name are one machine. By itself, unless a subclass says otherwise."""
        return self.name

    @property
    def cpus_here(self) -> tuple[int, ...]:
        """Those of this machine's CPUs that it uses: none of another machine."""
        return self.cpus if self.machine == THIS_MACHINE else ()

    @abstractmethod
    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list that runs `argv` on this host, on its CPUs, started from this machine."""

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        """What reads the CPUs of a host that is another machine, for at most `limit_s`; None: it is this one."""
        return None

    def run(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """Run a command there to its end; errors as `run_command`."""
        return run_command(self.command(argv), stdin=stdin, timeout_s=timeout_s, check=check)

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        """Start a program there that runs until it is stopped; its output goes into the host's folder.

        `name`: what people call it, where the first word of the command is another's.
        """
        return Daemon(self.command(argv), *self._log_of(name or Path(argv[0]).name), has_input=has_input)

    def start_read(self, argv: Sequence[str]) -> ReadDaemon:
        """The same, with an input, and its lines are taken as they come."""
        return ReadDaemon(self.command(argv), *self._log_of(Path(argv[0]).name), has_input=True)

    def _log_of(self, name: str) -> tuple[Path, str]:
        """Where the output of a new program of that name goes, and the name."""
        self._daemon_count += 1
        return self.folder / f"{self._daemon_count:04d}-{name}.log", name

    def write(self, name: str, content: str) -> Path:
        """Write a file into the host's folder, readable by its owner alone (it may hold a key)."""
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
        """Have a program of this machine there; returns where it is. On this machine it is there already."""
        return program

    def remove(self, path: Path) -> None:
        """Delete a file there; does no harm where there is none."""
        path.unlink(missing_ok=True)

    def fetch(self, path: Path) -> bytes:
        """What a file there holds."""
        return path.read_bytes()

    def set_kernel_file(self, path: str, value: str) -> None:
        """Write a value into a file under /proc/sys or /sys as this host sees it."""
        self.run(["tee", path], stdin=value)

    def read(self, *paths: str) -> str:
        """The text of files as this host sees them, one after the other."""
        return self.run(["cat", *paths]).stdout

    def read_machine(self, path: str) -> str:
        """The text of a file that is the same everywhere on that machine, read without starting a process on it."""
        return Path(path).read_text()

    def ip(self, *arguments: str) -> Completed:
        """Run `ip` there."""
        return self.run(["ip", *arguments])

    def ip_batch(self, *lines: str) -> None:
        """Run several `ip` commands there in one process; the first that fails ends it."""
        self.run(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")

    def has_program(self, program: str) -> bool:
        """Whether a program of that name (or path) can be started there."""
        return shutil.which(program) is not None

    def has_path(self, path: str) -> bool:
        """Whether there is such a file or device there."""
        return Path(path).exists()

    def has_congestion_control(self, algorithm: str) -> bool:
        """Whether TCP there can use an algorithm; one that is a module is loaded by trying."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
            except OSError:
                return False
        return True

    def has_link_type(self, link_type: str) -> bool:
        """Whether the kernel there makes devices of a type such as `wireguard`.

        It makes one and deletes it: a module may be loaded on demand, so nothing less tells.
        """
        probe = "tbprobe0"
        try:
            self.ip("link", "add", probe, "type", link_type, *LEAST_ARGUMENTS.get(link_type, ()))
        except CommandFailed as error:
            return "exists" in error.output.lower()
        self.ip("link", "del", probe)
        return True

    def knows_socket(self, family: int, protocol: int) -> bool:
        """Whether the kernel there has datagram sockets of a family and protocol; asking loads a module."""
        try:
            socket.socket(family, socket.SOCK_DGRAM, protocol).close()
        except OSError:
            return False
        return True

    def knows_netlink_family(self, family: str) -> bool:
        """Whether the kernel there answers `ip FAMILY show`; asking loads a module."""
        return self.run(["ip", family, "show", "tunnel"], check=False).returncode == 0


THIS_MACHINE = "this machine"


class LocalHost(Host):
    """This machine itself: where keys are made and guests are started; nothing of its network is touched."""

    machine = THIS_MACHINE

    def command(self, argv: Sequence[str]) -> list[str]:
        return list(argv)


class NamespaceHost(Host):
    """A network namespace of this machine."""

    machine = THIS_MACHINE

    def __init__(self, name: str, folder: Path, cpus: Sequence[int], namespace: str) -> None:
        super().__init__(name, folder, cpus)
        self.namespace = namespace
        self._anchor: Daemon | None = None

    def drop_anchor(self) -> None:
        """Keep a sleeping process in the namespace: under each of its processes the kernel shows its network."""
        anchor = self.start(["sleep", "infinity"])
        wanted = Path("/run/netns", self.namespace).stat().st_ino
        deadline = time.monotonic() + DEFAULT_TIMEOUT_S
        while Path(f"/proc/{anchor.pid}/ns/net").stat().st_ino != wanted:  # `ip netns exec` has not entered it yet
            if not anchor.is_running or time.monotonic() > deadline:
                raise CannotHere(f"no process can be started in namespace {self.namespace}: {anchor.last_line()}")
            time.sleep(0.001)
        self._anchor = anchor

    def weigh_anchor(self) -> None:
        """End the sleeping process; does no harm when called twice."""
        if self._anchor is not None:
            self._anchor.stop()
            self._anchor = None

    def read(self, *paths: str) -> str:
        if self._anchor is None:
            return super().read(*paths)
        # No process is started, so that reading in mid-trial costs the CPUs nothing to speak of.
        inside = [path.replace("/proc/net/", f"/proc/{self._anchor.pid}/net/") for path in paths]
        return "".join(Path(path).read_text() for path in inside)

    def command(self, argv: Sequence[str]) -> list[str]:
        if argv[0] == "ip":
            return ["ip", "-n", self.namespace, *argv[1:]]  # no exec and no mount: half the time
        cpu_list = ",".join(map(str, self.cpus))
        return ["ip", "netns", "exec", self.namespace, "taskset", "-c", cpu_list, *argv]
