"""A virtual machine as SSH shows it, its CPU as this machine sees it.

How busy it was is told by QEMU's threads on this machine: held to a share of a CPU, a guest takes the time in which it
stands still for idle.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import CpuReading, Host, Sampler, Samples
from tunnelbench.host.lent import LentHost
from tunnelbench.host.procfs import TICK_S, CpuTimes, parse_stat
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Access
from tunnelbench.qemu.machine import Machine, Threads

LOOK_EVERY_S = 0.5
"""At QEMU's threads, in a trial."""

METHOD = "ticks"
"""How the guest counts what its programs use."""


class VirtualHost(LentHost):
    """A router, or a tunnel's far end, that QEMU emulates."""

    def __init__(
        self, name: str, access: Access, run_id: str, log_folder: Path, via: Host, *, emulated_on: tuple[int, ...]
    ) -> None:
        super().__init__(name, access, run_id, log_folder, via)
        self.emulator: Machine | None = None
        self.emulated_on = emulated_on
        """This machine's CPUs that QEMU may use."""

    @property
    def cpus_here(self) -> tuple[int, ...]:
        return self.emulated_on

    def sampler(self, daemons: Sequence[Daemon], limit_s: float) -> Sampler | None:
        if self.emulator is None:
            raise ValueError(f"the virtual {self.name} is not up")
        return ThreadSampler(self, self.emulator, daemons)

    def account(self, daemons: Sequence[Daemon]) -> Account:
        """What the guest itself says of its CPU, and of some of its programs."""
        programs = {daemon.pid: daemon.name for daemon in daemons}
        paths = ["/proc/stat", *(f"/proc/{pid}/stat" for pid in programs)]
        return parse_account(self.run(["cat", *paths], check=False).stdout, programs)

    def require_running(self) -> None:
        """Raises CannotHere with its last words where it has ended."""
        if self.emulator is not None and not self.emulator.is_running:
            raise CannotHere(f"the virtual {self.name} has ended; {self.emulator.last_words()}")

    def shut_down(self) -> None:
        """End it at once; does no harm when called twice."""
        if self.emulator is not None:
            self.emulator.stop()
            self.emulator = None

    def _as_user(self, folder: Path) -> list[str]:
        return []  # its key is root's


@dataclass(frozen=True)
class Account:
    """What a guest counts, in clock ticks [s since boot]."""

    user_s: float
    system_s: float
    softirq_s: float
    programs_s: Mapping[str, float]
    """By the program's name."""


def parse_account(text: str, programs: Mapping[int, str]) -> Account:
    """/proc/stat of a machine with one CPU, and /proc/PID/stat of some programs (proc_pid_stat(5)); no I/O."""
    (times,) = parse_stat(text).values()
    spent_s = dict.fromkeys(programs.values(), 0.0)
    for pid, fields in re.findall(r"^(\d+) \(.*\) (.*)$", text, re.MULTILINE):
        user, system = fields.split()[11:13]
        spent_s[programs[int(pid)]] += (int(user) + int(system)) * TICK_S
    return Account(times.user_s, times.system_s, times.softirq_s, spent_s)


class ThreadSampler:
    """Looks at QEMU's threads beside the traffic. In the guest nothing runs for it: before and after it, it is asked
    what part of its work was whose."""

    def __init__(self, guest: VirtualHost, emulator: Machine, daemons: Sequence[Daemon]) -> None:
        self._guest = guest
        self._emulator = emulator
        self._daemons = daemons
        self._samples: Samples | None = None
        self._before = guest.account(daemons)
        self._looks = [emulator.threads()]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with suppress(OSError):  # it has died: the trial finds that out
            while not self._is_over.wait(LOOK_EVERY_S):
                self._looks.append(self._emulator.threads())

    def stop(self) -> Samples:
        if self._samples is None:
            self._is_over.set()
            self._thread.join()
            after = self._guest.account(self._daemons)
            share = (self._emulator.share_percent or 100.0) / 100.0
            readings = read_looks(self._looks, share, self._before, after)
            raw = "".join(f"{look.clock_s:.6f} {dict(look.spent_s)}\n" for look in self._looks)
            self._samples = Samples(tuple(readings), 0.0, raw)
        return self._samples


def read_looks(looks: Sequence[Threads], share: float, before: Account, after: Account) -> Iterator[CpuReading]:
    """What QEMU's threads say of a guest's CPU, as it is read elsewhere; no I/O.

    Its one CPU is `share` of this machine's: it is busy for all of a second in which QEMU uses up that much. What part
    of that was the user's, the system's, softirqs' or a program's is the guest's own word, for the whole time.
    """
    first = looks[0]
    split = [after.user_s - before.user_s, after.system_s - before.system_s, after.softirq_s - before.softirq_s]
    counted_s = sum(split)
    user, system, softirq = [part / counted_s for part in split] if counted_s > 0 else (0.0, 1.0, 0.0)
    total_s = (looks[-1] - first).total_s
    programs_s = {name: spent_s - before.programs_s[name] for name, spent_s in after.programs_s.items()}
    for look in looks:
        spent = look - first
        busy_s = spent.total_s / share
        so_far = spent.total_s / total_s if total_s > 0 else 0.0
        times = CpuTimes(busy_s * user, busy_s * system, spent.clock_s - busy_s, busy_s * softirq, steal_s=0.0)
        spent_s = {name: whole_s * so_far for name, whole_s in programs_s.items()} if programs_s else None
        yield CpuReading(look.clock_s, {0: times}, spent_s, METHOD if programs_s else "")
