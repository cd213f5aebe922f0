"""A virtual machine that runs: started by QEMU, told apart from this machine by its own threads' time."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tunnelbench.host.command import Daemon, run_command
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import cpio
from tunnelbench.qemu.boards import Board
from tunnelbench.qemu.image import Image
from tunnelbench.qemu.quota import cpu_share

NAME_PREFIX = "tunnelbench-"
"""Its QEMU is called so, followed by the mark of its run and its role: by that `clean` knows it."""

BOOT_LIMIT_S = 120.0
"""From QEMU's start to dropbear's; some 7 s on a quiet machine."""

ALIAS = "tunnelbench-router"
"""What the virtual router is called in its ssh_config."""

READY = "tunnelbench: ready"

MAC_PREFIX = "52:54:00:54:42"
"""QEMU's own range; the last byte is the number of the device."""

MANAGEMENT = "mgmt"
MANAGEMENT_ADDRESS = "10.0.2.15/24"
"""The first address that QEMU's network of its own hands out (-netdev user)."""

PROGRAMS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
"""What it needs beside its board's QEMU, and the Debian package that holds it."""

VIRTIO_OFFLOADS = (
    "csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo", "guest_csum", "guest_tso4", "guest_tso6",
    "guest_ecn", "guest_ufo", "mrg_rxbuf",
)  # fmt: skip
"""All that would let one frame stand for several packets, or have its checksum made elsewhere (rules 1 and 2)."""


@dataclass(frozen=True)
class Nic:
    """A network device of a machine, on a tap of a tester or on a cable to another machine."""

    name: str
    address: str
    """With its prefix length, as 198.18.1.1/24."""
    descriptor: int
    """Of the tap, or of one end of the cable: a datagram is a frame."""
    number: int
    """Of the device among all of a run, 1 to 255: two on one cable differ."""
    is_tap: bool = True

    def backend(self) -> str:
        """What is behind it, as QEMU's -netdev takes it."""
        if self.is_tap:
            return f"tap,id={self.name},fd={self.descriptor}"
        return f"dgram,id={self.name},local.type=fd,local.str={self.descriptor}"


def cable() -> tuple[int, int]:
    """The descriptors of the two ends of a cable between two machines; whoever asks for it closes them."""
    return tuple(end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))  # type: ignore[return-value]


@dataclass(frozen=True)
class Access:
    """How the system's OpenSSH reaches it: everything is in one file, the key and its host key beside it."""

    config: Path
    alias: str = ALIAS

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list that runs a command there; its words must need no quoting."""
        return ["ssh", "-F", str(self.config), self.alias, *argv]


@dataclass(frozen=True)
class Threads:
    """What the threads of a QEMU had of this machine's CPUs, up to one moment; read outside, where no tick errs."""

    clock_s: float
    spent_s: Mapping[str, float]
    """On a CPU, by the thread's name and number [s]; `CPU 0/TCG` are the router's instructions, others its devices."""
    waited_s: float
    """Ready to run and kept waiting, by other processes or by the quota, summed over all [s]."""

    def __sub__(self, before: Threads) -> Threads:
        return Threads(
            self.clock_s - before.clock_s,
            {name: spent_s - before.spent_s.get(name, 0.0) for name, spent_s in self.spent_s.items()},
            self.waited_s - before.waited_s,
        )

    @property
    def total_s(self) -> float:
        return sum(self.spent_s.values())

    @property
    def busiest_s(self) -> float:
        return max(self.spent_s.values(), default=0.0)


def read_threads(pid: int) -> Threads:
    """Of a process, now; the first two fields of schedstat (Documentation/scheduler/sched-stats.rst).

    Threads that only read its disk come and go, and are left out.
    """
    spent_s, waited_s = {}, 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has just ended
            name = (task / "comm").read_text().strip()
            if name != "worker":
                ran_ns, waiting_ns, _ = (task / "schedstat").read_text().split()
                spent_s[f"{name} {task.name}"] = int(ran_ns) / 1e9
                waited_s += int(waiting_ns) / 1e9
    return Threads(time.monotonic(), spent_s, waited_s)


class Machine:
    """A virtual router that is up once it is made, and gone when its block is left."""

    def __init__(
        self,
        board: Board,
        image: Image,
        mark: str,
        folder: Path,
        *,
        role: str = "router",
        nics: Sequence[Nic] = (),
        cpus: Sequence[int] = (),
        share_percent: float | None = None,
        boot_limit_s: float = BOOT_LIMIT_S,
    ) -> None:
        """`role`: what it is called, one word in small letters; `cpus`: those of this machine that it may use, none:
        all; `share_percent`: of one of them, once it is up."""
        require_programs(board)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.board = board
        self.share_percent = share_percent
        port = free_port()
        self.access = write_access(folder, port)
        initramfs = write_initramfs(image, folder, nics)
        argv = Boot(board, image, initramfs, f"{mark}-{role}", port, nics).command()
        if cpus:
            argv = ["taskset", "-c", ",".join(map(str, cpus)), *argv]
        with ExitStack() as stack:
            self._daemon = Daemon(argv, folder / "console.log", "QEMU", pass_fds=[nic.descriptor for nic in nics])
            stack.callback(self._daemon.kill)  # it keeps nothing, and may hang over SIGTERM
            self.boot_s = self._wait_until_ready(boot_limit_s)
            if share_percent is not None:
                stack.enter_context(cpu_share(f"{mark}-{role}", share_percent, self._daemon.pid))
                stack.callback(self._daemon.kill)  # before its group is removed
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it at once; does no harm when called twice."""
        self._stack.close()

    @property
    def is_running(self) -> bool:
        return self._daemon.is_running

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def threads(self) -> Threads:
        """What it has used of this machine up to now."""
        return read_threads(self._daemon.pid)

    def last_words(self) -> str:
        """The last line on its console."""
        return f"last on its console: {self._daemon.last_line()}"

    def _wait_until_ready(self, limit_s: float) -> float:
        started_s = time.monotonic()
        if not self._daemon.wait_for(READY, limit_s):
            ended = "ended" if not self._daemon.is_running else f"was not up in {limit_s:g} s"
            raise CannotHere(f"the virtual router {self.board.name} {ended}; {self.last_words()}")
        return time.monotonic() - started_s


def require_programs(board: Board) -> None:
    """Raises CannotHere that names what is missing for starting it."""
    needed = {board.program: board.package, **PROGRAMS}
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        packages = " ".join(sorted({needed[program] for program in missing}))
        raise CannotHere(
            f"missing here for the virtual router {board.name}: {', '.join(missing)}", f"apt-get install {packages}"
        )


@dataclass(frozen=True)
class Boot:
    """How QEMU is started."""

    board: Board
    image: Image
    initramfs: Path
    name: str
    """Of the machine: the mark of its run and its role."""
    port: int
    """Of this machine, that leads to its SSH server."""
    nics: Sequence[Nic] = ()

    def command(self, *, on_terminal: bool = False) -> list[str]:
        """The argument list; with `on_terminal` its console is the terminal, and has a shell."""
        board = self.board
        arguments = ["console=ttyS0", "panic=-1", "quiet", board.kernel_arguments]
        arguments += ["tunnelbench.level"] if board.interrupts_are_edge_triggered else []
        arguments += ["tunnelbench.shell"] if on_terminal else []
        # fmt: off
        argv = [
            board.program, "-name", f"{NAME_PREFIX}{self.name},debug-threads=on", *board.hardware, "-m", board.memory,
            "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-kernel", str(self.image.kernel), "-initrd", str(self.initramfs),
            "-append", " ".join(filter(None, arguments)),
            "-drive", f"file={self.image.disk},if=none,id=disk,format=raw,readonly=on",
            # A Malta has four slots: the disk and three network devices fill them (arch/mips/pci/fixup-malta.c).
            "-device", "virtio-blk-pci,drive=disk",
            # Only the controller reaches it this way, and it reaches nobody.
            "-netdev", f"user,id={MANAGEMENT},restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device", _device(MANAGEMENT, 0),
        ]
        for nic in self.nics:
            argv += ["-netdev", nic.backend(), "-device", _device(nic.name, nic.number)]
        # fmt: on
        return argv


def _device(name: str, number: int) -> str:
    offloads = ",".join(f"{offload}=off" for offload in VIRTIO_OFFLOADS)
    return f"virtio-net-pci,netdev={name},mac={_mac(number)},romfile=,{offloads}"


def _mac(number: int) -> str:
    return f"{MAC_PREFIX}:{number:02x}"


def write_access(folder: Path, port: int) -> Access:
    """Make keys for one boot, the router's own among them, so that whoever connects knows it beforehand."""
    for name in ("key", "host_key"):
        (folder / name).unlink(missing_ok=True)
        run_command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)])
    (folder / "known_hosts").write_text(f"{ALIAS} {(folder / 'host_key.pub').read_text()}")
    settings = {
        "HostName": "127.0.0.1",
        "Port": str(port),
        "User": "root",
        "HostKeyAlias": ALIAS,
        "IdentityFile": str(folder / "key"),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(folder / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "LogLevel": "ERROR",
    }
    config = folder / "ssh_config"
    config.write_text(f"Host {ALIAS}\n" + "".join(f"    {key} {value}\n" for key, value in settings.items()))
    return Access(config)


def write_initramfs(image: Image, folder: Path, nics: Sequence[Nic]) -> Path:
    """The image's first file system, followed by what this boot alone has."""
    management = Nic(MANAGEMENT, MANAGEMENT_ADDRESS, -1, 0)
    network = "".join(f"{_mac(nic.number)} {nic.name} {nic.address}\n" for nic in (management, *nics))
    handed = cpio.archive(
        {
            "handed": (cpio.FOLDER, b""),
            "handed/network.txt": (cpio.FILE, network.encode()),
            "handed/authorized_keys": (cpio.PRIVATE_FILE, (folder / "key.pub").read_bytes()),
            "handed/host_key": (cpio.PRIVATE_FILE, (folder / "host_key").read_bytes()),
        }
    )
    path = folder / "initramfs"
    path.write_bytes(image.initramfs.read_bytes() + handed)
    path.chmod(0o600)
    return path


def free_port() -> int:
    """A TCP port of this machine that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def left_machines(mark: str) -> list[int]:
    """Processes that are virtual machines of a run, or of `testbed shell`, by its mark."""
    wanted = re.compile(rf"{NAME_PREFIX}{re.escape(mark)}-[a-z]+,debug-threads=on".encode())
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words: Sequence[bytes] = (process / "cmdline").read_bytes().split(b"\0")
            if b"-name" in words and any(wanted.fullmatch(word) for word in words):
                found.append(int(process.name))
    return found
