"""A virtual machine that is driven over SSH; its CPU time is read from QEMU on this machine, without a sampler inside.

It comes from the number of instructions if the CPU has a fixed speed, otherwise from the CPU times of QEMU's threads.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import CpuReading, Host, Sampler, SamplerOutput
from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.parsing import count, parsing
from tunnelbench.host.procfs import TICK_S, CpuTimes, parse_stat
from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess
from tunnelbench.qemu.fixed_speed import MachineWork
from tunnelbench.qemu.instruction_profile import (
    AddressNames,
    ProfileReader,
    Symbols,
    parse_kernel_symbols,
    parse_program_files,
)
from tunnelbench.qemu.machine import VirtualMachine
from tunnelbench.qemu.speed_trial import WORK_IN_BACKGROUND, SpeedTrial, try_speed

WORK_INTERVAL_S = 1.0
"""Interval between two readings of QEMU during a trial [s]. A reading of the lag stops the devices for some 10 ms."""

SHORT_LAG_S = 0.02
"""Lag of a virtual machine's clock at which a trial may start [s]: about what it loses during one command over SSH."""

LEAST_GAIN_S = 0.05
"""Time that the clock must gain during one second, so that another second is waited [s]."""

CATCH_UP_LIMIT_S = 30.0
"""Time limit for a virtual machine's clock to catch up before a trial [s]."""

UNWATCHED_S = 86_400
"""Time for which the watchdog of a lease sleeps on a virtual machine [s], which ends with its run in any case. A look
at the lease takes a MIPS CPU 8 million instructions, as many as 700 packets."""

BUSY_FOR_A_SECOND = ("timeout", "1", "sh", "-c", "while :; do :; done")

GUEST_METHOD = "ticks"
"""Method by which the guest counts the CPU time of its programs."""


class VirtualHost(LeasedHost):
    """A virtual machine as a host: the router, or the tunnel's far end."""

    has_owner = False
    has_own_clock = True
    first_lease_s = UNWATCHED_S
    script_environment = ("env", f"TUNNELBENCH_DUT_NAP_LIMIT_S={UNWATCHED_S}")

    def __init__(
        self, name: str, access: HostAccess, run_id: str, log_folder: Path, via: Host, *, emulated_on: tuple[int, ...]
    ) -> None:
        super().__init__(name, access, run_id, log_folder, via)
        self.emulator: VirtualMachine | None = None
        self.emulated_on = emulated_on
        """CPUs of this machine that QEMU may use."""
        self._modules: list[str] | None = None
        self._kernel = Symbols((), ())
        self.programs_key = "programs" if name == "router" else "far_programs"

    @property
    def cpus_here(self) -> tuple[int, ...]:
        return self.emulated_on

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        if self.emulator is None:
            raise ValueError(f"the virtual {self.name} is not up")
        self.catch_up(self.emulator)
        return WorkSampler(self, self.emulator, daemons)

    def catch_up(self, emulator: VirtualMachine) -> None:
        """Keep a CPU of fixed speed busy until its clock is no longer behind this machine's, or gains no more time.

        The clock loses time while the CPU waits. As long as it is behind, the CPU executes more instructions per second
        than its speed, which a trial must not see. This takes little more than CATCH_UP_LIMIT_S at most.
        """
        deadline = time.monotonic() + CATCH_UP_LIMIT_S
        with suppress(OSError):  # QEMU has ended: the next command on the machine reports it
            lag_s = emulator.work().lag_s or 0.0
            while lag_s > SHORT_LAG_S and time.monotonic() < deadline:
                self.run(BUSY_FOR_A_SECOND, check=False)
                earlier_s, lag_s = lag_s, emulator.work().lag_s or 0.0
                if lag_s > earlier_s - LEAST_GAIN_S:
                    break

    def try_speed(self) -> SpeedTrial | None:
        """Return what this machine executes of a busy CPU of fixed speed; None: the CPU has no fixed speed."""
        if self.emulator is None or self.emulator.speed_mips is None:
            return None
        self.shell(WORK_IN_BACKGROUND)
        with self.blaming_end():
            return try_speed(self.emulator.work, self.emulator.cpu_s, self.emulator.speed_mips)

    @contextmanager
    def blaming_end(self) -> Iterator[None]:
        """Raise LinkLost in place of an OSError, which the block raises if QEMU has ended or does not answer."""
        try:
            yield
        except OSError:
            words = self.emulator.last_words() if self.emulator else "it is not up"
            what = "does not answer" if self.emulator and self.emulator.is_running else "has ended"
            raise LinkLost(f"the virtual {self.name} {what}; {words}") from None

    def account(self, daemons: Sequence[Daemon]) -> Account:
        """Return the CPU times that the guest's kernel counts, in total and for some programs."""
        programs = {daemon.pid: daemon.name for daemon in daemons}
        paths = ["/proc/stat", *(f"/proc/{pid}/stat" for pid in programs)]
        return parse_account(self.run(["cat", *paths], check=False).stdout, programs)

    def address_names(self, daemons: Sequence[Daemon]) -> AddressNames:
        """Return the names of the addresses of the guest's kernel, with its modules, and of some programs."""
        if self.emulator is None:
            raise ValueError(f"the virtual {self.name} is not up")
        modules = re.findall(r"^\S+", self.run(["cat", "/proc/modules"]).stdout, re.MULTILINE)
        if modules != self._modules:  # to list the functions takes the guest some seconds
            self._kernel = parse_kernel_symbols(self.run(["cat", "/proc/kallsyms"]).stdout)
            self._modules = modules
        programs = [
            parse_program_files(self.run(["cat", f"/proc/{daemon.pid}/maps"], check=False).stdout, daemon.name)
            for daemon in daemons
        ]
        return AddressNames(self.emulator.board.kernel_start, self._kernel, programs)

    def require_running(self) -> None:
        """Raises CannotHere with the last line of its console if the machine has ended."""
        if self.emulator is not None and not self.emulator.is_running:
            raise CannotHere(f"the virtual {self.name} has ended; {self.emulator.last_words()}")

    def shut_down(self) -> None:
        """Kill the machine; does nothing when called twice."""
        if self.emulator is not None:
            self.emulator.stop()
            self.emulator = None

    def _as_user(self, folder: Path) -> list[str]:
        return []  # its key is root's


WorkReading = tuple[MachineWork, Mapping[str, int] | None]
"""The work of a virtual CPU, and its instructions by place; None: they are not counted by place."""


@dataclass(frozen=True)
class Account:
    """CPU times that a guest counts in clock ticks [s since boot]."""

    user_s: float
    system_s: float
    softirq_s: float
    programs_s: Mapping[str, float]
    """CPU time by the program's name."""


@parsing("the CPU times of a virtual machine and of its programs")
def parse_account(text: str, programs: Mapping[int, str]) -> Account:
    """Parse /proc/stat of a machine with one CPU, and /proc/PID/stat of some programs (proc_pid_stat(5))."""
    (times,) = parse_stat(text).values()
    spent_s = dict.fromkeys(programs.values(), 0.0)
    for pid, fields in re.findall(r"^(\d+) \(.*\) (.*)$", text, re.MULTILINE):
        user, system = fields.split()[11:13]
        spent_s[programs[count(pid)]] += (count(user) + count(system)) * TICK_S
    return Account(times.user_s, times.system_s, times.softirq_s, spent_s)


class WorkSampler:
    """Reads the work of a virtual machine from QEMU during the traffic.

    No sampler runs in the guest. Before and after the traffic, the guest reports how it divides its CPU time.
    """

    def __init__(self, guest: VirtualHost, emulator: VirtualMachine, daemons: Sequence[Daemon]) -> None:
        self._guest = guest
        self._emulator = emulator
        self._daemons = daemons
        self._samples: SamplerOutput | None = None
        counts = emulator.instruction_counts
        self._profile = ProfileReader(counts, guest.address_names(daemons)) if counts else None
        self._before = guest.account(daemons)
        self._reading = threading.Lock()
        self._readings: list[WorkReading] = []
        self._marked: list[int] = []
        """Places of the readings of `mark_open` and `mark_close`."""
        self._failure: CommandFailed | None = None
        self._read()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read_work, daemon=True)
        self._thread.start()

    def _read(self) -> int:
        """Take a reading and return its place; the thread and the marks take turns."""
        with self._reading, self._guest.blaming_end():
            self._readings.append((self._emulator.work(), self._profile.read() if self._profile else None))
            return len(self._readings) - 1

    def _read_work(self) -> None:
        try:
            while not self._is_over.wait(WORK_INTERVAL_S):
                self._read()
        except CommandFailed as error:  # QEMU has ended, or gives another answer; `stop` raises it in the run's thread
            self._failure = error

    def mark_open(self) -> float:
        self._marked = [self._read()]
        work, _ = self._readings[self._marked[0]]
        return work.lag_s or 0.0

    def mark_close(self) -> None:
        self._marked.append(self._read())

    def stop(self) -> SamplerOutput:
        """End the sampler and return its readings. Raises CommandFailed if QEMU could not be read."""
        if self._samples is None:
            self._is_over.set()
            self._thread.join()
            if self._failure is not None:
                raise self._failure
            after = self._guest.account(self._daemons)
            readings = tuple(cpu_readings(self._readings, self._before, after))
            raw = "".join(f"{work}\n" for work, _ in self._readings)
            self._samples = SamplerOutput(readings, 0.0, raw, tuple(readings[place] for place in self._marked))
        return self._samples


def cpu_readings(readings: Sequence[WorkReading], before: Account, after: Account) -> Iterator[CpuReading]:
    """Convert the work of a virtual machine with one CPU into readings of that CPU.

    The guest's own figures over the whole time divide the work into user, system, softirq and programs. They are used
    as shares only: they were read earlier than the first work and later than the last one.
    """
    first, _ = readings[0]
    split = [after.user_s - before.user_s, after.system_s - before.system_s, after.softirq_s - before.softirq_s]
    counted_s = sum(split)
    user, system, softirq = [part / counted_s for part in split] if counted_s > 0 else (0.0, 1.0, 0.0)
    shares = {
        name: (spent_s - before.programs_s[name]) / counted_s if counted_s > 0 else 0.0
        for name, spent_s in after.programs_s.items()
    }
    for work, places in readings:
        busy_s = work.busy_s - first.busy_s
        idle_s = work.clock_s - first.clock_s - busy_s
        times = CpuTimes(busy_s * user, busy_s * system, idle_s, busy_s * softirq, steal_s=0.0)
        spent_s = {name: busy_s * share for name, share in shares.items()} if shares else None
        method = GUEST_METHOD if shares else ""
        yield CpuReading(work.clock_s, {0: times}, spent_s, method, work.instructions, work.lag_s, places)
