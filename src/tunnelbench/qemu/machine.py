"""A running virtual machine of QEMU, and the work of its CPU."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.autogroup import HIGHEST_NICE, LOWEST_NICE, set_session_nice
from tunnelbench.host.command import DIE_WITH_CONTROLLER, kill_session, run_command, start_process
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.programs import require_programs
from tunnelbench.host.realtime import set_realtime, threads_of
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.frames import ETHERNET_MTU_BYTES
from tunnelbench.qemu import cpio
from tunnelbench.qemu.boards import Board
from tunnelbench.qemu.fixed_speed import MachineWork, Monitor, speed_options
from tunnelbench.qemu.image import Image
from tunnelbench.qemu.instruction_profile import compile_plugin, plugin_options
from tunnelbench.qemu.processes import machine_processes, name_option
from tunnelbench.qemu.programs import handed_programs

MACHINE_BOOT_LIMIT_S = 120.0
"""Time limit from QEMU's start to the start of the SSH server dropbear [s]; about 7 s on a quiet machine."""

BOOT_MILLION_INSTRUCTIONS = 15000.0
"""Number of instructions for which a machine of fixed speed may boot, divided by 10^6; a PC boots in 6900."""

DEVICES_NICE = -10
"""Nice value of the thread that emulates devices on a kernel without autogroups: after the virtual CPU, before other
programs."""

CPU_PRIORITY, OTHER_PRIORITY = 2, 1
"""Real-time priorities of the thread of a virtual CPU, and of QEMU's other threads, in `VirtualMachine.in_realtime`."""

ALIAS = "tunnelbench-router"
"""Name of the virtual router in its ssh_config."""

MONITOR_START_LIMIT_S = 10.0
"""Longest wait for QEMU's monitor after the start of QEMU [s]."""

AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
"""Holds 1 if the kernel shares a CPU between sessions first (sched(7))."""

READY = "tunnelbench: ready"

CPU_THREAD = "/TCG"
"""End of the name of QEMU's thread of the virtual CPU, such as "ALL CPUs/TCG"."""

MAC_PREFIX = "52:54:00:54:42"
"""Beginning of MAC addresses, in QEMU's own range; the last byte is the number of the device."""

SSH_PROGRAMS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
"""Programs that are needed in addition to QEMU, each with its Debian package."""

VIRTIO_OFFLOADS = (
    "csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo", "guest_csum", "guest_tso4", "guest_tso6",
    "guest_ecn", "guest_ufo",
)  # fmt: skip
"""Offloads of virtio that merge packets into one frame, or leave the checksum to another machine (rules 1 and 2)."""


@dataclass(frozen=True)
class Nic:
    """A network device of a virtual machine, on a tester's tap or on a cable to another virtual machine."""

    name: str
    address: str
    """IPv4 address with its prefix length, such as 198.18.1.1/24."""
    descriptor: int
    """File descriptor of the tap, or of one end of a cable (a socket pair on which each datagram is a frame)."""
    number: int
    """Number of the device, 1 to 255; unique in a run."""
    is_tap: bool = True
    mtu_bytes: int = ETHERNET_MTU_BYTES

    def device(self) -> str:
        """Return the value of QEMU's option -device."""
        settings = [f"{offload}=off" for offload in VIRTIO_OFFLOADS]
        # Without this, each of the device's buffers has 1518 bytes, and QEMU drops larger frames without a word.
        settings.append(f"mrg_rxbuf={'on' if self.mtu_bytes > ETHERNET_MTU_BYTES else 'off'}")
        return ",".join(["virtio-net-pci", f"netdev={self.name}", f"mac={_mac(self.number)}", "romfile=", *settings])

    def backend(self) -> str:
        """Return the value of QEMU's option -netdev."""
        if self.is_tap:
            return f"tap,id={self.name},fd={self.descriptor}"
        return f"dgram,id={self.name},local.type=fd,local.str={self.descriptor}"


MANAGEMENT = Nic("mgmt", "10.0.2.15/24", -1, 0)
"""The device in QEMU's user-mode network (-netdev user), which carries SSH."""


def cable() -> tuple[int, int]:
    """Make a cable between two machines and return the descriptors of its ends, which the caller closes."""
    return tuple(end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))  # type: ignore[return-value]


def read_threads(pid: int) -> MachineWork:
    """Read the CPU times of a process's threads, from schedstat (Documentation/scheduler/sched-stats.rst).

    Threads that only read the disk are left out: they start and end all the time.
    """
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has just ended
            if (task / "comm").read_text().strip() != "worker":
                spent_ns += int((task / "schedstat").read_text().split()[0])
    return MachineWork(time.monotonic(), spent_ns / 1e9)


class VirtualMachine:
    """A virtual machine: the constructor starts it, `wait_until_up` waits for its boot, and `stop` ends it."""

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
        speed_mips: float | None = None,
        programs: Mapping[str, bytes] | None = None,
        is_first: bool = False,
        has_profile: bool = False,
    ) -> None:
        """Start the machine.

        `role` is one word in small letters. `cpus` are the CPUs of this machine that it may use; none: all.
        `speed_mips` is one of SPEEDS_MIPS; None: QEMU emulates as many instructions as it can. `programs` are files
        that the script INSTALL_SCRIPT (qemu/programs.py) finds on the machine, by name. `is_first`: it runs before
        other programs. `has_profile`: its instructions are counted by address, in the file `instruction_counts`.
        """
        require_machine_programs(board)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.board = board
        self.speed_mips = speed_mips
        self._is_first = is_first
        self._monitor: Monitor | None = None
        self._monitor_path = folder / "monitor"
        self.instruction_counts = folder / "instruction_counts" if has_profile else None
        """File of the instructions by address; None: they are not counted by address."""
        with ExitStack() as stack:
            port = stack.enter_context(reserved_port())
            self.ssh_config = write_access(folder, port)
            initramfs = write_initramfs(image, folder, nics, programs or {})
            argv = Boot(board, image, initramfs, f"{mark}-{role}", port, nics).command()
            if speed_mips is not None:
                argv += speed_options(speed_mips, self._monitor_path)
            if self.instruction_counts:
                argv += plugin_options(compile_plugin(board.program, folder), self.instruction_counts)
            if cpus:
                argv = ["taskset", "-c", ",".join(map(str, cpus)), *argv]
            self._daemon = Daemon(argv, folder / "console.log", "QEMU", pass_fds=[nic.descriptor for nic in nics])
            stack.callback(self._daemon.kill)  # it has nothing to save, and may hang on SIGTERM
            self._stack = stack.pop_all()
        if is_first:
            run_first(self._daemon.pid)

    def wait_until_up(self, limit_s: float = MACHINE_BOOT_LIMIT_S) -> None:
        """Wait until the SSH server answers. Raises CannotHere if none answers."""
        if self.speed_mips is not None:
            limit_s = max(limit_s, BOOT_MILLION_INSTRUCTIONS / self.speed_mips)
        if not self._daemon.wait_for(READY, limit_s):
            ended = "ended" if not self._daemon.is_running else f"was not up in {limit_s:g} s"
            raise CannotHere(f"the virtual router {self.board.name} {ended}; {self.last_words()}")
        self.connect_monitor()

    def connect_monitor(self) -> None:
        """Connect to QEMU's monitor, from which the work of a CPU of fixed speed is read; does nothing for others.

        A machine that goes before other programs then has its virtual CPU before its devices.
        """
        if self.speed_mips is None:
            return
        deadline = time.monotonic() + MONITOR_START_LIMIT_S
        while not self._monitor_path.exists() and self.is_running and time.monotonic() < deadline:
            time.sleep(0.01)  # QEMU has just been started
        self._monitor = Monitor(self._monitor_path, self.speed_mips)
        self._stack.callback(self._monitor.close)
        if self._is_first:  # the monitor has answered, so that the thread of the virtual CPU exists and keeps its value
            run_devices_second(self._daemon.pid)

    def stop(self) -> None:
        """Kill the machine; a second call has no effect."""
        self._stack.close()

    @contextmanager
    def in_realtime(self) -> Iterator[bool]:
        """Let QEMU run before all programs of a normal class while the block runs; yields False if that is refused.

        The virtual CPU comes before the devices, as in `run_devices_second`. This is for a machine that mostly waits:
        one that is always busy would leave no time to the other programs on its CPU.
        """
        try:
            for thread, name in threads_of(self._daemon.pid).items():
                with suppress(ProcessLookupError):  # it has just ended, as threads that read the disk do
                    set_realtime(thread, CPU_PRIORITY if name.endswith(CPU_THREAD) else OTHER_PRIORITY)
            is_done = True
        except OSError:
            is_done = False
        try:
            yield is_done
        finally:
            for thread in threads_of(self._daemon.pid):
                with suppress(OSError):  # it has just ended
                    set_realtime(thread, 0)

    @property
    def is_running(self) -> bool:
        return self._daemon.is_running

    def work(self) -> MachineWork:
        """Read the work of the virtual CPU: from its number of instructions, or from the CPU times of QEMU's threads.

        Raises OSError if QEMU has ended.
        """
        return read_threads(self._daemon.pid) if self._monitor is None else self._monitor.work()

    def cpu_s(self) -> float:
        """Return the CPU time that QEMU has taken so far [s]. Raises OSError if QEMU has ended."""
        return read_threads(self._daemon.pid).busy_s

    def last_words(self) -> str:
        """Return a phrase that quotes the last line on the machine's console."""
        return f"the last line on its console is: {self._daemon.last_line()}"


def run_first(pid: int) -> bool:
    """Give a program the highest scheduling priority (nice value -20). Returns False if the system refuses it.

    A kernel with autogroups shares a CPU between sessions first, whatever the nice values of their processes are, so
    that the session of the program gets the same value (sched(7)). A real-time class is only for trials in which the
    machine mostly waits (`VirtualMachine.in_realtime`): a busy one would leave no time to others on its CPU.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, pid, HIGHEST_NICE)
        set_session_nice(pid, HIGHEST_NICE)
    except OSError:
        return False
    return True


def can_run_first() -> bool:
    """Return True if `run_first` is allowed here, which a program that only waits shows.

    A container without CAP_SYS_NICE refuses it, even to root.
    """
    with start_process([*DIE_WITH_CONTROLLER, "sleep", "60"]) as process:
        try:
            return run_first(process.pid)
        finally:
            kill_session(process)


def run_devices_second(pid: int) -> None:
    """Let the main thread of a QEMU that `run_first` has put first wait for the virtual CPU.

    The main thread emulates the devices. With equal values it interrupts the virtual CPU for each packet, and how soon
    it does so depends on the other work of this machine. The router then handled fewer or more packets in one
    interrupt, and its throughput moved by up to 5 %. With autogroups, nice values count within a session only, so that
    the thread can have the lowest one.
    """
    nice = LOWEST_NICE if _has_autogroup(pid) else DEVICES_NICE
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)  # on Linux, only the thread whose number is the process's


def _has_autogroup(pid: int) -> bool:
    """Return True if the session of a process is scheduled as one group, and goes before others."""
    try:
        is_on = AUTOGROUPS.read_text().strip() == "1"
        return is_on and Path(f"/proc/{pid}/autogroup").read_text().split()[-1] == str(HIGHEST_NICE)
    except (OSError, IndexError):
        return False


def require_machine_programs(board: Board) -> None:
    """Raises CannotHere with the missing programs that starting the board needs."""
    require_programs({board.program: board.package, **SSH_PROGRAMS}, f"the virtual router {board.name}")


@dataclass(frozen=True)
class Boot:
    """The parameters of a start of QEMU."""

    board: Board
    image: Image
    initramfs: Path
    name: str
    """Name of the machine: the mark of its run and its role."""
    port: int
    """TCP port of this machine that leads to the SSH server."""
    nics: Sequence[Nic] = ()

    def command(self, *, on_terminal: bool = False) -> list[str]:
        """Return the argument list; with `on_terminal` the console is the terminal and has a shell."""
        board = self.board
        # Programs lie at the same addresses at each start. With random ones, the instructions of a packet in the same
        # OpenVPN differed by up to 30 % from start to start; a MIPS kernel handles each miss of the TLB in software.
        arguments = [f"console={board.console}", "panic=-1", "quiet", "norandmaps", board.kernel_arguments]
        arguments += ["tunnelbench.level"] if board.interrupts_are_edge_triggered else []
        arguments += ["tunnelbench.shell"] if on_terminal else []
        # fmt: off
        argv = [
            board.program, "-name", name_option(self.name), *board.hardware, "-m", board.memory,
            "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
            "-kernel", str(self.image.kernel), "-initrd", str(self.initramfs),
            "-append", " ".join(filter(None, arguments)),
            "-drive", f"file={self.image.disk},if=none,id=disk,format=raw,readonly=on",
            # A Malta has four slots: the disk and three network devices fill them (arch/mips/pci/fixup-malta.c).
            "-device", "virtio-blk-pci,drive=disk",
            # The controller reaches the machine on this device; the machine itself reaches nothing.
            "-netdev", f"user,id={MANAGEMENT.name},restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device", MANAGEMENT.device(),
        ]
        for nic in self.nics:
            argv += ["-netdev", nic.backend(), "-device", nic.device()]
        # fmt: on
        return argv


def _mac(number: int) -> str:
    return f"{MAC_PREFIX}:{number:02x}"


def write_access(folder: Path, port: int) -> Path:
    """Make new SSH keys, host key included, for one boot of a virtual machine, and return the path of an ssh_config
    that uses them."""
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
    return config


def write_initramfs(image: Image, folder: Path, nics: Sequence[Nic], programs: Mapping[str, bytes]) -> Path:
    """Write the image's initramfs, followed by a second archive with the files of this boot."""
    network = "".join(f"{_mac(nic.number)} {nic.name} {nic.address}\n" for nic in (MANAGEMENT, *nics))
    handed = cpio.archive(
        {
            "handed": (cpio.FOLDER_MODE, b""),
            "handed/network.txt": (cpio.FILE_MODE, network.encode()),
            "handed/authorized_keys": (cpio.PRIVATE_FILE_MODE, (folder / "key.pub").read_bytes()),
            "handed/host_key": (cpio.PRIVATE_FILE_MODE, (folder / "host_key").read_bytes()),
            **handed_programs(programs),
        }
    )
    path = folder / "initramfs"
    path.write_bytes(image.initramfs.read_bytes() + handed)
    path.chmod(0o600)
    return path


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a TCP port of this machine during the block, for a program that binds it with SO_REUSEADDR, as QEMU does.

    Linux gives the port of a socket that is bound and does not listen to no program that asks for any free port, and to
    no outgoing connection. A program that names the port can have it if both sockets have SO_REUSEADDR (socket(7)).
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def left_machines(mark: str) -> list[int]:
    """List the processes of virtual machines of a run, or of `testbed shell`, by its mark."""
    return machine_processes(rf"{re.escape(mark)}-[a-z]+")
